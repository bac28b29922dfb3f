"""MaskTune's Proposition 2: two linear models agree where the masked feature is as in training."""

import torch


def least_norm(features, y):
    """The solution of least norm of ``features @ weights = y``, with more weights than rows."""
    return features.T @ torch.linalg.solve(features @ features.T, y)


def models_and_relation(seed):
    generator = torch.Generator().manual_seed(seed)
    rest = torch.randn(5, 8, generator=generator, dtype=torch.float64)  # Z: five samples
    masked = torch.randn(5, generator=generator, dtype=torch.float64)  # S
    y = torch.randn(5, generator=generator, dtype=torch.float64)
    first = least_norm(torch.cat([rest, masked[:, None]], dim=1), y)
    second = least_norm(rest, y)
    return first, second, least_norm(rest, masked), (rest, masked, y)


def test_agree_exactly_where_the_relation_of_training_holds():
    for seed in range(5):
        first, second, relation, (rest, masked, y) = models_and_relation(seed)
        torch.testing.assert_close(rest @ second, y)
        torch.testing.assert_close(rest @ first[:-1] + masked * first[-1], y)
        assert first[-1].abs() > 1e-3  # the proposition's condition: the feature is used
        new = torch.randn(100, 8, dtype=torch.float64)
        kept = new @ relation
        torch.testing.assert_close(new @ first[:-1] + kept * first[-1], new @ second)


def test_disagree_by_as_much_as_it_is_broken():
    for seed in range(5):
        first, second, relation, _ = models_and_relation(seed)
        new = torch.randn(100, 8, dtype=torch.float64)
        broken = torch.randn(100, dtype=torch.float64)
        shift = broken - new @ relation
        gap = new @ first[:-1] + broken * first[-1] - new @ second
        torch.testing.assert_close(gap, first[-1] * shift)
        assert (gap.abs() > 1e-9).all()  # the "only if"
