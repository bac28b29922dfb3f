import pytest
import torch
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.explainers import (
    LRP,
    Explainer,
    GradCAM,
    InputGradient,
    InputTimesGradient,
    SmoothGrad,
)
from rightreasons.metrics import METRICS
from rightreasons.metrics.explanation_metric import (
    CACHE_ROWS,
    ExplanationMetric,
    attributions,
    create_explainers,
    rows_in_cache,
    split_for_cache,
    to_channels_last,
)
from rightreasons.probe.probe import Probe
from rightreasons.types import Batch

NAMES = [name for name in METRICS if issubclass(METRICS[name], ExplanationMetric)]


@pytest.mark.parametrize("name", [*NAMES, "robust_criterion"])
def test_tokens_are_refused(name):
    tokens = InMemory(rr.Batch(x=torch.tensor([[1, 2], [2, 0]]), y=torch.tensor([0, 1])))
    model = nn.Sequential(nn.Embedding(3, 2), nn.Flatten(), nn.Linear(4, 2))
    with pytest.raises(InvalidBatchError, match="Expected floating point `x` for .*token ids"):
        rr.evaluate(model, tokens, [name])


@pytest.mark.parametrize("name", NAMES)
def test_mistakes_in_names_show_at_once(name):
    with pytest.raises(UnknownNameError, match="Expected an explainer, but got 'lpr'"):
        METRICS.create(name, explainers="lpr")


def test_lrp_by_name_takes_the_range_of_the_data():
    x = torch.rand(3, 1, 4, 4) - 2
    data = InMemory(rr.Batch(x=x, y=torch.tensor([0, 1, 1])), Card(valid_range=(-2.0, -1.0)))
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.ReLU(), nn.Linear(4, 2))
    values = rr.evaluate(model, data, [METRICS.create("rps", explainers="lrp", num_draws=2)])
    assert 0 < values["rps/lrp"] == values["rps"] <= 1


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


def test_settings_stand_beside_names():
    made = create_explainers({"input-times-gradient": {"baseline": [0.5]}, "lrp": {}}, (-1.0, 2.0))
    assert list(made) == ["input_times_gradient", "lrp"]
    assert made["input_times_gradient"].baseline == [0.5]
    assert made["lrp"].valid_range == (-1.0, 2.0)
    with pytest.raises(InvalidSettingError, match="settings of the explainer 'lrp'.*got basline"):
        create_explainers({"lrp": {"basline": 1.0}})


def test_one_gradient_serves_all_that_rest_on_it():
    passes = []
    model = nn.Linear(3, 2)
    model.register_forward_hook(lambda *_: passes.append(1))
    x, y = torch.rand(4, 3), torch.tensor([0, 1, 0, 1])
    chosen = {
        "g": InputGradient(),
        "xg": InputTimesGradient(baseline=0.3),
        "loss": InputGradient(target="loss"),
        "lrp": LRP(),
    }
    values = attributions(chosen, model, x, y)
    assert sum(passes) == 3  # a gradient of each target, and LRP's
    for name, explainer in chosen.items():
        assert torch.equal(values[name], explainer(model, x, y))


def test_images_are_laid_out_with_channels_last_and_stay_the_same():
    x = torch.rand(2, 3, 4, 5)
    assert torch.equal(to_channels_last(x), x)
    assert to_channels_last(x).stride() == (60, 1, 15, 3)
    vectors = torch.rand(2, 3)
    assert to_channels_last(vectors) is vectors


def test_parts_are_small_and_all_there():
    x = torch.rand(2 * CACHE_ROWS + 1, 3, 4, 5)
    parts = split_for_cache(x)
    assert [len(part) for part in parts] == [CACHE_ROWS, CACHE_ROWS, 1]
    assert torch.equal(torch.cat(parts), x)
    assert parts[0].is_contiguous(memory_format=torch.channels_last)


def net(channels):
    return nn.Sequential(nn.Conv2d(3, channels, 1), nn.Flatten(), nn.Linear(channels * 1024, 2))


@pytest.mark.parametrize(("channels", "rows"), [(1, 512), (8, 256), (9, 128), (32, 64), (999, 16)])
def test_a_wide_net_takes_fewer_rows(channels, rows):
    batch = Batch(x=torch.rand(3, 3, 32, 32), y=torch.zeros(3, dtype=torch.long))
    assert rows_in_cache(Probe(net(channels), batch)) == rows


def test_the_model_is_left_as_it_was_when_rows_are_counted():
    model = nn.Sequential(nn.BatchNorm2d(3), *net(4)).train()
    batch = Batch(x=torch.rand(3, 3, 32, 32), y=torch.zeros(3, dtype=torch.long))
    probe = Probe(model, batch)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows_in_cache(probe)
    assert model.training
    assert not any(layer._forward_hooks for layer in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
