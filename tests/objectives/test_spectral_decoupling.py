import pytest

from rightreasons.errors import InvalidSettingError
from rightreasons.objectives import SpectralDecoupling


@pytest.mark.parametrize("gamma", ["0", float("nan"), True])
def test_bad_settings(gamma):
    with pytest.raises(InvalidSettingError, match="Expected `gamma` to be a finite number"):
        SpectralDecoupling(gamma=gamma)
