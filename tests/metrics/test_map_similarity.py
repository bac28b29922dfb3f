import pytest
import torch
from tests.reference import metrics as slow

from rightreasons.metrics.rps import (
    cosine_similarity,
    pearson_correlation,
    structural_similarity,
)

ALL = {
    "cosine": (cosine_similarity, lambda one, other: slow.cosine(slow.flat(one), slow.flat(other))),
    "pearson": (
        pearson_correlation,
        lambda one, other: slow.pearson(slow.flat(one), slow.flat(other)),
    ),
    "ssim": (structural_similarity, slow.ssim),
}


@pytest.fixture(params=ALL)
def pair(request):
    return ALL[request.param]


def test_equals_its_slow_twin(pair):
    fast, twin = pair
    one, other = torch.rand(3, 1, 9, 5), torch.rand(3, 1, 9, 5)
    expected = [twin(a[0].tolist(), b[0].tolist()) for a, b in zip(one, other, strict=True)]
    assert fast(one, other).tolist() == pytest.approx(expected, rel=1e-6)


def test_a_map_is_like_itself_and_unlike_others(pair):
    fast, _ = pair
    one, other = torch.rand(4, 1, 3, 3), torch.rand(4, 1, 3, 3)
    assert fast(one, one).tolist() == pytest.approx([1.0] * 4)
    assert (fast(one, other) < 0.99).all()
    assert (fast(one, other) >= -1).all()


def test_scale_counts_for_structure_alone():
    one, other = torch.rand(2, 1, 8, 8), torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(cosine_similarity(one, other), cosine_similarity(3 * one, other))
    torch.testing.assert_close(
        pearson_correlation(one, other), pearson_correlation(one, 2 * other + 1)
    )
    assert (structural_similarity(one, 2 * one) < 1).all()


def test_nothing_is_like_nothing_and_unlike_something(pair):
    fast, _ = pair
    nothing, something = torch.zeros(1, 1, 4, 4), torch.rand(1, 1, 4, 4)
    assert fast(nothing, nothing).tolist() == [1.0]
    assert fast(nothing, something).item() == pytest.approx(0.0, abs=0.5)
    assert fast(nothing, something).item() < 1


def test_constant_maps_have_no_correlation_but_with_each_other():
    flat, bumpy = torch.full((1, 1, 3, 3), 1 / 3), torch.rand(1, 1, 3, 3)
    assert pearson_correlation(flat, bumpy).tolist() == [0.0]
    assert pearson_correlation(flat, 0.1 * flat).tolist() == [1.0]
