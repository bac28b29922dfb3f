import torch

from rightreasons.bounds import Box, backward_bounds, forward_bounds
from rightreasons.bounds.combination import Multiply


def test_values_are_products_and_gradients_have_the_product_rule():
    first, second = (
        Box(torch.randn(2, 50, dtype=torch.float64), torch.rand(2, 50, dtype=torch.float64))
        for _ in range(2)
    )
    gradient = Box.exact(torch.ones(2, 50, dtype=torch.float64))
    output = forward_bounds(Multiply(), first, second, outward=False)
    corners = torch.stack([a * b for a in first.ends() for b in second.ends()])
    torch.testing.assert_close(output.lower, corners.amin(dim=0))
    torch.testing.assert_close(output.upper, corners.amax(dim=0))
    at_first, at_second = backward_bounds(
        Multiply(), gradient, (first, second), output, outward=False
    )
    torch.testing.assert_close(at_first.lower, second.lower)
    torch.testing.assert_close(at_second.upper, first.upper)
