import pytest

import rightreasons as rr
from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import SpectralDecoupling


@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_equals_the_slow_twin(gamma, tiny_net, tiny_batch):
    probe = rr.Probe(tiny_net.eval(), tiny_batch)
    expected = [sum((f - gamma) ** 2 for f in row) / 2 for row in probe.logits.tolist()]
    assert SpectralDecoupling(gamma=gamma)(probe).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("gamma", ["0", float("nan"), True])
def test_bad_settings(gamma):
    with pytest.raises(InvalidSettingError, match="Expected `gamma` to be a finite number"):
        SpectralDecoupling(gamma=gamma)
