import pytest
import torch

from rightreasons.errors import InvalidSettingError
from rightreasons.explainers import postprocessed


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
        made = postprocessed(given, normalise=normalise)
        assert made[0].abs().sum() == 0
        (slopes,) = torch.autograd.grad(made.square().sum(), given)
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
