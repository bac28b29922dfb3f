import torch
from tests.reference import explainers, focus
from torch import nn

import rightreasons as rr
from rightreasons.objectives import ReFFL1


def test_equals_its_slow_twin():
    net = explainers.cnn(nn.Softplus).eval()  # maps of 4×4 and 2×2
    batch = rr.Batch(
        x=torch.rand(3, 2, 4, 4, dtype=torch.float64),
        y=torch.tensor([0, 1, 2]),
        mask=torch.rand(3, 1, 4, 4, dtype=torch.float64),
    )
    expected = torch.tensor(focus.cam_terms(net, batch, [2, 6])["reff_l1"], dtype=torch.float64)
    assert expected.any(dim=0).all()
    probe = rr.Probe(net, batch, needs_gradient=True, layers=["2", "6"])
    given = ReFFL1(layers=["2", "6"], layer_weights=[3.0, 0.5])(probe)
    weights = torch.tensor([3.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(given, expected @ weights, rtol=1e-5, atol=1e-9)
    own = torch.tensor([1.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(ReFFL1()(probe), expected @ own, rtol=1e-5, atol=1e-9)
    assert ReFFL1().name == "reff_l1"


def test_is_a_constant_plus_twice_the_share_inside_the_mask():
    cam, mask = torch.rand(5, 6, 6), (torch.rand(5, 6, 6) < 0.4).float()
    cam = cam / cam.sum(dim=(1, 2), keepdim=True)
    inside = (cam * mask).sum(dim=(1, 2))
    expected = (1 - mask).sum(dim=(1, 2)) - 1 + 2 * inside
    torch.testing.assert_close(ReFFL1().distance(cam, mask), expected)
