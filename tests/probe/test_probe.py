import copy
import weakref

import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.core.model_modes import depends_on_mode
from rightreasons.errors import (
    DoubleBackwardError,
    InvalidBatchError,
    NonFiniteLossError,
    UnknownNameError,
)
from rightreasons.probe.probe import move_to_model, strongest_need


@pytest.mark.parametrize("target", list(rr.Target))
def test_gradients_are_each_samples_own(tiny_net, tiny_batch, target):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    gradient = probe.gradient(target)
    for n in range(len(tiny_batch)):
        x = tiny_batch.x[n : n + 1].clone().requires_grad_()
        (alone,) = torch.autograd.grad(target(tiny_net(x), tiny_batch.y[n : n + 1]).sum(), x)
        torch.testing.assert_close(gradient[n], alone[0])
    assert probe.gradient(str(target)) is gradient


def test_the_gradient_of_a_gradient_is_right(tiny_net, tiny_batch):
    tiny_net.eval()

    def penalty(x):
        batch = rr.Batch.trusted(x=x, y=tiny_batch.y)
        return rr.Probe(tiny_net, batch, needs_gradient=True).gradient().square().sum()

    x = tiny_batch.x.clone().requires_grad_()
    (second,) = torch.autograd.grad(penalty(x), x)
    direction = torch.randn_like(x)
    ends = [penalty((x + step * direction).detach()).item() for step in (1e-6, -1e-6)]
    slope = (second * direction).sum().item()
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_at_moves_nothing_and_draws_nothing(tiny_batch):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(32, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3)
    ).double()
    model(tiny_batch.x)
    twin = copy.deepcopy(model).eval()
    probe = rr.Probe(model, tiny_batch, needs_gradient=True)
    before = copy.deepcopy(model.state_dict())
    other = torch.rand_like(tiny_batch.x)
    state = torch.get_rng_state()
    at = probe.at(other)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(module.training for module in model.modules())
    twin.load_state_dict(before)
    torch.testing.assert_close(at.logits, twin(other))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_at_test_time_keeps_the_statistics_it_saw(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model = model.double().train()
    early = rr.Probe.at_test_time(model, tiny_batch, needs_gradient=True)
    expected = rr.Probe.at_test_time(
        copy.deepcopy(model), tiny_batch, needs_gradient=True
    ).gradient("logit")
    model(tiny_batch.x)  # moves the statistics in place
    torch.testing.assert_close(early.gradient("logit"), expected)


def test_stacked_copies_equal_a_loop_under_any_ceiling(tiny_net, tiny_batch):
    tiny_net.eval()
    copies = torch.rand(3, *tiny_batch.x.shape, dtype=torch.float64)
    sizes = []

    def masked(at):
        sizes.append(len(at.batch))
        return (at.mask * at.gradient()).flatten(1).sum(dim=1)

    looped = torch.stack(
        [masked(rr.Probe(tiny_net, tiny_batch.replace(x=x), needs_gradient=True)) for x in copies]
    )
    for ceiling, expected in ((None, [18]), (7, [7, 7, 4]), (1, [1] * 18)):
        sizes.clear()
        probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True, max_rows=ceiling)
        torch.testing.assert_close(probe.each_at(copies, masked), looped)
        assert sizes == expected
    assert not probe.each_at(copies, masked).requires_grad
    assert probe.each_at(copies, masked, create_graph=True).requires_grad


def test_copies_that_need_no_gradient_keep_no_graph(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    kept = []

    def graph(at):
        kept.append(at.logits.requires_grad)
        return at.logits

    probe.each_at(probe.features.detach()[None], graph, needs_gradient=False)
    probe.each_at(probe.features.detach()[None], graph)
    assert kept == [False, True]


def test_at_takes_stacked_copies_with_a_graph(tiny_net, tiny_batch):
    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True)
    shift = torch.zeros_like(tiny_batch.x, requires_grad=True)
    at = probe.at(torch.cat([tiny_batch.x, tiny_batch.x + shift]))
    torch.testing.assert_close(at.logits[:6], probe.logits)
    assert at.batch.y.tolist() == tiny_batch.y.tolist() * 2
    at.gradient().square().sum().backward()
    assert shift.grad.abs().sum() > 0
    with pytest.raises(InvalidBatchError, match="multiple of 6 samples, but got 4"):
        probe.at(tiny_batch.x[:4])


def test_activations_of_named_layers(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    probe = rr.Probe(model, tiny_batch, layers=["1", "2"])
    torch.testing.assert_close(probe.activations["2"], probe.activations["1"].relu())
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(UnknownNameError, match="Expected a layer of the model, but got '7'"):
        rr.Probe(model, tiny_batch, layers=["7"])


def test_no_hook_survives_a_failing_forward(tiny_batch):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x):
            self.inner(x)
            raise RuntimeError("on purpose")

    model = Fails()
    with pytest.raises(RuntimeError, match="on purpose"):
        rr.Probe(model, tiny_batch, layers=["inner"], needs_gradient=True)
    assert not model.inner._forward_hooks


def test_others_can_read_but_not_change_it(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch)
    public = [name for name in dir(rr.Probe) if isinstance(getattr(rr.Probe, name), property)]
    assert {"batch", "features", "logits", "activations", "model", "masked"} <= set(public)
    for name in public:
        with pytest.raises(AttributeError):
            setattr(probe, name, None)


def test_other_labels_share_the_pass_and_not_its_gradients(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch, needs_gradient=True, layers=["0"])
    before = probe.gradient()
    other = (tiny_batch.y + 1) % 3
    replaced = probe.replace(y=other, activations={"first": probe.activations["0"]})
    assert replaced.logits is probe.logits
    assert list(replaced.activations) == ["first"]
    assert probe.gradient() is before
    expected = rr.Probe(tiny_net, tiny_batch.replace(y=other), needs_gradient=True).gradient()
    torch.testing.assert_close(replaced.gradient(), expected)


def test_a_released_graph_leaves_the_values(tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net, tiny_batch, layers=["0"])
    values = probe.logits.tolist()
    assert probe.logits.requires_grad
    probe.release_graph()
    assert probe.logits.tolist() == values
    assert not probe.logits.requires_grad
    assert not probe.activations["0"].requires_grad


def test_token_masks_reach_embeddings():
    batch = rr.Batch(x=torch.rand(2, 5), y=torch.tensor([0, 1]), mask=torch.ones(2, 5))
    probe = rr.Probe(nn.Linear(5, 2), batch)
    probe._features = torch.rand(2, 5, 7)
    assert probe.mask.shape == (2, 5, 1)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(32, 2)), "labels from 0 to 1.* but got 2"),
        (nn.Conv2d(2, 3, 1), r"logits of shape \(6, classes\), but got \(6, 3, 4, 4\)"),
        (nn.Sequential(nn.Flatten(0)), r"but got \(192,\).*binary model needs two outputs"),
    ],
)
def test_models_that_do_not_fit(tiny_batch, model, words):
    with pytest.raises(InvalidBatchError, match=words):
        rr.Probe(model.double(), tiny_batch)


def test_token_ids_that_no_embedding_reads_have_no_gradient():
    class OneHot(nn.Module):
        def forward(self, x):
            return nn.functional.one_hot(x, 3).double().sum(dim=1)

    batch = rr.Batch(x=torch.ones(2, 5, dtype=torch.int64), y=torch.tensor([0, 1]))
    assert rr.Probe(OneHot(), batch).logits.shape == (2, 3)
    with pytest.raises(InvalidBatchError, match="token ids that an nn.Embedding of the model"):
        rr.Probe(OneHot(), batch, needs_gradient=True)


def test_a_model_must_take_what_the_batch_carries():
    attention = {"attention_mask": torch.ones(2, 5)}
    batch = rr.Batch(x=torch.rand(2, 5), y=torch.tensor([0, 1]), inputs=attention)
    with pytest.raises(InvalidBatchError, match="forward takes `attention_mask` beside `x`"):
        rr.Probe(nn.Linear(5, 2), batch)


def test_asking_for_a_gradient_nobody_announced(tiny_net, tiny_batch):
    with pytest.raises(DoubleBackwardError, match="sets `needs_gradient = True`"):
        rr.Probe(tiny_net, tiny_batch).gradient()


def test_a_model_that_cuts_the_graph(tiny_batch):
    class Cut(nn.Linear):
        def forward(self, x):
            return super().forward(x.flatten(1)).detach()

    probe = rr.Probe(Cut(32, 3).double(), tiny_batch, needs_gradient=True)
    with pytest.raises(DoubleBackwardError, match="the model cuts the graph"):
        probe.gradient()


@pytest.mark.parametrize(
    ("model", "depends"),
    [
        (nn.Linear(2, 2), False),
        (nn.BatchNorm1d(2), True),
        (nn.BatchNorm1d(2).eval(), False),
        (nn.Dropout(0.5), True),
        (nn.Dropout(0.0), False),
        (nn.InstanceNorm1d(2), False),
        (nn.InstanceNorm1d(2, track_running_stats=True), True),
        (nn.MultiheadAttention(2, 1, dropout=0.1), True),
        (nn.LSTM(2, 2, num_layers=2, dropout=0.1), True),
        (nn.LayerNorm(2), False),
    ],
)
def test_layers_that_depend_on_the_mode(model, depends):
    assert depends_on_mode(model) is depends


def test_a_batch_is_placed_where_the_model_is():
    batch = rr.Batch(x=torch.rand(2, 4), y=torch.tensor([0, 1]), mask=torch.ones(2, 4))
    moved = move_to_model(batch, nn.Linear(4, 2).double())
    assert (moved.x.dtype, moved.mask.dtype, moved.y.dtype) == (
        torch.float64,
        torch.float64,
        torch.int64,
    )
    assert move_to_model(batch, nn.Flatten()) is batch


def test_bfloat16_logits_are_read_in_single_precision():
    batch = rr.Batch(x=torch.rand(2, 4), y=torch.tensor([0, 1]))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert rr.Probe(nn.Linear(4, 2), batch).logits.dtype == torch.float32


def test_an_activation_is_not_overwritten_by_the_layer_behind_it(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.ReLU(inplace=True), nn.Linear(8, 3))
    probe = rr.Probe(model.double(), tiny_batch, layers=["1"])
    assert probe.activations["1"].min() < 0
    assert model[2].inplace


@pytest.mark.parametrize("needs_gradient", [True, False])
def test_a_model_that_changes_its_input_is_refused(tiny_batch, needs_gradient):
    class Normalises(nn.Linear):
        def forward(self, x):
            return super().forward(x.sub_(0.5).flatten(1))

    batch = tiny_batch.replace(x=tiny_batch.x.clone())
    with pytest.raises(rr.errors.RightReasonsError, match="its forward with `x = x.clone"):
        rr.Probe(Normalises(32, 3).double(), batch, needs_gradient=needs_gradient)


def test_the_ceiling_frees_each_pass_before_the_next(tiny_net, tiny_batch):
    alive = []

    def kept(at):
        alive.append(weakref.ref(at))
        assert sum(one() is not None for one in alive) == 1
        return at.gradient().flatten(1).sum(dim=1)

    tiny_net.eval()
    probe = rr.Probe(tiny_net, tiny_batch, needs_gradient=True, max_rows=6)
    copies = torch.rand(4, *tiny_batch.x.shape, dtype=torch.float64)
    assert not probe.each_at(copies, kept).requires_grad
    assert len(alive) == 4


def test_modules_of_the_users_own_may_depend_on_the_mode():
    class Own(nn.Module):
        pass

    assert depends_on_mode(nn.Sequential(Own()))
    assert not depends_on_mode(nn.Sequential(Own()).eval())


def test_the_strongest_need_covers_all():
    assert strongest_need([]) is False
    assert strongest_need([False, "inside"]) == "inside"
    assert strongest_need(["inside", True, False]) is True


def test_what_is_made_once_is_shared(tiny_net, tiny_batch):
    probe, made = rr.Probe(tiny_net, tiny_batch), []
    for key in ("one", "one", "other"):
        probe.once(key, lambda: made.append(1))
    assert len(made) == 2
    assert probe.once("number", lambda: 7) == probe.once("number", lambda: 8) == 7


def test_it_knows_whether_its_pass_depends_on_the_mode(tiny_batch):
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(32), nn.Linear(32, 3)).double()
    assert rr.Probe(model, tiny_batch).depends_on_mode
    assert not rr.Probe.at_test_time(model, tiny_batch).depends_on_mode
    assert not rr.Probe(model.eval(), tiny_batch).depends_on_mode


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("needs_gradient", [False, True])
def test_logits_that_are_not_finite_are_refused(value, needs_gradient):
    model = nn.Linear(3, 2)
    model.bias.data[1] = value
    batch = rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1]))
    words = "Expected finite logits, but got NaN or infinity for 4 of 4 samples. Check the model's"
    with pytest.raises(NonFiniteLossError, match=words):
        rr.Probe.at_test_time(model, batch, needs_gradient=needs_gradient)
    with pytest.raises(NonFiniteLossError, match=words):
        rr.evaluate(model, batch, [rr.metrics.Accuracy()])
    with pytest.raises(NonFiniteLossError, match=words):
        rr.explainers.InputGradient()(model, batch.x, batch.y)
