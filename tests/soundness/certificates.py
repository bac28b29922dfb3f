"""Certificates under attack: verified samples whose prediction must not change anywhere.

A certificate is broken if, at any point of the box, the prediction changes or the margin is below
the proved one, in the model's own precision or in float64. It is also broken if a masked gradient
in float64 is longer than the proved one. There is no tolerance.
"""

import copy
import random
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

import rightreasons as rr
from rightreasons.errors import CertificateError
from rightreasons.types import Batch, Target
from tests.soundness.attack import Boxes, points_in, values_at

NUM_SAMPLES, NUM_CLASSES = 40, 3
SIDE = 4
ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.SiLU, nn.GELU, nn.Softplus, nn.ELU, nn.LeakyReLU)


@dataclass
class Attacked:
    """What was found out about the certificates of one net."""

    number: int
    num_verified: int = 0
    num_points: int = 0
    broken: list[str] = field(default_factory=list)


def check_certificates(seed: int, number: int, *, effort: int = 18) -> Attacked:
    """Train a small net, certify its predictions and attack those that were verified."""
    source = random.Random(seed * 1_000_033 + number)
    torch.manual_seed(source.randrange(2**31))
    dtype = source.choice((torch.float32, torch.float64))
    low, high = source.choice(((0.0, 1.0), (-2.0, 2.0)))
    x = low + (high - low) * torch.rand(NUM_SAMPLES, 1, SIDE, SIDE, dtype=dtype)
    mask = torch.zeros_like(x)
    mask[:, :, : source.choice((1, 2)), : source.choice((1, 2, 4))] = 1
    if source.random() < 0.3:
        mask = mask * torch.rand_like(mask)
    y = ((1 - mask) * x)[:, 0, 2:].flatten(1)[:, :NUM_CLASSES].argmax(dim=1)
    net = _draw_net(source).to(dtype)
    epsilon = source.choice((None, None, 0.01, 0.1, 0.5))
    _train(net, x, y, mask, steps=source.choice((0, 10, 40)))
    batch = Batch(x=x, y=y, mask=mask)
    method = source.choice(("ibp", "crown", "auto"))
    attacked = Attacked(number)
    try:
        certificate = rr.certify(
            net, batch, epsilon=epsilon, valid_range=(low, high), method=method, seed=number
        )
    except CertificateError as error:
        attacked.broken.append(f"refused by the library: {error}")
        return attacked
    _attack(attacked, net, batch, certificate, (low, high), effort)
    return attacked


def _draw_net(source: random.Random) -> nn.Module:
    activation = source.choice(ACTIVATIONS)
    if source.random() < 0.5:
        body = [nn.Flatten(), nn.Linear(SIDE * SIDE, 12), activation(), nn.Linear(12, 8)]
        return nn.Sequential(*body, activation(), nn.Linear(8, NUM_CLASSES)).eval()
    pooling = source.choice((nn.MaxPool2d, nn.AvgPool2d))(2)
    body = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), activation(), pooling]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(16, NUM_CLASSES)).eval()


def _train(net: nn.Module, x: Tensor, y: Tensor, mask: Tensor, *, steps: int) -> None:
    """Fit the labels with a small masked gradient, so that many samples can be verified."""
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        inputs = x.clone().requires_grad_()
        loss = functional.cross_entropy(net(inputs), y, reduction="sum")
        (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
        optimizer.zero_grad()
        (loss + 10 * (gradient * mask).square().sum()).backward()
        optimizer.step()


def _attack(
    attacked: Attacked,
    net: nn.Module,
    batch: Batch,
    certificate: rr.Certificate,
    valid_range: tuple[float, float],
    effort: int,
) -> None:
    verdicts = [verdict for verdict in certificate.samples if verdict.status == "verified"]
    attacked.num_verified += len(verdicts)
    if not verdicts:
        return
    rows = torch.tensor([verdict.index for verdict in verdicts])
    x, mask = batch.x[rows], batch.mask[rows]
    prediction = torch.tensor([verdict.prediction for verdict in verdicts])
    boxes = Boxes(*masked_box(x, mask, certificate.settings["epsilon"], valid_range), prediction)
    own = copy.deepcopy(net).eval()
    points = points_in(own, boxes, Target.MARGIN, effort=effort)
    attacked.num_points += points.shape[0] * points.shape[1]
    proved = torch.tensor([verdict.margin_proved for verdict in verdicts], dtype=torch.float64)
    for dtype in sorted({x.dtype, torch.float64}, key=str):
        with torch.no_grad():
            outputs = own.to(dtype)(points.to(dtype).flatten(0, 1)).unflatten(0, points.shape[:2])
        margins = Target.MARGIN(
            outputs.flatten(0, 1), prediction.repeat_interleave(points.shape[1])
        )
        margins = margins.unflatten(0, points.shape[:2])
        changed = (outputs.argmax(dim=2) != prediction[:, None]).any(dim=1)
        lower = (margins < proved[:, None]).any(dim=1)
        _report(attacked, rows, changed, f"prediction changes in {dtype}")
        _report(attacked, rows, lower, f"margin below the proved one in {dtype}")
    for target in (Target.LOSS, Target.LOGIT):
        _, gradients = values_at(own.double(), points.double(), batch.y[rows], target)
        found = (gradients * mask.double().unsqueeze(1)).flatten(2).norm(dim=2)
        name = f"{target.value}_gradient_proved"
        most = torch.tensor([getattr(v, name) for v in verdicts], dtype=torch.float64)
        _report(attacked, rows, found.amax(dim=1) > most, f"{name} exceeded")


def _report(attacked: Attacked, rows: Tensor, is_wrong: Tensor, text: str) -> None:
    """Note the samples at which something is wrong."""
    if bool(is_wrong.any()):
        attacked.broken.append(f"{text}: samples {rows[is_wrong].tolist()}")


def masked_box(
    x: Tensor, mask: Tensor, epsilon: float | None, valid_range: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """The box that a certificate speaks about, rounded inward to the precision of the samples."""
    exact, share = x.double(), mask.double()
    if epsilon is None:
        lower, upper = (exact + share * (end - exact) for end in valid_range)
    else:
        lower, upper = exact - epsilon * share, exact + epsilon * share
        lower, upper = lower.clamp(min=valid_range[0]), upper.clamp(max=valid_range[1])
    lower, upper = torch.minimum(lower, exact), torch.maximum(upper, exact)
    low, high = lower.to(x.dtype), upper.to(x.dtype)
    low = torch.where(low.double() < lower, torch.nextafter(low, x + 1), low)
    high = torch.where(high.double() > upper, torch.nextafter(high, x - 1), high)
    return torch.minimum(low, x), torch.maximum(high, x)
