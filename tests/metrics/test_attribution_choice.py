import pytest
import torch
from torch import nn

from rightreasons.errors import InvalidSettingError, UnknownNameError
from rightreasons.explainers import (
    LRP,
    Explainer,
    GradCAM,
    InputGradient,
    InputTimesGradient,
    SmoothGrad,
)
from rightreasons.metrics.explanation_metric import attributions, create_explainers


def test_names_objects_and_dictionaries():
    assert list(create_explainers("input-gradient")) == ["input_gradient"]
    chosen = create_explainers(["lrp", InputGradient(), GradCAM(layers="0")])
    assert list(chosen) == ["lrp", "input_gradient", "grad_cam"]
    own = {"rough": SmoothGrad(sigma=0.5), "fine": SmoothGrad(sigma=0.1)}
    assert create_explainers(own) == own


def test_lrp_by_name_takes_the_valid_range():
    assert create_explainers("lrp", (-2.0, 3.0))["lrp"].valid_range == (-2.0, 3.0)
    given = LRP(valid_range=None)
    assert create_explainers(given, (-2.0, 3.0))["lrp"] is given


def test_a_user_s_own_explainer_goes_by_its_class():
    class MyOwn(Explainer):
        def attribution(self, subject):
            return subject.features

    assert list(create_explainers(MyOwn())) == ["my_own"]


@pytest.mark.parametrize("explainers", [[], ["lrp", LRP()], ["input_gradient", "input-gradient"]])
def test_they_are_different_ones(explainers):
    with pytest.raises(InvalidSettingError, match="different ones, at least one.*a dictionary"):
        create_explainers(explainers)


def test_unknown_names():
    with pytest.raises(UnknownNameError, match="Expected an explainer, but got 'lpr'.*'lrp'"):
        create_explainers("lpr")


def test_one_gradient_serves_all_that_rest_on_it():
    passes = []
    model = nn.Linear(3, 2)
    model.register_forward_hook(lambda *_: passes.append(1))
    x, y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
    chosen = {
        "g": InputGradient(),
        "xg": InputTimesGradient(),
        "loss": InputGradient(target="loss"),
        "lrp": LRP(),
    }
    found = attributions(chosen, model, x, y)
    assert sum(passes) == 3  # a gradient of each target, and LRP's
    for name, explainer in chosen.items():
        assert torch.equal(found[name], explainer(model, x, y))
