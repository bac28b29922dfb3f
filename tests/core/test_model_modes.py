import pytest
import torch
from tests.conftest import DifferentiableOnce
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn import functional

import rightreasons as rr
from rightreasons.core import model_modes as mode
from rightreasons.core.model_modes import innermost, record_outputs, refuse_dead_ends
from rightreasons.errors import DoubleBackwardError


@pytest.mark.parametrize(
    ("layer", "depends"),
    [
        (nn.Linear(2, 2), False),
        (nn.BatchNorm1d(2), True),
        (nn.Dropout(0.5), True),
        (nn.Dropout(0.0), False),
        (nn.InstanceNorm1d(2), False),
        (nn.InstanceNorm1d(2, track_running_stats=True), True),
    ],
)
def test_knows_which_layers_depend_on_their_mode(layer, depends):
    assert mode.depends_on_mode(nn.Sequential(layer)) is depends
    assert not mode.depends_on_mode(nn.Sequential(layer).eval())


def test_test_time_is_undone_also_after_an_error():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5))
    model[0].eval()
    statistics = model[1].running_mean
    with pytest.raises(ZeroDivisionError), mode.test_time_mode(model):
        assert not any(module.training for module in model.modules())
        assert model[1].running_mean is not statistics
        model(torch.rand(4, 2))
        raise ZeroDivisionError
    assert [module.training for module in model.modules()] == [True, False, True, True]
    assert model[1].running_mean is statistics
    assert torch.equal(statistics, torch.zeros(2))


def test_layers_have_other_statistics_for_a_while():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).train()
    before = mode.statistics_of(net)
    own = net[1].running_mean
    net(torch.rand(8, 2))
    assert not torch.equal(own, torch.zeros(3))
    with mode.with_statistics(before):
        assert torch.equal(net[1].running_mean, torch.zeros(3))
    assert net[1].running_mean is own
    with pytest.raises(KeyError), mode.with_statistics(before):
        raise KeyError
    assert net[1].running_mean is own
    assert mode.statistics_of(net.eval()) == []


def test_remembers_what_layers_give_and_removes_its_hooks():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    outputs = {}
    with record_outputs(model, ["0", "1"], outputs):
        model(torch.rand(5, 3))
    assert {name: value.shape for name, value in outputs.items()} == {"0": (5, 4), "1": (5, 4)}
    assert torch.equal(outputs["0"].relu(), outputs["1"])
    assert not any(module._forward_hooks for module in model.modules())


def test_removes_its_hooks_after_an_error():
    model = nn.Sequential(nn.Linear(3, 4))
    with pytest.raises(RuntimeError), record_outputs(model, ["0"], {}):
        model(torch.rand(5, 2))
    assert not model[0]._forward_hooks


def test_frozen_weights_can_be_made_to_carry_a_gradient():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).requires_grad_(False)
    plain, differentiable = {}, {}
    with record_outputs(model, ["0"], plain):
        assert not model(torch.rand(5, 3)).requires_grad
    with record_outputs(model, ["0"], differentiable, differentiable=True):
        logits = model(torch.rand(5, 3))
    (gradient,) = torch.autograd.grad(logits.sum(), differentiable["0"])
    assert torch.equal(gradient, (differentiable["0"] > 0).float())


def test_an_unknown_layer_is_named_with_the_nearest():
    model = nn.Sequential()
    model.add_module("conv1", nn.Conv2d(1, 1, 1))
    with (
        pytest.raises(rr.errors.UnknownNameError, match="Did you mean 'conv1'"),
        record_outputs(model, ["conv2"], {}),
    ):
        pass


@pytest.fixture
def batch():
    return rr.Batch(x=torch.rand(3, 4, 8), y=torch.tensor([0, 1, 0]), mask=torch.ones(3, 4, 8))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.head = nn.Linear(8, 24), nn.Linear(8, 2)

    def forward(self, x):
        q, k, v = self.mix(x)[:, None].chunk(3, dim=-1)
        return self.head(functional.scaled_dot_product_attention(q, k, v)[:, 0].mean(dim=1))


@pytest.mark.parametrize("training", [True, False])
def test_attention_is_switched_to_the_math_kernel(batch, training):
    model = Attention().train(training)
    rr.recipes.r3()(model, batch).backward()
    assert model.mix.weight.grad.abs().sum() > 0
    assert torch.backends.cuda.flash_sdp_enabled()


def test_a_fused_kernel_is_never_taken_for_a_constant(batch):
    model = Attention().eval()
    x = batch.x.clone().requires_grad_()
    losses = functional.cross_entropy(model(x), batch.y, reduction="sum")
    (gradient,) = torch.autograd.grad(losses, x, create_graph=True)
    with pytest.raises(DoubleBackwardError, match="or a fused kernel"):
        refuse_dead_ends(gradient)


def test_a_transformer_layer_in_test_mode(batch):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(32, 2)).eval()
    rr.recipes.r3()(model, batch).backward()
    assert layer.self_attn.in_proj_weight.grad.abs().sum() > 0


def test_in_place_activations_work_out_of_place_and_stay_as_they_are(batch):
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(32, 8), nn.Sigmoid(), nn.ELU(inplace=True), nn.Linear(8, 2)
    )
    rr.recipes.r3()(model, batch).backward()
    assert model[3].inplace
    assert model[1].weight.grad.abs().sum() > 0


def test_changing_the_input_in_place_is_explained(batch):
    class InPlace(nn.Linear):
        def forward(self, x):
            x += 1
            return super().forward(x.flatten(1))

    with pytest.raises(DoubleBackwardError, match="begin its forward with `x = x.clone"):
        rr.recipes.r3()(InPlace(32, 2), batch)


def test_changing_an_activation_in_place_is_explained(batch):
    class InPlace(nn.Linear):
        def forward(self, x):
            hidden = super().forward(x.flatten(1))
            squashed = hidden.sigmoid()
            hidden = squashed * hidden
            squashed += 1
            return hidden

    with pytest.raises(DoubleBackwardError, match="write `x = x \\+ y` for `x \\+= y`"):
        rr.recipes.r3()(InPlace(32, 2), batch)


def test_a_function_that_is_differentiable_once_is_explained(batch):
    class Net(nn.Linear):
        def forward(self, x):
            return DifferentiableOnce.apply(super().forward(x.flatten(1)).square())

    with pytest.raises(DoubleBackwardError, match="marked `once_differentiable`"):
        rr.recipes.r3()(Net(32, 2), batch)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("how", ["torch.compile", "Module.compile", "inside"])
def test_compiled_modules_are_refused(batch, how):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 2))
    if how == "torch.compile":
        model = torch.compile(model)
    elif how == "Module.compile":
        model.compile()
    else:
        model = nn.Sequential(torch.compile(model))
    with pytest.raises(DoubleBackwardError, match="compiled by torch.compile.*Pass the original"):
        rr.recipes.r3()(model, batch)


def test_a_static_graph_is_refused(batch, process_group):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 2))
    wrapped = nn.parallel.DistributedDataParallel(model, static_graph=True)
    with pytest.raises(DoubleBackwardError, match="without `static_graph=True`.*silently wrong"):
        rr.recipes.r3()(wrapped, batch)


def test_ddp_without_it_is_fine_and_unwrapped(batch, process_group):
    model = nn.Sequential(nn.Flatten(), nn.Linear(32, 2))
    wrapped = nn.parallel.DistributedDataParallel(model)
    rr.recipes.r3()(wrapped, batch).backward()
    assert model[1].weight.grad.abs().sum() > 0
    assert innermost(wrapped) is model


@pytest.mark.filterwarnings("ignore:FSDP is switching", "ignore::FutureWarning")
def test_sharded_models_are_refused(batch, process_group):
    model = FullyShardedDataParallel(
        nn.Sequential(nn.Flatten(), nn.Linear(32, 2)), device_id=torch.device("cpu")
    )
    with pytest.raises(DoubleBackwardError, match="sharded by FSDP.*Use DistributedDataParallel"):
        rr.recipes.r3()(model, batch)


def test_other_errors_pass_unchanged(batch):
    class Fails(nn.Linear):
        def forward(self, x):
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="^something else$"):
        rr.recipes.r3()(Fails(32, 2), batch)
