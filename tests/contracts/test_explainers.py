"""The contract of explainers: one table, the same checks for each."""

import copy

import pytest
import torch
from tests.reference.explainers import ACTIVATIONS, NETS, make_net
from torch import nn

import rightreasons as rr
from rightreasons.explainers import (
    EXPLAINERS,
    LRP,
    GradCAM,
    GuidedBackprop,
    InputGradient,
    InputTimesGradient,
    IntegratedGradients,
    Occlusion,
    SmoothGrad,
    XGradCAM,
)

TABLE = {
    "input_gradient": lambda: InputGradient(),
    "input_gradient loss": lambda: InputGradient(target="loss"),
    "input_times_gradient": lambda: InputTimesGradient(),
    "smooth_grad": lambda: SmoothGrad(num_draws=3, max_rows=4),
    "integrated_gradients": lambda: IntegratedGradients(num_steps=3),
    "integrated_gradients trapezoid": lambda: IntegratedGradients(
        num_steps=3, quadrature="trapezoid", baseline=0.5, max_rows=2, target="margin"
    ),
    "guided_backprop": lambda: GuidedBackprop(),
    "lrp": lambda: LRP(),
    "lrp loss": lambda: LRP(target="loss"),
    "lrp epsilon": lambda: LRP(rule="epsilon", epsilon=0.3, valid_range=None),
    "lrp gamma": lambda: LRP(rule="gamma", epsilon=0.3),
    "grad_cam": lambda: GradCAM(),
    "xgrad_cam": lambda: XGradCAM(),
    "occlusion": lambda: Occlusion(window=2, stride=1, max_rows=7),
}
MAPS = {name for name in TABLE if "cam" in name}
DIFFERENTIABLE = [name for name, make in TABLE.items() if make().is_differentiable]
PAIRS = [(name, net) for name in TABLE for net in NETS if not (name in MAPS and net == "mlp")]
SMOOTH_PAIRS = [pair for pair in PAIRS if pair[0] in DIFFERENTIABLE]


def samples(net, num_samples=3):
    side = 8 if net == "resnet" else 4
    x = torch.rand(num_samples, 2, side, side, dtype=torch.float64)
    return x, torch.arange(num_samples) % 3


def squared(explainer, model, x, y, **settings):
    return explainer(model, x, y, **settings).square().sum()


def move(parameters, directions, step):
    with torch.no_grad():
        for parameter, direction in zip(parameters, directions, strict=True):
            parameter += step * direction


def difference_quotient(value, parameters, directions, step=1e-6):
    ends = []
    for sign in (1, -1):
        move(parameters, directions, sign * step)
        ends.append(value().item())
        move(parameters, directions, -sign * step)
    return (ends[0] - ends[1]) / (2 * step)


def test_the_table_has_every_explainer():
    assert {name.split()[0] for name in TABLE} == set(EXPLAINERS)
    for name in TABLE:
        assert isinstance(TABLE[name](), EXPLAINERS[name.split()[0]])


@pytest.mark.parametrize(("name", "net"), PAIRS)
def test_gives_finite_numbers_in_the_shape_of_x(name, net):
    x, y = samples(net)
    attribution = TABLE[name]()(make_net(net, "relu"), x, y)
    assert attribution.shape == (x[:, :1].shape if name in MAPS else x.shape)
    assert attribution.dtype == x.dtype
    assert torch.isfinite(attribution).all()
    assert attribution.abs().sum() > 0
    assert not attribution.requires_grad


@pytest.mark.parametrize("name", TABLE)
def test_without_classes_explains_the_predicted_ones(name):
    model, (x, _) = make_net("cnn", "relu"), samples("cnn")
    predicted = model.eval()(x).argmax(dim=1)
    explained = []
    for y in (predicted, None):
        torch.manual_seed(0)  # for those that draw
        explained.append(TABLE[name]()(model, x, y))
    assert torch.equal(*explained)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("name", "net"), SMOOTH_PAIRS)
def test_its_gradient_reaches_every_weight_and_is_right(name, net, activation):
    explainer, model = TABLE[name](), make_net(net, activation)
    x, y = samples(net)
    parameters = list(model.parameters())
    total = squared(explainer, model, x, y, create_graph=True)
    slopes = torch.autograd.grad(total, parameters, allow_unused=True, materialize_grads=True)
    groups = [[n] for n in range(len(parameters))]
    if net == "resnet":  # all weights at once, thrice: it has 62 tensors of them
        groups = [list(range(len(parameters)))] * 3
    reached = 0
    for group in groups:
        chosen = [parameters[n] for n in group]
        directions = [torch.randn_like(parameter) for parameter in chosen]
        slope = sum(float((slopes[n] * d).sum()) for n, d in zip(group, directions, strict=True))
        expected = difference_quotient(lambda: squared(explainer, model, x, y), chosen, directions)
        assert slope == pytest.approx(expected, rel=2e-4, abs=2e-7 * max(1.0, total.item()))
        reached += abs(expected) > 1e-9
    assert reached >= len(groups) / 2  # a gradient does not depend on some biases


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_its_gradient_reaches_the_input_and_is_right(name, activation):
    explainer, model = TABLE[name](), make_net("cnn", activation)
    x, y = samples("cnn")
    x = (0.1 + 0.8 * x).requires_grad_()
    (slopes,) = torch.autograd.grad(squared(explainer, model, x, y, create_graph=True), x)
    direction = torch.randn_like(x)
    plain = x.detach().clone()
    expected = difference_quotient(
        lambda: squared(explainer, model, plain, y), [plain], [direction]
    )
    assert float((slopes * direction).sum()) == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert x.grad is None


@pytest.mark.parametrize(("name", "net"), PAIRS)
def test_a_sample_does_not_depend_on_its_batch(name, net):
    explainer, model = TABLE[name](), make_net(net, "relu")
    x, y = samples(net)
    together = explainer(model, x, y)
    for n in range(len(x)):
        alone = explainer(model, x[n : n + 1], y[n : n + 1])
        torch.testing.assert_close(alone[0], together[n], rtol=1e-9, atol=1e-12)


@pytest.fixture
def trained():
    """A net with everything that has a mode or works in place."""
    return nn.Sequential(
        *(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True)),
        *(nn.Dropout2d(0.5), nn.Conv2d(4, 4, 3, padding=1), nn.Softplus(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Dropout(0.5), nn.Linear(16, 3)),
    ).double()


def hooks_of(model):
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return sum(len(getattr(module, kind)) for module in model.modules() for kind in kinds)


@pytest.mark.parametrize("name", TABLE)
def test_explains_the_model_at_test_time_and_leaves_it_alone(name, trained):
    x, y = samples("cnn")
    explainer, at_test_time = TABLE[name](), copy.deepcopy(trained).eval()
    trained[4].eval()
    trained[9].bias.grad = torch.ones(3, dtype=torch.float64)
    modes = [module.training for module in trained.modules()]
    before, state = copy.deepcopy(trained.state_dict()), torch.get_rng_state()
    for create_graph in {False, explainer.is_differentiable}:
        attribution = explainer(trained, x, y, create_graph=create_graph)
        torch.testing.assert_close(attribution, explainer(at_test_time, x, y))
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in trained.modules()] == modes
    assert all(torch.equal(before[key], tensor) for key, tensor in trained.state_dict().items())
    assert hooks_of(trained) == 0
    assert trained[2].inplace
    assert torch.equal(trained[9].bias.grad, torch.ones(3, dtype=torch.float64))
    assert all(p.grad is None for key, p in trained.named_parameters() if key != "9.bias")
    assert x.grad is None
    assert not x.requires_grad


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_a_later_training_pass_does_not_spoil_its_graph(name, trained):
    x, y = samples("cnn")
    total = squared(TABLE[name](), trained, x, y, create_graph=True)
    trained(x)  # moves the statistics in place
    total.backward()
    assert trained[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("name", TABLE)
def test_no_hook_survives_a_failing_model(name, trained):
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.calls = trained, 0

        def forward(self, x):
            logits = self.net(x)
            self.calls += 1
            if self.calls > (1 if name in MAPS else 0):  # the choice of a layer takes one pass
                raise RuntimeError("on purpose")
            return logits

    model = Fails()
    with pytest.raises((RuntimeError, rr.errors.UnsupportedLayerError), match="on purpose"):
        TABLE[name]()(model, *samples("cnn"))
    assert hooks_of(model) == 0
    assert trained[2].inplace
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize("name", TABLE)
def test_works_without_gradient_tracking_and_with_frozen_weights(name):
    x, y = samples("cnn")
    explainer, model = TABLE[name](), make_net("cnn", "softplus")
    expected = explainer(model, x, y)
    with torch.no_grad():
        torch.testing.assert_close(explainer(model, x, y), expected)
        if explainer.is_differentiable:
            assert explainer(model, x, y, create_graph=True).requires_grad
    model.requires_grad_(False)
    torch.testing.assert_close(explainer(model, x, y), expected)


@pytest.mark.parametrize("name", TABLE)
def test_bad_batches_are_refused(name):
    x, y = samples("cnn")
    explainer, model = TABLE[name](), make_net("cnn", "relu")
    with pytest.raises(rr.errors.InvalidBatchError, match="labels from 0 to 2.*but got 3"):
        explainer(model, x, y + 1)
    with pytest.raises(rr.errors.InvalidBatchError, match=r"`y` of shape \(3,\)"):
        explainer(model, x, y[:2])
    with pytest.raises(rr.errors.InvalidBatchError, match="at least one sample to explain"):
        explainer(model, x[:0], y[:0])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("net", ["mlp", "cnn"])
def test_equals_captum_where_it_has_the_method(net):
    attr = pytest.importorskip("captum.attr", reason="captum, the oracle, is not installed")
    model, (x, y) = make_net(net, "relu").eval(), samples(net)
    path = attr.IntegratedGradients(model)
    pairs = [
        (InputGradient(), attr.Saliency(model).attribute(x, target=y, abs=False)),
        (InputTimesGradient(), attr.InputXGradient(model).attribute(x, target=y)),
        (
            IntegratedGradients(num_steps=5),
            path.attribute(x, target=y, n_steps=5, method="gausslegendre"),
        ),
        (GuidedBackprop(), attr.GuidedBackprop(model).attribute(x, target=y)),
        (
            Occlusion(window=2, stride=1),
            attr.Occlusion(model).attribute(
                x, target=y, sliding_window_shapes=(2, 2, 2), strides=(2, 1, 1)
            ),
        ),
    ]
    if net == "cnn":
        cam = attr.LayerGradCam(model, model[6])
        heat = cam.attribute(x, target=y, relu_attributions=True)
        resized = nn.functional.interpolate(heat, size=x.shape[2:], mode="bilinear")
        pairs.append((GradCAM(layers="6"), resized))
    for explainer, expected in pairs:
        torch.testing.assert_close(explainer(model, x, y), expected.to(x), rtol=1e-5, atol=1e-8)
