import pytest
import torch

from rightreasons.errors import InvalidSettingError
from rightreasons.norm import checked_norm, sample_norm

VALUES = torch.tensor([[1.0, -2.0, 2.0], [0.0, 0.0, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("norm", "expected"),
    [("l1", 5.0), ("l2", 3.0), ("squared_l2", 9.0), (1.0, 5.0), (2, 3.0), (3.0, 17 ** (1 / 3))],
)
def test_values_and_gradients_at_zero(norm, expected):
    values = VALUES.clone().requires_grad_()
    norms = sample_norm(values, checked_norm(norm))
    assert norms.tolist() == pytest.approx([expected, 0.0])
    norms.sum().backward()
    assert torch.isfinite(values.grad).all()
    assert values.grad[1].abs().sum() == 0


@pytest.mark.parametrize("norm", ["l3", 0.5])
def test_what_is_no_norm(norm):
    with pytest.raises(InvalidSettingError, match="Expected `norm` to be one of"):
        checked_norm(norm)
