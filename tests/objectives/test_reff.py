import pytest
import torch
from tests.reference import explainers, focus
from torch import nn

import rightreasons as rr
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.objectives import CrossEntropy, ReFF, ReFFL1, ReFFL2
from rightreasons.objectives.reff import normalised_map

BATCH = rr.Batch(x=torch.rand(2, 1, 4, 4), y=torch.tensor([0, 1]), mask=torch.ones(2, 1, 4, 4))


def net():
    torch.manual_seed(0)  # a layer of two channels may be dead, and a dead layer is passed over
    return nn.Sequential(
        *(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)),
    )


def test_layers_are_looked_for_once_for_each_model(monkeypatch):
    term, model = ReFF(), net()
    asked = []
    original = rr.objectives.reff.resolution_layers

    def counted(model, x):
        asked.append(model)
        return original(model, x)

    monkeypatch.setattr(rr.objectives.reff, "resolution_layers", counted)
    objective = term.as_objective()
    for _ in range(3):
        objective(model, BATCH)
    assert asked == [model]
    assert term.layers_in(model, BATCH.x) == ("1", "4")
    other = nn.Sequential(net(), nn.Identity())
    objective(other, BATCH)
    assert term.layers_in(other, BATCH.x) == ("0.1", "0.4")


def test_one_backward_pass_serves_all_layers():
    model, backwards = net(), []
    model[-1].register_full_backward_hook(lambda *_: backwards.append(1))
    rr.explainers.resolution_layers(model, BATCH.x)  # found out once for a model
    backwards.clear()
    loss = ReFF().as_objective()(model, BATCH)
    assert len(backwards) == 1
    loss.backward()
    assert all(parameter.grad is not None for parameter in model[:-1].parameters())


def test_weights_are_by_layer():
    model = net()
    layers = [ReFF(layers=name, layer_weights=[1.0]).as_objective() for name in ("1", "4")]
    values = [one(model, BATCH).total.item() for one in layers]
    both = ReFF(layers=["1", "4"], layer_weights=(2.0, 3.0)).as_objective()
    assert both(model, BATCH).total.item() == pytest.approx(2 * values[0] + 3 * values[1])
    own = ReFF().as_objective()(model, BATCH).total.item()
    assert own == pytest.approx(values[0] + 4 * values[1])  # 16 pixels, 16 and 4 cells


@pytest.mark.parametrize("make", [ReFF, ReFFL1, ReFFL2])
def test_a_ramp_lets_the_term_grow_to_its_weight(make):
    model, whole = net(), make().as_objective()
    grown = make(ramp=0.5).as_objective()
    grown.prepare(BATCH, num_passes=4)
    full = whole(model, BATCH).total.item()
    values = [grown(model, BATCH).total.item() for _ in range(4)]
    assert values == pytest.approx([0, full / 2, full, full])


@pytest.mark.parametrize("make", [ReFF, ReFFL1, ReFFL2])
def test_an_automatic_weight_is_that_of_the_grown_term(make):
    torch.manual_seed(0)
    model, half = net().double(), torch.zeros(2, 1, 4, 4).double()
    half[..., :2] = 1
    batch = rr.Batch(x=torch.rand(2, 1, 4, 4).double(), y=BATCH.y, mask=half)
    whole = CrossEntropy() + "auto" * make()
    grown = CrossEntropy() + "auto" * make(ramp=0.5)
    grown.prepare(batch, num_passes=320)
    name = make().name
    expected = whole(model, batch).weights[name]
    weights = [grown(model, batch).weights[name] for _ in range(25)]
    assert weights[0] == 0  # nor has the term any value yet
    assert weights[1:] == pytest.approx([expected] * 24)
    assert grown.auto_weights[name].settled
    assert grown.terms[name].grown == pytest.approx(24 / 160)


@pytest.mark.parametrize("make", [ReFF, ReFFL1, ReFFL2])
def test_maps_that_are_zero_give_zero_and_no_gradient(make):
    model = net()
    with torch.no_grad():
        model[-1].weight.abs_().neg_()  # features speak against every class
        model[3].bias.fill_(1.0)
    loss = make(layers="4").as_objective()(model, BATCH)
    assert loss.total.item() == 0
    loss.backward()
    for parameter in model.parameters():
        assert parameter.grad is None or not parameter.grad.any()


@pytest.mark.parametrize("make", [ReFF, ReFFL1, ReFFL2])
def test_a_net_that_is_dead_gives_no_nan(make):
    model = net()
    nn.init.zeros_(model[-1].weight)
    nn.init.zeros_(model[0].weight)
    loss = make().as_objective()(model, BATCH)
    loss.backward()
    assert loss.total.item() == 0
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


def test_maps_of_any_size_are_normalised_to_shares():
    heat = torch.tensor([[[1.0, 1.0], [1.0, 1.0]], [[1e-25, 0.0], [0.0, 0.0]]])
    cam, alive = normalised_map(heat, (8, 8))
    assert alive.tolist() == [True, False]  # too small to be divided by
    torch.testing.assert_close(cam[0], torch.full((8, 8), 1 / 64))
    assert not cam[1].any()
    mostly_negative = torch.tensor([[[1e-8, -1.0]]])
    assert normalised_map(mostly_negative, (1, 2))[1].tolist() == [False]


def test_masks_over_channels_count_by_their_mean():
    x = torch.rand(2, 3, 4, 4)
    model = nn.Sequential(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
    single = rr.Batch(x=x, y=BATCH.y, mask=torch.full((2, 1, 4, 4), 1 / 3))
    third = torch.zeros(2, 3, 1, 1)
    third[:, 0] = 1
    objective = ReFF().as_objective()
    several = objective(model, single.replace(mask=third)).total
    torch.testing.assert_close(several, objective(model, single).total)


def test_errors():
    with pytest.raises(InvalidSettingError, match="Expected `layers` to name at least one layer"):
        ReFF(layers=[])
    for layers in (4, [4], ["1", None]):
        with pytest.raises(InvalidSettingError, match=r"name of a layer or several.*Name them, su"):
            ReFF(layers=layers)
    for weights in (5.0, "12"):
        with pytest.raises(InvalidSettingError, match=r"one number for each layer, but got .*list"):
            ReFF(layer_weights=weights)
    with pytest.raises(InvalidSettingError, match="`layer_weights` to be a finite number above 0"):
        ReFF(layer_weights=[1.0, 0.0])
    with pytest.raises(InvalidSettingError, match=r"for each of the layers 1, 4, but got 3"):
        ReFF(layer_weights=[1.0, 2.0, 3.0]).as_objective()(net(), BATCH)
    flat = rr.Batch(x=torch.rand(2, 4), y=BATCH.y, mask=torch.ones(2, 4))
    with pytest.raises(InvalidBatchError, match=r"images \(N, C, H, W\) for ReFF.*\(2, 4\)"):
        ReFF(layers="0").as_objective()(nn.Sequential(nn.Linear(4, 2)), flat)
    with pytest.raises(InvalidSettingError, match="Expected a model with convolutional features"):
        ReFF().as_objective()(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), BATCH)


def test_terms_on_the_same_layers_share_the_pass():
    seen = []

    class Seen(rr.Term):
        def forward(self, probe):
            seen.append(probe.layers)
            return probe.logits[:, 0]

    objective = ReFF(layers=["4", "1"]) + ReFFL1(layers="4") + Seen()
    objective(net(), BATCH)
    assert seen == [("4", "1")]


def test_the_papers_weights_are_pixels_a_cell():
    own = [ReFF().default_weight(side**2, 224**2) for side in (56, 28, 14, 7)]
    assert own == [16, 64, 256, 1024]
    paper = (15, 60, 250, 1000)
    assert all(abs(a - b) / b < 0.07 for a, b in zip(own, paper, strict=True))


def test_a_map_inside_the_mask_costs_and_one_outside_does_not():
    cam = torch.zeros(1, 4, 4)
    cam[0, 0, 0] = 1.0
    mask = torch.zeros(1, 4, 4)
    mask[0, :2, :2] = 1
    assert ReFF().distance(cam, mask).item() == 1
    assert ReFF().distance(cam, 1 - mask).item() == 0


@pytest.mark.parametrize(
    ("name", "make", "own"),
    [
        ("reff", ReFF, [16 / 16, 16 / 4]),
        ("reff_l1", ReFFL1, [1.0, 1.0]),
        ("reff_l2", ReFFL2, [1.0, 1.0]),
    ],
)
def test_equals_its_slow_twin(name, make, own):
    assert make().name == name
    model = explainers.cnn(nn.Softplus).eval()  # maps of 4×4 and 2×2
    batch = rr.Batch(
        x=torch.rand(3, 2, 4, 4, dtype=torch.float64),
        y=torch.tensor([0, 1, 2]),
        mask=torch.rand(3, 1, 4, 4, dtype=torch.float64),
    )
    expected = torch.tensor(focus.cam_terms(model, batch, [2, 6])[name], dtype=torch.float64)
    assert expected.any(dim=0).all()
    probe = rr.Probe(model, batch, needs_gradient=True, layers=["2", "6"])
    given = make(layers=["2", "6"], layer_weights=[3.0, 0.5])(probe)
    weights = torch.tensor([[3.0, 0.5], own], dtype=torch.float64)
    torch.testing.assert_close(given, expected @ weights[0], rtol=1e-5, atol=1e-9)
    torch.testing.assert_close(make()(probe), expected @ weights[1], rtol=1e-5, atol=1e-9)


def test_distances_are_almost_a_constant_plus_twice_the_share_inside_the_mask():
    cam, mask = torch.rand(5, 6, 6), (torch.rand(5, 6, 6) < 0.4).float()
    cam = cam / cam.sum(dim=(1, 2), keepdim=True)
    shares = (1 - mask).sum(dim=(1, 2)) + 2 * (cam * mask).sum(dim=(1, 2))
    torch.testing.assert_close(ReFFL1().distance(cam, mask), shares - 1)
    norm = cam.square().sum(dim=(1, 2))
    torch.testing.assert_close(ReFFL2().distance(cam, mask), shares - 2 + norm)
