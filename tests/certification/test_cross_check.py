import pytest
import torch
from torch import nn

from rightreasons import bounds
from rightreasons.certification import cross_check
from rightreasons.errors import CertificateError
from rightreasons.types import Interval, Target

VALUES = torch.tensor([[1.0, -2.0], [0.0, 3.0]], dtype=torch.float64)


def test_finite_logits():
    cross_check.refuse_non_finite(torch.zeros(2, 3))
    for bad in (torch.nan, torch.inf):
        with pytest.raises(CertificateError, match="NaN or infinity for 1 of 2 samples"):
            cross_check.refuse_non_finite(torch.tensor([[0.0, bad], [0.0, 1.0]]))


@pytest.mark.parametrize("target", [Target.LOSS, Target.LOGIT])
def test_points(net_of, batch_of, region_for, monkeypatch, target):
    region = region_for(net_of(hidden=(8, 8)), batch_of())
    gradient = region.gradient(target)
    cross_check.refuse_wrong_points(region, target, gradient)
    honest = bounds.input_gradient_bounds

    def wrong(*arguments, **settings):
        lower, upper = honest(*arguments, **settings)
        return Interval(lower * 1.01, upper * 1.01)

    monkeypatch.setattr(bounds, "input_gradient_bounds", wrong)
    with pytest.raises(CertificateError, match=f"gradient of the {target.value} there, but they"):
        cross_check.refuse_wrong_points(region, target, gradient)


def test_a_sample_at_a_kink_is_no_fault(batch_of, region_for):
    net = nn.Sequential(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)).eval()
    batch = batch_of()
    region = region_for(net, batch.replace(x=torch.zeros_like(batch.x)))
    for target in (Target.LOSS, Target.LOGIT):
        cross_check.refuse_wrong_points(region, target, region.gradient(target))


def test_outputs(net_of, batch_of, region_for, monkeypatch):
    region = region_for(net_of(), batch_of())
    cross_check.refuse_wrong_outputs(region)
    wrong = Interval(torch.full((16, 3), 50.0), torch.full((16, 3), 51.0))
    monkeypatch.setattr(bounds, "output_bounds", lambda *arguments, **settings: wrong)
    with pytest.raises(CertificateError, match="bounds that hold the logits .* 48 of 48 values"):
        cross_check.refuse_wrong_outputs(region)


def test_values_and_their_bounds():
    cross_check.refuse_outside("it", VALUES, Interval(VALUES, VALUES))
    cross_check.refuse_outside("it", VALUES, Interval(VALUES - torch.inf, VALUES + torch.inf))
    cross_check.refuse_outside("it", VALUES, Interval(VALUES * torch.nan, VALUES * torch.nan))
    for shift in (1e-3, -1e-3):
        with pytest.raises(CertificateError, match="bounds that hold it .* 4 of 4 values"):
            cross_check.refuse_outside("it", VALUES, Interval(VALUES + shift, VALUES + shift))


def test_attacks_and_proofs():
    proved = torch.tensor([1.0, -2.0, torch.inf], dtype=torch.float64)
    cross_check.refuse_exceeded_bound("it", proved, proved)
    cross_check.refuse_exceeded_bound("it", proved, proved - 1)
    for row in range(2):
        found = proved.clone()
        found[row] += 1e-5
        with pytest.raises(CertificateError, match="no larger it than was proved, but it found"):
            cross_check.refuse_exceeded_bound("it", proved, found)


def test_verified_and_refuted():
    some, other = torch.tensor([True, True, False]), torch.tensor([False, False, True])
    cross_check.refuse_contradiction(some, other)
    with pytest.raises(CertificateError, match="but an attack changed 1 of 2"):
        cross_check.refuse_contradiction(some, torch.tensor([True, False, True]))
