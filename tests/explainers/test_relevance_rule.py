import pytest
import torch
from torch.nn import functional

from rightreasons.explainers.lrp import (
    box_rule,
    epsilon_rule,
    gamma_rule,
    shares,
    z_plus_rule,
)


@pytest.fixture
def layer():
    """Input (4, 9) of both signs, weight (3, 9), bias (3,), relevance (4, 3)."""
    return [torch.randn(size, dtype=torch.float64) for size in ((4, 9), (3, 9), (3,), (4, 3))]


def handed_down(contributions, totals, relevance):
    """R_i = sum_j contributions_ij / totals_j R_j, by loops."""
    result = torch.zeros(contributions.shape[0], contributions.shape[2], dtype=torch.float64)
    for n, rows in enumerate(contributions):
        for j, row in enumerate(rows):
            for i, part in enumerate(row):
                result[n, i] += part / totals[n, j] * relevance[n, j]
    return result


def test_z_plus_counts_positive_contributions(layer):
    x, weight, _, relevance = layer
    parts = (x[:, None] * weight).clamp(min=0)
    expected = handed_down(parts, parts.sum(dim=2), relevance)
    torch.testing.assert_close(z_plus_rule(functional.linear, x, weight, relevance), expected)


def test_z_plus_is_the_papers_for_activations_of_at_least_zero(layer):
    x, weight, _, relevance = layer
    x = x.abs()
    parts = x[:, None] * weight.clamp(min=0)
    expected = handed_down(parts, parts.sum(dim=2), relevance)
    torch.testing.assert_close(z_plus_rule(functional.linear, x, weight, relevance), expected)


def test_the_box_rule_is_the_papers(layer):
    x, weight, _, relevance = layer
    lower, upper = torch.full_like(x, -4.0), torch.full_like(x, 5.0)
    parts = (x[:, None] * weight) + 4.0 * weight.clamp(min=0) - 5.0 * weight.clamp(max=0)
    expected = handed_down(parts, parts.sum(dim=2), relevance)
    given = box_rule(functional.linear, x, weight, relevance, lower, upper)
    torch.testing.assert_close(given, expected)


def test_epsilon_and_gamma_know_the_bias(layer):
    x, weight, bias, relevance = layer
    for gamma in (0.0, 0.5):
        favoured = weight + gamma * weight.clamp(min=0)
        parts = x[:, None] * favoured
        totals = parts.sum(dim=2) + bias + gamma * bias.clamp(min=0)
        totals += 0.1 * totals.sign()
        expected = handed_down(parts, totals, relevance)
        if gamma:
            settings = {"gamma": gamma, "epsilon": 0.1}
            given = gamma_rule(functional.linear, x, weight, bias, relevance, **settings)
        else:
            given = epsilon_rule(functional.linear, x, weight, bias, relevance, epsilon=0.1)
        torch.testing.assert_close(given, expected)


def test_relevance_is_conserved_without_a_bias(layer):
    x, weight, _, relevance = layer
    bounds = (torch.full_like(x, -4.0), torch.full_like(x, 5.0))
    for given in (
        z_plus_rule(functional.linear, x, weight, relevance),
        box_rule(functional.linear, x, weight, relevance, *bounds),
        epsilon_rule(functional.linear, x, weight, None, relevance, epsilon=1e-12),
        gamma_rule(functional.linear, x, weight, None, relevance, gamma=0.5, epsilon=1e-12),
    ):
        torch.testing.assert_close(given.sum(dim=1), relevance.sum(dim=1))


def test_a_unit_to_which_nothing_contributed_hands_nothing_down():
    x = torch.zeros(1, 2, requires_grad=True)
    weight = torch.ones(1, 2, requires_grad=True)
    given = z_plus_rule(functional.linear, x, weight, torch.ones(1, 1))
    assert given.tolist() == [[0.0, 0.0]]
    slopes = torch.autograd.grad(given.square().sum(), [x, weight])
    assert all(torch.isfinite(slope).all() for slope in slopes)


def test_shares_follow_contributions_and_sum_to_the_whole():
    parts = [torch.rand(2, 3), torch.rand(2, 3)]
    relevance = torch.randn(2, 3)
    first, second = shares(parts, relevance)
    torch.testing.assert_close(first + second, relevance)
    torch.testing.assert_close(first * parts[1], second * parts[0])
    small = shares([torch.tensor([1.0]), torch.tensor([-1.0])], torch.ones(1), epsilon=0.5)
    assert [part.item() for part in small] == [2.0, -2.0]


def test_contributions_too_small_to_divide_by_are_none():
    x, weight, relevance = torch.full((1, 2), 1e-30), torch.full((1, 2), 1e-15), torch.ones(1, 1)
    assert z_plus_rule(functional.linear, x, weight, relevance).tolist() == [[0.0, 0.0]]
