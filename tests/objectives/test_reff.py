import torch
from tests.reference import explainers, focus
from torch import nn

import rightreasons as rr
from rightreasons.objectives import ReFF


def test_equals_its_slow_twin():
    net = explainers.cnn(nn.Softplus).eval()  # maps of 4×4 and 2×2
    batch = rr.Batch(
        x=torch.rand(3, 2, 4, 4, dtype=torch.float64),
        y=torch.tensor([0, 1, 2]),
        mask=torch.rand(3, 1, 4, 4, dtype=torch.float64),
    )
    expected = torch.tensor(focus.cam_terms(net, batch, [2, 6])["reff"], dtype=torch.float64)
    assert expected.any(dim=0).all()
    probe = rr.Probe(net, batch, needs_gradient=True, layers=["2", "6"])
    given = ReFF(layers=["2", "6"], layer_weights=[3.0, 0.5])(probe)
    weights = torch.tensor([3.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(given, expected @ weights, rtol=1e-5, atol=1e-9)
    own = torch.tensor([16 / 16, 16 / 4], dtype=torch.float64)
    torch.testing.assert_close(ReFF()(probe), expected @ own, rtol=1e-5, atol=1e-9)
    assert ReFF().name == "reff"


def test_the_papers_weights_are_pixels_a_cell():
    own = [ReFF().default_weight(side**2, 224**2) for side in (56, 28, 14, 7)]
    assert own == [16, 64, 256, 1024]
    paper = (15, 60, 250, 1000)
    assert all(abs(a - b) / b < 0.07 for a, b in zip(own, paper, strict=True))


def test_a_map_inside_the_mask_costs_and_one_outside_does_not():
    cam = torch.zeros(1, 4, 4)
    cam[0, 0, 0] = 1.0
    mask = torch.zeros(1, 4, 4)
    mask[0, :2, :2] = 1
    assert ReFF().distance(cam, mask).item() == 1
    assert ReFF().distance(cam, 1 - mask).item() == 0
