"""The contract of every metric.

The models have small whole weights and the features are eighths, so that no sum is rounded and
values can be compared with ``==``.
"""

import json
import random
import re
from functools import partial

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing, nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError
from rightreasons.metrics import (
    METRICS,
    RPS,
    Accuracy,
    AdversarialAccuracy,
    AdvInsertion,
    CalibrationError,
    CamMass,
    CertifiedChange,
    Deletion,
    DensityRobustness,
    FeatureLeakage,
    GradientFragility,
    GradientRobustness,
    GroupAccuracy,
    InputGradientMass,
    Insertion,
    PixelPerturbation,
    RelativeCoreSensitivity,
    RiskCoverage,
    RobustCriterion,
    SubstitutionSensitivity,
    SwapAccuracy,
)
from rightreasons.training.evaluate import _flatten

TABLE = {
    "accuracy": Accuracy,
    "adv_insertion": partial(
        AdvInsertion,
        explainers="input_times_gradient",  # a ReLU net as it is has no slope of the gradient
        epsilon=0.25,
        num_steps=2,
        ratios=(0.0, 0.5),
        softplus_beta=None,
    ),
    "adversarial_accuracy": partial(AdversarialAccuracy, epsilons=(0.0625, 0.125), num_steps=4),
    "adversarial_accuracy apgd": partial(
        AdversarialAccuracy, attack="apgd", norm=["linf", "l2"], epsilons=(0.125,), num_steps=4
    ),
    "calibration_error": CalibrationError,
    "calibration_error 4 bins": partial(CalibrationError, num_bins=4),
    "cam_mass": partial(CamMass, layer="0"),
    "certified_change": partial(CertifiedChange, epsilon=0.125),
    "deletion": partial(Deletion, ratios=(0.0, 0.2, 0.5)),
    "density_robustness": partial(DensityRobustness, deviations=[0.25, 0.5], num_draws=2),
    "feature_leakage": partial(FeatureLeakage, num_steps=3, quadrature="trapezoid"),
    "gradient_fragility": partial(GradientFragility, epsilon=0.125, target="logit"),
    "gradient_robustness": partial(GradientRobustness, deviations=[0.25, 0.5], num_draws=2),
    "group_accuracy": GroupAccuracy,
    "input_gradient_mass": InputGradientMass,
    "input_gradient_mass margin": partial(InputGradientMass, target="margin"),
    "insertion": partial(Insertion, explainers=["input_gradient", "input_times_gradient"]),
    "pixel_perturbation": partial(
        PixelPerturbation, explainers="input_gradient", ratios=(0.2, 0.5)
    ),
    "relative_core_sensitivity": partial(RelativeCoreSensitivity, noise=0.5),
    "risk_coverage": partial(RiskCoverage, thresholds=[None, -1.0, 0.0, 1.0, 2.0]),
    "robust_criterion": partial(
        RobustCriterion,
        epsilon=0.25,
        num_draws=2,
        num_projections=2,
        num_steps=2,
        softplus_beta=None,
    ),
    "rps": partial(RPS, epsilons=[0.25, 0.5], num_draws=2),
    "substitution_sensitivity": SubstitutionSensitivity,
    "swap_accuracy": SwapAccuracy,
    "swap_accuracy samples": partial(SwapAccuracy, source="samples"),
    "swap_accuracy uniform": partial(SwapAccuracy, source="uniform", num_draws=3),
}
# The quality of explanations, right or wrong, depends on no mask or group.
OF_EXPLANATIONS = {"adv_insertion", "deletion", "insertion", "robust_criterion", "rps"}
OF_EXPLANATIONS |= {"density_robustness", "gradient_robustness", "pixel_perturbation"}
OF_TEXTS = {"comprehensiveness", "sufficiency", "token_agreement"}  # see test_tokens.py
ON_MAPS = {"cam_mass"}  # only images have them
WITH_MASKS = ["cam_mass", "certified_change", "feature_leakage", "gradient_fragility"]
WITH_MASKS += ["input_gradient_mass", "relative_core_sensitivity", "swap_accuracy"]
WITH_MASKS += ["substitution_sensitivity"]
PREPARED = ["adv_insertion", "adversarial_accuracy", "certified_change", "deletion"]
PREPARED += ["gradient_fragility", "insertion", "pixel_perturbation", "relative_core_sensitivity"]
PREPARED += ["robust_criterion", "rps", "substitution_sensitivity", "swap_accuracy"]
SIZE = 37


def made(name):
    return TABLE[name]()


@pytest.fixture(params=TABLE)
def metric(request):
    return made(request.param)


def exact_data():
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-8, 9, (SIZE, 2, 3, 3), generator=generator) / 8
    mask = (torch.rand(SIZE, 1, 3, 3, generator=generator) < 0.4).float()
    mask[::5] = 0  # nothing to avoid
    batch = rr.Batch(
        x=x,
        y=torch.randint(3, (SIZE,), generator=generator),
        mask=mask,
        group=torch.randint(-1, 4, (SIZE,), generator=generator),
    )
    card = Card(
        groups=("a", "b", "c", "d"), train_group_counts=(7, 1, 0, 3), valid_range=(-1.0, 1.0)
    )
    return InMemory(batch, card)


def exact_model(on_maps=False):
    generator = torch.Generator().manual_seed(1)
    first = (nn.Conv2d(2, 6, 3), nn.Flatten()) if on_maps else (nn.Flatten(), nn.Linear(18, 6))
    model = nn.Sequential(*first, nn.ReLU(), nn.Linear(6, 3))
    for parameter in model.parameters():
        whole = torch.randint(-2, 3, parameter.shape, generator=generator)
        parameter.data = whole.float()
    return model


@pytest.fixture
def data():
    return exact_data()


@pytest.fixture
def model(request):
    alone = "metric" in request.fixturenames
    on_maps = not alone or request.getfixturevalue("metric").name in ON_MAPS
    return exact_model(on_maps)


@pytest.fixture(scope="module")
def reference():
    """The values of each row of the table in one evaluation, computed once."""
    values = {}

    def of(name):
        if name not in values:
            model = exact_model(made(name).name in ON_MAPS)
            values[name] = rr.evaluate(model, exact_data(), [made(name)])
        return values[name]

    return of


def updated(metric, model, data, parts):
    """The values after seeing these rows, batch by batch."""
    metric.reset()
    metric.prepare(data)
    for rows in parts:
        batch = data.take(rows)
        metric.update(
            rr.Probe(model, batch, needs_gradient=metric.needs_gradient, create_graph=False)
        )
    return _flatten({metric.name: metric.compute()})


def test_every_metric_is_in_the_table():
    assert {made(name).name for name in TABLE} == set(METRICS) - OF_TEXTS


def test_is_named_as_its_class_and_says_what_is_better(metric):
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(metric).__name__).lower()
    assert metric.name == snake
    assert isinstance(metric.higher_is_better, bool)
    assert metric.needs_gradient in (True, False, "inside")


def test_gives_finite_numbers_that_json_can_hold(metric, model, data):
    values = rr.evaluate(model, data, [metric])
    assert values
    assert all(type(value) is float for value in values.values())
    assert all(name.split("/")[0] == metric.name for name in values)
    assert json.loads(json.dumps(values, allow_nan=False)) == values


def test_one_batch_is_many_batches_in_any_order(metric, model, data):
    whole = updated(metric, model, data, [torch.arange(SIZE)])
    for seed, size in enumerate((1, 5, 36)):
        order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(seed))
        assert updated(metric, model, data, order.split(size)) == whole


@pytest.mark.parametrize("batch_size", [4, 36, 37, 1000])
@pytest.mark.parametrize("name", TABLE)
def test_values_do_not_depend_on_the_batch_size(name, batch_size, data, reference):
    model = exact_model(made(name).name in ON_MAPS)
    assert rr.evaluate(model, data, [made(name)], batch_size=batch_size) == reference(name)


@pytest.mark.parametrize("max_rows", [1, 10, 10_000])
@pytest.mark.parametrize("name", TABLE)
def test_values_do_not_depend_on_the_ceiling_of_rows(name, max_rows, data, reference):
    model = exact_model(made(name).name in ON_MAPS)
    assert rr.evaluate(model, data, [made(name)], max_rows=max_rows) == reference(name)


def test_metrics_measured_together_give_what_each_gives_alone(model, data):
    chosen = [made(name) for name in METRICS if name not in OF_TEXTS]
    together = rr.evaluate(model, data, chosen)
    alone = {}
    for metric in chosen:
        alone |= rr.evaluate(model, data, [metric])
    assert together == pytest.approx(alone, rel=1e-6)
    default = rr.evaluate(model, data)
    assert default.items() <= together.items()


def test_a_sample_seen_twice_counts_once(metric, model, data):
    rows = torch.arange(SIZE)
    whole = updated(metric, model, data, [rows])
    assert updated(metric, model, data, [rows[:20], rows[3:30], rows, rows[:1]]) == whole
    assert updated(metric, model, data, [torch.cat([rows, rows.flip(0)])]) == whole


def test_reset_forgets_everything(metric, model, data):
    half = torch.arange(SIZE // 2)
    expected = updated(metric, model, data, [half])
    updated(metric, model, data, [torch.arange(SIZE)])
    assert updated(metric, model, data, [half]) == expected


def test_evaluate_begins_anew(metric, model, data):
    updated(metric, model, data, [torch.arange(5)])
    first = rr.evaluate(model, data, [metric])
    assert rr.evaluate(model, data, [metric]) == first
    assert metric.compute() == metric.compute()


def test_without_samples_there_is_no_value(metric, data):
    message = f"Expected a sample before {type(metric).__name__}.compute"
    with pytest.raises(InvalidBatchError, match=message):
        metric.compute()
    metric.prepare(data)
    metric.reset()
    with pytest.raises(InvalidBatchError, match=message):
        metric.compute()


@pytest.mark.parametrize("metric", WITH_MASKS, indirect=True)
def test_data_without_masks_are_refused(metric, model, data):
    batch = data.batch.replace(mask=None, annotated=None)
    message = f"Expected data with masks for {type(metric).__name__}, but got none"
    with pytest.raises(InvalidBatchError, match=message):
        rr.evaluate(model, batch, [metric])


@pytest.mark.parametrize("metric", PREPARED, indirect=True)
def test_a_metric_that_was_not_prepared(metric, model, data):
    batch = data.take(torch.arange(4))
    message = rf"Expected {type(metric).__name__}.prepare\(data\) before the first batch"
    need = metric.needs_gradient
    with pytest.raises(InvalidBatchError, match=message):
        metric.update(rr.Probe(model, batch, needs_gradient=need, create_graph=False))


def moody_net():
    """Layers that depend on the mode, one in test mode already; one gradient exists already."""
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(36, 3),
    )
    net[1].eval()
    net[0].weight.grad = torch.ones_like(net[0].weight)
    return net


def fingerprint(net):
    """Everything in the model and the process that measuring could change."""
    hooks = [
        [len(getattr(module, name)) for name in vars(module) if name.endswith("_hooks")]
        for module in net.modules()
    ]
    return {
        "modes": [module.training for module in net.modules()],
        "state": [value.tolist() for value in net.state_dict().values()],
        "grad": [None if p.grad is None else p.grad.tolist() for p in net.parameters()],
        "requires_grad": [parameter.requires_grad for parameter in net.parameters()],
        "hooks": hooks,
        "torch": torch.get_rng_state().tolist(),
        "numpy": [np.asarray(part).tolist() for part in np.random.get_state()],
        "python": random.getstate(),
        "grad mode": torch.is_grad_enabled(),
    }


@pytest.mark.parametrize("training", [True, False])
def test_nothing_is_touched(metric, data, training):
    net = moody_net()
    if not training:
        net.eval()
    batch = data.batch
    parts = {name: getattr(batch, name).clone() for name in ("x", "y", "mask", "group")}
    before = fingerprint(net)
    rr.evaluate(net, data, [metric], batch_size=10)
    assert fingerprint(net) == before
    assert all(torch.equal(getattr(batch, name), part) for name, part in parts.items())
    assert not batch.x.requires_grad


def test_the_model_is_measured_as_at_test_time(metric, data):
    net = moody_net()
    values = rr.evaluate(net, data, [metric])
    assert rr.evaluate(net.eval(), data, [metric]) == values


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = moody_net()

    def forward(self, x):
        return self.inner(x).exp().log().sum()


def test_the_modes_come_back_after_an_error(metric, data):
    net = Broken()
    before = fingerprint(net)
    with pytest.raises(InvalidBatchError, match="Expected the model to give logits of shape"):
        rr.evaluate(net, data, [metric])
    assert fingerprint(net) == before


@pytest.mark.parametrize("metric", sorted(set(TABLE) - OF_EXPLANATIONS - ON_MAPS), indirect=True)
def test_a_model_right_for_the_right_reason_is_better(metric):
    """Feature 0 is a shortcut that fails here; feature 1 is the reason."""
    y = torch.arange(60) % 2
    broken = torch.arange(60) // 2 % 2
    x = torch.stack([broken.float(), y.float()], dim=1)
    mask = torch.tensor([[1.0, 0.0]]).expand(60, 2)
    batch = rr.Batch(x=x, y=y, mask=mask, group=2 * y + broken)
    values = []
    for feature in (0, 1):
        model = nn.Linear(2, 2)
        model.weight.data = torch.zeros(2, 2)
        model.weight.data[:, feature] = torch.tensor([-20.0, 20.0])
        model.bias.data = torch.tensor([10.0, -10.0])
        curved = nn.Sequential(model, nn.Softplus())  # a gradient that is not the same everywhere
        measured = rr.evaluate(curved, batch, [metric])
        values.append(measured.get(metric.name, measured.get(f"{metric.name}/worst")))
    shortcut, reason = values
    assert reason > shortcut if metric.higher_is_better else reason < shortcut


def several_processes(rank, folder):
    """The work of each of two processes; a fresh interpreter imports it."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    data = exact_data()
    values = [
        rr.evaluate(exact_model(name in ON_MAPS), data, [made(name)], batch_size=4)
        for name in TABLE
    ]
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(values, file)
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_what_one_gives(reference, tmp_path):
    multiprocessing.spawn(several_processes, args=(str(tmp_path),), nprocs=2)
    expected = [reference(name) for name in TABLE]
    for rank in range(2):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == expected
