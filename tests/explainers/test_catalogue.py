import pytest

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.explainers import EXPLAINERS, LRP, Explainer


def test_every_explainer_is_there_under_its_name():
    assert list(EXPLAINERS) == [
        *("grad_cam", "guided_backprop", "input_gradient", "input_times_gradient"),
        *("integrated_gradients", "lrp", "occlusion", "smooth_grad", "xgrad_cam"),
    ]
    for name in EXPLAINERS:
        assert isinstance(EXPLAINERS.create(name), Explainer)
        assert EXPLAINERS.describe()[name]
        assert "target" in EXPLAINERS.settings(name)


def test_settings_and_names_are_checked():
    assert EXPLAINERS.create("lrp", rule="gamma").rule == "gamma"
    assert EXPLAINERS["lrp"] is LRP
    with pytest.raises(UnknownNameError, match="Did you mean 'lrp'"):
        EXPLAINERS.create("lrpp")
    with pytest.raises(InvalidSettingError, match="of the explainer 'lrp' among: rule"):
        EXPLAINERS.create("lrp", beta=3)
