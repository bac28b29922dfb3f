"""The pages on results are up to date, short, and true of the kept results."""

import importlib
import inspect
import json
import re
from functools import cache
from pathlib import Path

import pytest

from rightreasons import benchmark, recipes
from rightreasons.benchmark.suites.reff_regimes import WEIGHTS
from rightreasons.objectives.recipes import RECIPES
from tests.soundness.nets import all_kinds

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FINDINGS = sorted((ROOT / "docs" / "results").glob("*.md"))
PAPERS = [page.stem for page in FINDINGS]
MOST_WORDS = 850
"""Words of a page without its tables."""


@pytest.fixture
def write_tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("write_tables")


def test_every_paper_has_findings_and_tables(write_tables):
    assert PAPERS == [
        "alignment",
        "audit",
        "defaults",
        "density",
        "index",
        "masktune",
        "r4",
        "reff",
    ]
    others = len(write_tables.OTHERS) + 1  # and the README; the index has no tables
    assert len(write_tables.pages()) == 2 * len(PAPERS) - 1 + others


@pytest.mark.parametrize(
    "paper",
    [*PAPERS, "foreign_models", "growth", "promises", "repair", "speed", "texts_and_tables"],
)
def test_pages_are_up_to_date(write_tables, paper):
    """Also: every suite of a paper has its table, and every number is used."""
    texts = []
    for page in write_tables.pages():
        if write_tables.paper_of(page) == paper:
            texts.append(page.read_text())
            assert write_tables.filled(page) == texts[-1], "run `python benchmarks/write_tables.py`"
    text = "".join(texts)
    findings = importlib.import_module(f"findings.{paper}")
    assert {match["name"] for match in write_tables.VALUE.finditer(text)} == set(findings.values())
    assert {match["name"] for match in write_tables.TABLE.finditer(text)} == set(findings.TABLES)
    shown = {match["suite"] for match in write_tables.SUITE.finditer(text)}
    suites = [name.replace("_", "-") for name in benchmark.SUITES]
    assert shown == {name for name in suites if name.partition("-")[0] == paper}


@pytest.mark.parametrize("page", FINDINGS, ids=PAPERS)
def test_findings_are_short_and_their_numbers_are_filled_in(write_tables, page):
    text = page.read_text()
    prose = write_tables.VALUE.sub("", write_tables.TABLE.sub("", text))
    assert len(prose.split()) <= MOST_WORDS
    assert not re.findall(r"(?<!l2 )(?<!l-infinity )\b\d+\.\d+", prose)


def test_a_name_that_is_not_known_is_refused(write_tables, tmp_path):
    page = tmp_path / "r4.md"
    page.write_text("It has 5<!--nothing--> %.")
    with pytest.raises(SystemExit, match="expected a name of .*r4.py, but got 'nothing'"):
        write_tables.filled(page)


def figures(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@cache
def lines_of(suite):
    return benchmark.show_suite(suite, RESULTS / suite.partition("-")[0]).to_dict()["lines"]


@pytest.mark.parametrize("suite", ["density-unseen", "reff-decoy-ham"])
def test_no_run_is_missing(suite):
    """A line has all of its runs, or none yet, which the page says."""
    for line in lines_of(suite):
        measured = [measure["ours"] for measure in line["measures"].values()]
        if any(measured):
            assert {one["num_runs"] for one in measured} == {line["num_seeds"]}
        assert not line["num_failed"]


@pytest.mark.parametrize("method", ["Smooth-R3", "IBP-Ex", "Rand-R4", "Adv-R4", "Cert-R4"])
def test_chosen_settings_on_decoy_mnist_are_the_recipes_defaults(method):
    chosen = {
        line["variant"]: line["chosen"]["settings"]
        for line in lines_of("r4-table1")
        if line["method"] == method and line["variant"].startswith("mnist")
    }
    recipe = getattr(recipes, method.lower().replace("-", "_"))
    defaults = {name: one.default for name, one in inspect.signature(recipe).parameters.items()}
    assert sorted(chosen) == ["mnist-faint", "mnist-ross"]
    for settings in chosen.values():
        assert settings == {name: defaults[name] for name in settings}


def test_the_regimes_have_the_weights_that_table_3_chooses():
    chosen = {
        line["method"]: line["chosen"]["settings"]["weight"]
        for line in lines_of("reff-table3")
        if line["variant"] == "p = 0" and line["method"] in WEIGHTS and line["chosen"]
    }
    assert chosen.items() <= WEIGHTS.items()
    if len(chosen) < len(WEIGHTS):
        pytest.skip("reff-table3 is not run yet")


def test_the_last_soundness_campaign_found_nothing():
    found = figures("soundness")
    wrong = ("escapes", "certificates broken", "false traps", "nets refused")
    assert [found[name] for name in wrong] == [0, 0, 0, 0]
    assert set(found["kinds"]) == set(all_kinds())


def test_the_last_campaign_against_runs_lost_nothing():
    found = figures("faults")
    assert found["failures"] == 0 and found["resumed"] and found["intruders refused"]
    assert found["SIGKILL"] >= 100 and found["SIGTERM"] >= 20 and found["disk full"] >= 40
    assert all(all(counts.values()) for counts in found["commands"].values())


def test_no_method_is_silently_wrong_on_models_of_other_libraries():
    rows = figures("foreign_models")["nets"]
    assert {"ViT", "DeiT", "Dinov2", "Swin", "ConvNeXt", "ResNet", "EfficientNet"} <= set(rows)
    wrong = set()
    for net, row in rows.items():
        assert set(row["recipes"]) <= {*RECIPES} and row["accuracy"] > 0.95
        cells = [*row["recipes"].items(), *row["explainers"].items()]  # two have the same names
        cells += [(name, row[name]) for name in ("MaskTune", "certify")]
        right = ("works", "weak", "refused: Expected")
        wrong |= {(net, name) for name, cell in cells if not cell.startswith(right)}
    assert not wrong


def test_images_on_disk_are_read_fast_and_take_no_memory():
    found = figures("streaming")
    assert found["stream"]["images"] >= 99_999
    assert found["stream"]["memory, later beside early"] < 1.1
    assert found["folder"]["after"]["peak GiB"] < found["folder"]["before"]["peak GiB"] / 2


def test_the_memory_of_no_recipe_grows():
    found = figures("step_memory")
    assert set(found["recipes"]) <= {*RECIPES}
    assert found["steps"] >= 200
    assert all(row["ratio"] < 1.01 for row in found["recipes"].values())


def test_attacks_agree_with_foolbox_and_stronger_ones_leave_less():
    for found in figures("attacks_beside_foolbox")["accuracy"].values():
        assert found["images on which pgd and foolbox, any point, differ"] == 0
        assert found["apgd, CE and DLR"] < found["pgd, ten runs"]
        assert 800 * (found["apgd, CE"] - found["pgd"]) < 2.5


def test_the_stable_form_of_density_does_not_depend_on_a_shift():
    found = figures("density_stability")
    right, plain = (dict(found["shifted logits"][form]) for form in ("logsumexp", "plain"))
    assert (min(right), max(right)) == (-10_000, 10_000)
    assert all(size == pytest.approx(right[0.0], rel=1e-5) for size in right.values())
    assert plain[87.5] == 0.0
    assert all(plain[shift] is None for shift in plain if shift >= 90)
    wrong = [shift for shift in plain if plain[shift] != pytest.approx(right[0.0], rel=1e-3)]
    assert max(shift for shift in wrong if shift < 0) == -95
    assert len(found["training"]["logsumexp"]) == int(found["settings"]["steps"])
    assert found["training"]["plain"][-1][1] is None


def test_costs_keep_to_their_bounds():
    density = figures("density_step_time")
    for net in ("mlp2, batch 128", "resnet18, batch 128"):
        assert density[net]["10 classes, beside input_gradient"]["density logsumexp"] <= 1.05
        assert density[net]["many classes beside few"]["density logsumexp"] <= 1.1
    reff = figures("reff_step_time")["resnet18"]["reff, four layers"]
    assert reff["beside by hand"] <= 1.05
    assert reff["beside reff, first layer"] <= 1.2


CLAIMS = [  # each is a comparison of means, from the smallest to the largest
    ("alignment-table1", "lenet", "RPS-Grad", ("CE only", "l2 + cosine", "l2", "Hessian")),
    ("alignment-table1", "lenet", "A-Ins-Grad", ("CE only", "l2", "Hessian", "l2 + cosine")),
    *(
        ("density-table1", "block-mnist", measure, ("Density (log-sum-exp)", "InputGrad"))
        for measure in ("PGD-20 linf 0.1", "accuracy")
    ),
    (
        "masktune-table4",
        "cifar10",
        "error at 90 %",
        ("OSP", "MaskTune", "SR", "SelectiveNet", "Deep Gamblers"),
    ),
    ("reff-table3", "p = 0", "accuracy", ("R3 (margin)", "R3", "baseline")),
    ("reff-table3", "p = 0", "accuracy", ("baseline", "ReFF", "ReFF (L1)", "ReFF (L2)")),
]


@pytest.mark.parametrize(("suite", "variant", "measure", "methods"), CLAIMS)
def test_claims_that_the_pages_make_in_words(suite, variant, measure, methods):
    """A number alone would not show that a claim is wrong."""
    lines = {line["method"]: line for line in lines_of(suite) if line["variant"] == variant}
    found = [lines[method]["measures"][measure]["ours"] for method in methods]
    if None in found:
        pytest.skip(f"{suite} is not run yet")
    means = [one["mean"] for one in found]
    assert means == sorted(means)


def test_speed_keeps_to_its_bounds():
    found = figures("beside_others")
    steps = {(row["net"], row["recipe"]): row for row in found["steps"]}
    assert steps["LeNet", "r3"]["beside cross-entropy"] <= 2.0
    assert steps["ResNet-18", "r3"]["beside by hand"] <= 1.05  # the other ratio is the machine's
    assert steps["LeNet", "counterexamples"]["beside cross-entropy"] <= 1.1
    assert found["jobs"]["certify full range, ibp, MLP"]["times faster"] >= 10
    assert {row["library"] for row in found["peers"]["rows"]} == {
        *("captum", "zennit", "foolbox", "torchattacks", "quantus")
    }
    assert not found["peers"]["not installed"]
    assert {row["net"] for row in found["passes"]} == {row["net"] for row in found["steps"]}
