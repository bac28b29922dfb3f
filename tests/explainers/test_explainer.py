import pytest
import torch
from tests.reference import explainers as twins
from torch import nn

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.explainers import EXPLAINERS, LRP, Explainer, InputGradient, postprocessed


def test_the_formula_is_the_one_thing_to_write(x, y):
    class Logits(Explainer):
        """The logit itself, at every feature."""

        def attribution(self, subject):
            probe = subject.probe(needs_gradient=False)
            value = self.target(probe.logits, subject.y)
            return value.reshape(-1, 1, 1, 1).expand_as(subject.features)

    net = twins.mlp(nn.ReLU)
    attribution = Logits()(net, x, y)
    torch.testing.assert_close(attribution[:, 0, 0, 0], net(x).gather(1, y[:, None])[:, 0].detach())
    assert not attribution.requires_grad
    assert Logits()(net, x, y, create_graph=True).requires_grad


def test_an_explainer_without_a_formula_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Explainer()


def test_unknown_targets_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'logit'"):
        InputGradient(target="logits")


def test_wrappers_are_looked_into(x, y):
    net = twins.mlp(nn.ReLU)
    expected = InputGradient()(net, x, y)
    torch.testing.assert_close(InputGradient()(nn.DataParallel(net), x, y), expected)


def test_every_explainer_is_there_under_its_name():
    assert list(EXPLAINERS) == [
        *("grad_cam", "guided_backprop", "input_gradient", "input_times_gradient"),
        *("integrated_gradients", "lrp", "occlusion", "smooth_grad", "xgrad_cam"),
    ]
    for name in EXPLAINERS:
        assert isinstance(EXPLAINERS.create(name), Explainer)
        assert EXPLAINERS.describe()[name]
        assert "target" in EXPLAINERS.settings(name)


def test_settings_and_names_are_checked():
    assert EXPLAINERS.create("lrp", rule="gamma").rule == "gamma"
    assert EXPLAINERS["lrp"] is LRP
    with pytest.raises(UnknownNameError, match="Did you mean 'lrp'"):
        EXPLAINERS.create("lrpp")
    with pytest.raises(InvalidSettingError, match="of the explainer 'lrp' among: rule"):
        EXPLAINERS.create("lrp", beta=3)


@pytest.fixture
def attribution():
    return torch.randn(3, 2, 4, 5, dtype=torch.float64)


def test_signs(attribution):
    keep = {"channels": "keep"}
    assert torch.equal(postprocessed(attribution, sign="absolute", **keep), attribution.abs())
    assert torch.equal(postprocessed(attribution, sign="positive", **keep), attribution.relu())
    assert postprocessed(attribution, sign="signed", **keep) is attribution


def test_signs_are_taken_before_channels_are_summed(attribution):
    expected = attribution.abs().sum(dim=1, keepdim=True)
    torch.testing.assert_close(postprocessed(attribution), expected)


def test_channels_of_embeddings_are_last_and_columns_have_none():
    embeddings, columns = torch.randn(2, 3, 7), torch.randn(2, 9)
    summed = postprocessed(embeddings, channel_axis=-1)
    torch.testing.assert_close(summed, embeddings.abs().sum(dim=2, keepdim=True))
    assert torch.equal(postprocessed(columns), columns.abs())


def test_scales(attribution):
    l1 = postprocessed(attribution, sign="signed", normalise="l1")
    torch.testing.assert_close(l1.abs().flatten(1).sum(dim=1), torch.ones(3).double())
    top = postprocessed(attribution, sign="signed", normalise="max")
    torch.testing.assert_close(top.abs().flatten(1).amax(dim=1), torch.ones(3).double())
    summed = attribution.sum(dim=1, keepdim=True)
    torch.testing.assert_close(l1[1], summed[1] / summed[1].abs().sum())
    torch.testing.assert_close(top[1], summed[1] / summed[1].abs().max())


def test_a_map_of_zeros_stays_one_and_has_a_gradient(attribution):
    given = (attribution * torch.tensor([0.0, 1, 1]).reshape(-1, 1, 1, 1)).requires_grad_()
    for normalise in ("l1", "max"):
        map_ = postprocessed(given, normalise=normalise)
        assert map_[0].abs().sum() == 0
        (slopes,) = torch.autograd.grad(map_.square().sum(), given)
        assert torch.isfinite(slopes).all()
    assert torch.autograd.gradcheck(
        lambda a: postprocessed(a, normalise="max"), attribution.requires_grad_()
    )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sign": "negative"}, "`sign` to be 'absolute' or 'positive' or 'signed'"),
        ({"channels": "mean"}, "`channels` to be 'sum' or 'keep', but got 'mean'"),
        ({"normalise": "l2"}, "`normalise` to be None or 'l1' or 'max', but got 'l2'"),
    ],
)
def test_unknown_choices(attribution, settings, words):
    with pytest.raises(InvalidSettingError, match=words):
        postprocessed(attribution, **settings)
