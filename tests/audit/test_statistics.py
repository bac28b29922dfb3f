import numpy as np
import pytest
import torch
from tests.reference.audit import (
    benjamini_hochberg,
    distance_at,
    p_values_over_all_permutations,
    strength,
)

from rightreasons.audit.patterns import Pattern, match_patterns
from rightreasons.audit.properties import _cosine_transform, standardise, transplant_property
from rightreasons.audit.statistics import (
    adjust_for_families,
    compare_with_permutations,
    label_strength,
)


def test_strength_is_balanced_accuracy_above_chance():
    stream = np.random.default_rng(0)
    for num_classes in (2, 3, 5):
        labels, predicted = stream.integers(num_classes, size=(2, 60))
        assert label_strength(predicted, labels) == pytest.approx(
            strength(predicted.tolist(), labels.tolist())
        )


def test_p_values_agree_with_all_permutations():
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    columns = np.array([[0, 0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 0, 1, 1], [0, 1, 0, 1, 0, 1, 0]])
    exact = p_values_over_all_permutations(columns.tolist(), labels.tolist())
    strengths, drawn = compare_with_permutations(columns.T, labels, num_draws=4000)
    assert strengths.tolist() == pytest.approx([strength(c, labels.tolist()) for c in columns])
    assert drawn.tolist() == pytest.approx(exact, abs=0.03)


def test_adjusted_p_values_are_those_of_the_procedure():
    stream = np.random.default_rng(1)
    for size in (1, 2, 7):
        values = stream.random(size)
        expected = benjamini_hochberg(values.tolist())
        assert adjust_for_families(values).tolist() == pytest.approx(expected)


def test_patterns_are_matched_as_by_loops():
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(3, 2, 10, 12, generator=generator)
    mean, mask = x[1, :, 4:7, 5:9].clone(), torch.rand(3, 4, generator=generator)
    match = match_patterns([Pattern(0, mean, mask, 1.0, 1.0, 0)], x)
    for row in range(3):
        places = [(top, left) for top in range(8) for left in range(9)]
        by_loops = [
            distance_at(x[row].tolist(), mean.tolist(), mask.tolist(), *place) for place in places
        ]
        best = int(np.argmin(by_loops))
        assert float(match.distance[row]) == pytest.approx(by_loops[best], abs=1e-5)
        top, left = places[best]
        laid = torch.zeros(10, 12)
        laid[top : top + 3, left : left + 4] = mask
        assert torch.equal(match.mask[row, 0], laid)
    far = match_patterns([Pattern(0, mean, mask, 1e-4, 1.0, 0)], x)
    assert far.pattern.tolist() == [-1, 0, -1]
    assert not far.mask[0].any()


def test_transplants_give_what_they_say():
    generator = torch.Generator().manual_seed(0)
    x, donor = 0.3 + 0.3 * torch.rand(2, 4, 3, 16, 24, generator=generator)
    donor[:, 0] += 0.1
    wide = (-10.0, 10.0)
    coloured = transplant_property("colour", x, donor, wide)
    assert torch.allclose(coloured.mean(dim=(2, 3)), donor.mean(dim=(2, 3)), atol=1e-5)
    assert torch.allclose(coloured.std(dim=(2, 3)), donor.std(dim=(2, 3)), atol=1e-5)
    grey = transplant_property("contrast", x, donor, wide).mean(dim=1).flatten(1)
    assert torch.allclose(grey.std(dim=1), donor.mean(dim=1).flatten(1).std(dim=1), atol=1e-5)
    framed = transplant_property("border", x, donor, wide)
    assert torch.equal(framed[:, :, 0], donor[:, :, 0])
    assert torch.equal(framed[:, :, 1:-1, 1:-1], x[:, :, 1:-1, 1:-1])
    detailed = transplant_property("detail", x, donor, wide)
    assert torch.allclose(detailed.mean(dim=(2, 3)), x.mean(dim=(2, 3)), atol=1e-5)
    greys = [(one * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
             for one in (detailed, donor)]  # fmt: skip
    values = [_cosine_transform(one).sort(dim=2).values[:, :, :, 1:] for one in greys]
    assert torch.allclose(*values, atol=1e-4)
    assert torch.allclose(standardise(x).std(dim=(2, 3)), torch.ones(4, 3), atol=1e-4)
