"""Small nets and batches whose boxes have few free features, so that all of them can be tried."""

import copy

import pytest
import torch

import rightreasons as rr
from rightreasons.certification.region import region_of


def make_net(seed=0, *, hidden=(8,), dtype=torch.float32, scale=2.0):
    torch.manual_seed(seed)
    net = rr.models.mlp(inputs=6, hidden=hidden, classes=3)
    for parameter in net.parameters():
        parameter.data *= scale if parameter.ndim > 1 else 0.1  # the input decides, not the bias
    return net.to(dtype).eval()


def make_batch(seed=0, *, size=20, dtype=torch.float32):
    """Two masked features in most samples, at changing positions; every fifth has none."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.zeros(size, 6)
    for n in range(size):
        mask[n, [n % 6, (2 * n + 1) % 6]] = 1
    mask[::5] = 0
    return rr.Batch(
        x=torch.rand(size, 6, generator=generator).to(dtype),
        y=torch.randint(3, (size,), generator=generator),
        mask=mask,
        group=torch.arange(size) % 3,
        index=torch.arange(size),
    )


@pytest.fixture
def net_of():
    """The function `make_net`."""
    return make_net


@pytest.fixture
def batch_of():
    """The function `make_batch`."""
    return make_batch


@pytest.fixture
def region_for():
    """The region of a net at the samples of a batch that have masks."""

    def make(net, batch, *, epsilon=0.2, valid_range=(0.0, 1.0)):
        batch = batch[batch.mask.any(dim=1)]
        double_model = copy.deepcopy(net).double()
        prediction = net(batch.x).argmax(dim=1)
        return region_of(
            net, double_model, batch, prediction, epsilon=epsilon, valid_range=valid_range
        )

    return make


@pytest.fixture
def points_in():
    """Inputs of the box: its ends, and many in between, ``(P, N, *S)``."""

    def make(region, *, num_points=60):
        lower, upper = region.ends(torch.float64)
        lower, upper = lower.to(region.batch.x), upper.to(region.batch.x)
        shares = torch.rand(num_points, *lower.shape, generator=torch.Generator().manual_seed(5))
        shares[: num_points // 2] = shares[: num_points // 2].round()
        ends = region.ends(region.batch.x.dtype)
        return torch.lerp(lower, upper, shares.to(lower)).clamp(*ends)

    return make
