import pytest
import torch
from torch import nn

from rightreasons.bounds import output_bounds
from rightreasons.bounds.shape import Reshape
from rightreasons.bounds.trace import ModulePath, plan_of
from rightreasons.core.model_modes import record_outputs
from rightreasons.errors import InvalidBatchError, UnsupportedLayerError


class Forward(nn.Module):
    def __init__(self, function, **modules):
        super().__init__()
        self.function = function
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x, scale=None):
        return self.function(self, x)


def bounds(model, *shape):
    x = torch.zeros(2, *shape)
    return output_bounds(model, x, x, outward=False)


def test_layers_are_found_by_their_paths():
    model = nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), nn.Dropout(), nn.ReLU())
    plan = plan_of(model, torch.zeros(1, 2, 2))
    assert [step.layer for step in plan.steps] == [
        Reshape((4,)),
        ModulePath("0.1"),
        ModulePath("2"),
    ]
    assert [step.inputs for step in plan.steps] == [(0,), (1,), (2,)]


def test_what_the_output_does_not_need_is_left_out():
    def function(m, x):
        unused = torch.softmax(m.a(x), dim=1) if False else m.a(x)
        del unused
        return m.b(x)

    model = Forward(function, a=nn.Linear(2, 2), b=nn.Linear(2, 2))
    plan = plan_of(model, torch.zeros(1, 2))
    assert [step.layer for step in plan.steps] == [ModulePath("b")]


def test_all_unsupported_layers_are_named_at_once():
    model = nn.Sequential(
        nn.Linear(4, 4), nn.Softmax(dim=1), nn.Sequential(nn.Tanhshrink(), nn.Softmax(dim=1))
    )
    words = r"`1` \(Softmax: has no rule\); `2.0` \(Tanhshrink: has no rule\); `2.1` \(Softmax"
    with pytest.raises(UnsupportedLayerError, match=words):
        bounds(model, 4)
    with pytest.raises(UnsupportedLayerError, match=r"`model` \(Softmax"):
        bounds(nn.Softmax(dim=1), 4)


def test_decisions_on_values_cannot_be_traced():
    model = Forward(lambda m, x: x if x.sum() > 0 else -x)
    with pytest.raises(UnsupportedLayerError, match="that torch.fx can trace"):
        bounds(model, 4)


def test_layers_that_know_the_batch_size_are_refused():
    with pytest.raises(UnsupportedLayerError, match="depend on the size of the batch"):
        bounds(Forward(lambda m, x: x / x.size(0)), 4)


def test_overwritten_activations_are_refused():
    def function(m, x):
        hidden = m.linear(x)
        return torch.relu_(hidden) + hidden

    model = Forward(function, linear=nn.Linear(4, 4))
    with pytest.raises(UnsupportedLayerError, match="`add` .its input was overwritten in place"):
        bounds(model, 4)

    def views(m, x):
        hidden = m.linear(x)
        hidden.view(x.size(0), 2, 2).add_(1)
        return 2 * hidden

    with pytest.raises(UnsupportedLayerError, match="overwritten in place"):
        bounds(Forward(views, linear=nn.Linear(4, 4)), 4)


def test_working_in_place_is_fine_where_nothing_is_read_again():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    x = torch.rand(2, 4)
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).lower, model(x))


def test_a_subclass_with_a_forward_of_its_own_is_not_taken_for_its_parent():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    with pytest.raises(UnsupportedLayerError, match="`linear` in `0` .has no rule"):
        bounds(nn.Sequential(Doubled(4, 4)), 4)

    class Always(nn.Dropout):
        def forward(self, x):
            return nn.functional.dropout(x, 0.5, True)

    with pytest.raises(UnsupportedLayerError, match="draws at test time"):
        bounds(nn.Sequential(Always()), 4)


def test_parametrised_layers_are_read_with_their_parametrisation():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    x = torch.rand(2, 4)
    model = nn.Sequential(layer)
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).lower, model(x))


def test_layers_with_hooks_that_may_change_them_are_refused():
    layer = nn.Linear(4, 3)
    layer.register_forward_pre_hook(lambda module, inputs: None)
    with pytest.raises(UnsupportedLayerError, match=r"`0` \(Linear: has hooks that may change it"):
        bounds(nn.Sequential(layer), 4)


def test_samples_of_another_shape_are_refused():
    with pytest.raises(InvalidBatchError, match=r"samples of shape \(5,\).*`0` says"):
        bounds(nn.Sequential(nn.Linear(4, 3)), 5)


def test_other_outputs_are_refused():
    with pytest.raises(UnsupportedLayerError, match="the output .not one tensor"):
        bounds(Forward(lambda m, x: (x, x)), 4)
    with pytest.raises(UnsupportedLayerError, match="the output"):
        bounds(Forward(lambda m, x: m.a.weight, a=nn.Linear(2, 2)), 4)
    with pytest.raises(UnsupportedLayerError, match=r"gives \(2,\) for a batch of 2"):
        bounds(Forward(lambda m, x: x.sum(1)), 4)


def doubled(module, inputs, output):
    return 2 * output


def only_looks(module, *given):
    return None


def plain_net():
    return nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 3)))


@pytest.mark.parametrize("place", ["", "0", "1", "1.0"])
@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        ("forward_hook", doubled),
        ("forward_hook", only_looks),
        ("forward_pre_hook", lambda module, inputs: (2 * inputs[0],)),
        ("full_backward_hook", only_looks),
        ("full_backward_pre_hook", only_looks),
    ],
)
def test_modules_with_hooks_are_refused_by_name_also_after_they_were_traced(place, kind, hook):
    model = plain_net()
    bounds(model, 4)
    handle = getattr(model.get_submodule(place), f"register_{kind}")(hook)
    words = rf"Expected modules that do what their classes say, but got `{place or 'model'}` \("
    with pytest.raises(UnsupportedLayerError, match=words + ".*has hooks.*Remove the hooks"):
        bounds(model, 4)
    handle.remove()
    bounds(model, 4)


@pytest.mark.parametrize("place", ["", "0", "1", "1.0"])
def test_modules_whose_forward_was_replaced_are_refused_by_name(place):
    model = plain_net()
    bounds(model, 4)
    module = model.get_submodule(place)
    forward = module.forward
    module.forward = lambda x: 2 * forward(x)
    words = rf"`{place or 'model'}` \(\w+: its `forward` was replaced"
    with pytest.raises(UnsupportedLayerError, match=words):
        bounds(model, 4)


def test_layers_whose_class_was_changed_are_refused(monkeypatch):
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x)
    with pytest.raises(UnsupportedLayerError, match=r"`1.0` \(ReLU: the `forward` of its class"):
        bounds(plain_net(), 4)


def test_hooks_on_all_modules_and_on_wrappers_are_refused():
    handle = nn.modules.module.register_module_forward_hook(doubled)
    try:
        with pytest.raises(UnsupportedLayerError, match="hooks for all modules"):
            bounds(plain_net(), 4)
    finally:
        handle.remove()
    wrapped = nn.DataParallel(plain_net())
    wrapped.register_forward_hook(doubled)
    with pytest.raises(UnsupportedLayerError, match=r"`model` \(DataParallel: has hooks"):
        bounds(wrapped, 4)


def test_hooks_that_record_outputs_are_no_hindrance():
    model, outputs = plain_net(), {}
    with record_outputs(model, ["1.0"], outputs):
        bounds(model, 4)


def added(m, x):
    skip = h = m.linear(x)
    h += 1
    return skip + h


def returned(m, x):
    skip = h = m.linear(x)
    h += 1
    return skip


def viewed(m, x):
    h = m.linear(x)
    view = h.view(-1, 2, 2)
    h.mul_(2)
    return view.flatten(1)


def viewed_last(m, x):
    h = m.linear(x)
    view = h[:, :2]
    h.mul_(2)
    return view


def own_input(m, x):
    x.mul_(2)
    return m.linear(x)


def given_out(m, x):
    h = m.linear(x)
    return torch.add(h, 1, out=h)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (added, "`add` .its input was overwritten in place"),
        (returned, "the output .overwritten in place"),
        (viewed, "`flatten` .its input was overwritten in place"),
        (viewed_last, "the output .overwritten in place"),
        (own_input, "`linear` .Linear: its input was overwritten in place"),
        (given_out, "`add` .writes into `out`"),
    ],
)
def test_names_for_one_tensor_that_is_overwritten_are_refused(function, words):
    with pytest.raises(UnsupportedLayerError, match=words):
        bounds(Forward(function, linear=nn.Linear(4, 4)), 4)


def test_sums_in_place_are_fine_where_nothing_is_read_again():
    def function(m, x):
        h = m.linear(x)
        h += x
        h -= 1
        h *= 2
        h /= 3
        return h

    model, x = Forward(function, linear=nn.Linear(4, 4)), torch.rand(2, 4)
    torch.testing.assert_close(output_bounds(model, x, x, outward=False).lower, model(x))


def test_a_forward_that_changes_a_buffer_is_refused():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls.add_(1)
            return x * self.calls

    with pytest.raises(UnsupportedLayerError, match="but it changes `calls`. Change it only"):
        bounds(Counts(), 4)
