import pytest

from rightreasons.benchmark import Figure
from rightreasons.benchmark.plan import lines, plan
from rightreasons.benchmark.suites.density_tables import density_table1


@pytest.fixture
def suite():
    return density_table1()


def test_the_papers_figures(suite):
    def row(method):
        names = ("leakage", "PGD-20 l2 0.3, step 0.01", "PGD-20 linf 0.3, step 0.01", "accuracy")
        return [suite.figures.find("block-mnist", method, name) for name in names]

    assert row("AT (FGSM)") == [Figure(3.324), Figure(0.8748), Figure(0.0), Figure(0.9902)]
    assert row("AT (PGD)") == [Figure(2.313), Figure(0.9275), Figure(0.2805), Figure(0.9897)]
    assert row("ST") == [Figure(3.657), Figure(0.7357), Figure(0.0), Figure(0.9912)]
    assert row("SoftPlus") == [Figure(3.533), Figure(0.6795), Figure(0.0002), Figure(0.9852)]
    assert row("Hessian") == [Figure(4.258), Figure(0.8006), Figure(0.0), Figure(0.9848)]
    assert row("InputGrad") == [Figure(3.461), Figure(0.8346), Figure(0.2114), Figure(0.9456)]
    assert row("InputGrad (loss)") == [None] * 4
    assert row("IG-SUM") == [Figure(3.497), Figure(0.8211), Figure(0.2273), Figure(0.9287)]
    assert row("Density (plain)") == [
        Figure(2.259),
        Figure(0.8541),
        Figure(0.2936),
        Figure(0.9305),
    ]
    assert row("Density (stable)") == [Figure(2.289), Figure(0.8571), None, Figure(0.9345)]
    assert row("Density (efficient)") == [Figure(2.483), Figure(0.8436), None, Figure(0.9422)]
    assert row("Density (log-sum-exp)") == [None] * 4


def test_density_and_input_gradient_differ_in_the_penalty_alone(suite):
    cells = {line.method.name: line.cell(1, 0).config for line in lines(suite, "small")}
    density, other = cells["Density (log-sum-exp)"], cells["InputGrad"]
    assert density.settings == {"form": "logsumexp", "weight": 0.5}
    assert other.settings == {"weight": 0.5}
    assert cells["InputGrad (loss)"].settings == {"target": "loss", "weight": 2.0}
    same = vars(density) | {"recipe": other.recipe, "settings": other.settings}
    assert same == vars(other)


def test_every_column_is_what_a_run_measures(suite):
    config = next(iter(lines(suite, "small"))).cell(0, 0).config
    assert [metric.name for metric in config.build_metrics("validation")] == [
        "accuracy",
        "feature_leakage",
    ]
    attacked = config.build_metrics()[-1]
    keys = {
        f"adversarial_accuracy/{norm}/{epsilon}{step}"
        for norm in attacked.norm
        for epsilon in attacked.epsilons
        for step in ("", "/0.01")
    }
    assert attacked.step_size == [0.01, None]
    assert {one.key for one in suite.measures if one.metric == "adversarial_accuracy"} == keys


def test_smooth_nets_are_asked_for(suite):
    smooth = {
        line.method.name
        for line in lines(suite, "paper")
        if line.cell(0, 0).config.model_settings.get("activation") == "softplus"
    }
    assert smooth == {"SoftPlus", "Hessian"}


def test_its_size(suite):
    planned = plan(suite, "small", lambda config: None)
    assert len(planned.cells) + planned.num_unknown == 14 * (3 + 2)
