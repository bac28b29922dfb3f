"""The tables of the pages on results are those the committed rows give."""

import importlib.util
import inspect
import json
from pathlib import Path

import pytest

from rightreasons import benchmark, recipes
from rightreasons.benchmark.suites.reff_regimes import WEIGHTS

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))
ORDER = ("before", "after")
COSTS = ("time", "memory", "time beside by hand", "memory beside by hand")


def write_tables():
    path = ROOT / "benchmarks" / "write_tables.py"
    spec = importlib.util.spec_from_file_location("write_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tables_are_what_bench_show_prints(page):
    script, text = write_tables(), page.read_text()
    assert script.PLACE.search(text)
    assert script.filled(text) == text, f"run `python benchmarks/write_tables.py {page}`"


def test_there_are_pages():
    assert PAGES


def kept(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def words_of(page):
    return " ".join((ROOT / "docs" / "results" / f"{page}.md").read_text().split())


def test_the_attack_is_what_was_measured():
    figures, text = kept("manipulation"), words_of("alignment")
    assert f"on {figures['samples']} test images" in text
    budgets = {name: runs for name, runs in figures.items() if isinstance(runs, dict)}
    assert len(budgets) == 2
    for budget, runs in budgets.items():
        assert len(runs) == 3
        for name, found in runs.items():
            told = name if name != "l2 + cosine" else "l2 + cosine, as in Table 1"
            shares = [
                f"{100 * found[f'share of the {what} on the frame {when}']:.1f} %"
                for what in ("map", "top tenth")
                for when in ORDER
            ]
            cells = " | ".join([told, budget.split()[-1], *shares])
            rest = f"{found['cosine of the maps']:.2f} | {100 * found['accuracy']:.1f} %"
            assert f"| {cells} | {rest} |" in text


def test_adv_insertion_of_more_images_is_what_was_measured():
    found, text = kept("adv_insertion_of_runs"), words_of("alignment")
    assert f"Of {found['samples']} images, the same runs" in text
    rows = found["adv_insertion"]
    for name, row in rows.items():
        each = ", ".join(f"{100 * value:.1f}" for value in row["of each seed"])
        mean, deviation = (f"{100 * row[key]:.2f}" for key in ("mean", "deviation"))
        assert f"| {name} | {mean} ± {deviation} | {each} |" in text


def test_alignment_is_as_robust_as_the_page_says():
    table = benchmark.show_suite("alignment-table1", ROOT / "benchmarks" / "results" / "alignment")
    lines = {line["method"]: line["measures"] for line in table.to_dict()["lines"]}
    means = {
        name: {measure: value["ours"]["mean"] for measure, value in line.items()}
        for name, line in lines.items()
    }
    best = means.pop("l2 + cosine")
    assert means["CE only"]["RPS-Grad"] < 0.85
    gain = best["RPS-Grad"] - means["CE only"]["RPS-Grad"]
    assert f"{gain:.3f} above CE's" in words_of("alignment")
    for other in means.values():
        assert best["RPS-Grad"] > other["RPS-Grad"]
        assert best["A-Ins-Grad"] > other["A-Ins-Grad"]
    assert best["accuracy"] > means["CE only"]["accuracy"]


def test_costs_of_alignment_are_what_was_measured():
    text, rows = words_of("alignment"), 0
    for net, steps in kept("alignment_step_time").items():
        for step, found in steps.items() if net != "machine" else ():
            if "time beside by hand" in found:
                cells = " | ".join(f"{found[key]:.2f}" for key in COSTS)
                assert f"| {net} | `{step}` | {cells} |" in text
                rows += 1
    assert rows > 10


def test_speeds_are_what_was_measured():
    text = words_of("alignment")
    faster = kept("explanation_metrics")["times_faster"]
    assert f"{faster['all']['by definition']:.0f} times as fast as a loop that computes" in text
    assert f"{faster['all']['sharing']:.1f} times as fast as a loop that explains" in text
    shares = [faster[name]["sharing"] for name in ("rps", "insertion", "adv_insertion")]
    words = "{:.1f} (RPS), {:.1f} (Insertion) and {:.1f} (Adv-Insertion)".format(*shares)
    assert words in text
    assert f"in {kept('insertion_beside_quantus')['times_faster']:.1f} times the time" in text


def shares(values):
    ends = [f"{100 * end:.0f}" for end in (min(values), max(values))]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def test_density_beside_input_gradients_is_what_was_measured():
    text = words_of("density")
    for density, others in kept("density_figure4")["at_equal_accuracy"].items():
        for name, rows in others.items():
            both = [row for row in rows if row["less"] is not None]
            upper = [row["less"] for row in both if row["accuracy"] >= 0.93]
            cells = f"{len(both)} of {len(rows)} | {shares([row['less'] for row in both])}"
            assert f"| {density} | {name} | {cells} | {shares(upper)} |" in text
            if (density, name) == ("Density (p = 1)", "InputGrad"):
                assert min(upper) >= 0.15
                assert f"Density with p = 1 leaks {shares(upper)} less than InputGrad" in text


def test_density_beside_standard_training_is_what_was_measured():
    text = words_of("density")
    table = benchmark.show_suite("density-table1", ROOT / "benchmarks" / "results" / "density")
    lines = {
        line["method"]: {name: one["ours"]["mean"] for name, one in line["measures"].items()}
        for line in table.to_dict()["lines"]
    }
    ours = {name: line for name, line in lines.items() if "Density" in name}
    assert len(ours) == 5
    falls = [1 - line["leakage"] / lines["ST"]["leakage"] for line in ours.values()]
    assert min(falls) >= 0.8
    assert f"falls by {100 * min(falls):.0f} to {100 * max(falls):.0f} %" in text
    leaked = {name: line["leaked share"] for name, line in lines.items()}
    euclidean = [share for name, share in leaked.items() if name in ours and "p = 1" not in name]
    assert f"is {shares(euclidean)} where ST has {100 * leaked['ST']:.0f} %" in text
    others = (100 * leaked[name] for name in ("Density (p = 1)", "AT (PGD)", "IG-SUM"))
    told = "to {:.0f} %; adversarial training brings it to {:.0f} % and IG-SUM to {:.0f} %"
    assert told.format(*others) in text
    for line in ours.values():
        for name, value in line.items():
            if name.startswith("PGD"):
                assert value > lines["ST"][name] or value == lines["ST"][name] == 0


def test_density_at_other_seeds_is_what_was_measured():
    text = words_of("density")
    table = benchmark.show_suite("density-unseen", ROOT / "benchmarks" / "results" / "density")
    means = {
        (line["variant"], line["method"]): {
            name: one["ours"]["mean"] for name, one in line["measures"].items()
        }
        for line in table.to_dict()["lines"]
    }
    assert all(
        one["ours"]["num_runs"] == 5
        for line in table.to_dict()["lines"]
        for one in line["measures"].values()
    )
    standard = means["floor of 94 %", "ST"]
    ours = {
        floor: [
            line
            for (at, name), line in means.items()
            if at == f"floor of {floor} %" and "Density" in name
        ]
        for floor in (93, 94)
    }
    falls = [1 - line["leakage"] / standard["leakage"] for line in ours[94]]
    assert f"leakage falls by {shares(falls)} against ST" in text
    leads = {
        floor: [100 * (line["PGD-20 l2 0.1"] - standard["PGD-20 l2 0.1"]) for line in lines]
        for floor, lines in ours.items()
    }
    assert f"ahead of ST by {min(leads[94]):.1f} to {max(leads[94]):.1f} points at l2 0.1" in text
    assert f"{-max(leads[93]):.1f} to {-min(leads[93]):.1f} points *below* ST at l2 0.1" in text
    for line in (*ours[93], *ours[94]):
        for name in set(line) - {"PGD-20 l2 0.1", "PGD-20 linf 0.3"}:
            if name.startswith("PGD"):
                assert line[name] > standard[name]
    assert all(line["PGD-20 linf 0.3"] < 0.0005 for line in means.values())


def test_densitys_gradient_is_as_near_to_the_logits_as_measured():
    found = kept("density_beside_logit")["means over seeds"]["Density (log-sum-exp)"]
    cosine, length, probability = (
        f"{found[name]:.2f}"
        for name in (
            "cosine of the gradients",
            "length beside InputGrad's",
            "probability of the label",
        )
    )
    text = words_of("density")
    assert f"finds a cosine of {cosine} between them" in text
    assert f"a length of Density's of {length} of InputGrad's" in text
    assert f"has a probability of {probability} there" in text


def test_density_beside_group_dro_is_what_was_measured():
    text = words_of("density")
    table = benchmark.show_suite("density-groups", ROOT / "benchmarks" / "results" / "density")
    worst = {
        line.line.method.name: [
            run["metrics"]["test"]["group_accuracy/worst"] for run in line.results
        ]
        for line in table.lines
    }
    means = {name: 100 * sum(runs) / len(runs) for name, runs in worst.items()}
    both, alone = (means[name] for name in ("group DRO + Density", "group DRO"))
    assert both >= alone and both >= means["Density"]
    assert f"({both:.1f} % where group DRO alone has {alone:.1f} %)" in text
    rows = [
        json.loads(row)
        for row in (ROOT / "benchmarks/results/density/results.jsonl").read_text().splitlines()
    ]
    (erm,) = (
        row["results"]["metrics"]["test"]["group_accuracy/worst"]
        for row in rows
        if row["config"]["data"] == "biased_mnist"
        and (row["config"]["recipe"], row["config"]["lr"], row["config"]["seed"])
        == ("erm", 2e-3, 0)
    )
    assert f"ERM has {100 * erm:.1f} % of the worst group right" in text
    assert f"at the weight that is chosen {100 * worst['Density'][0]:.1f} %." in text


def test_the_plain_form_ends_where_the_page_says():
    found, text = kept("density_stability"), words_of("density")
    steps, rate = (found["settings"][name] for name in ("steps", "last_rate"))
    last, size = found["training"]["plain"][-1]
    largest = found["largest logit"]
    assert size is None
    assert (
        f"at a rate that grows to {rate} in {steps} steps, it ends in no number at step {last}, "
        f"where a logit of {largest['plain'][-1][1]:.1f} is out of the range"
    ) in text
    assert len(found["training"]["logsumexp"]) == int(steps)
    assert f"with logits up to {max(logit for _, logit in largest['logsumexp']):.0f}." in text
    right, plain = (dict(found["shifted logits"][form]) for form in ("logsumexp", "plain"))
    assert all(size == pytest.approx(right[0.0], rel=1e-5) for size in right.values())
    assert max(right) == 10_000 and min(right) == -10_000
    assert plain[87.5] == 0.0
    assert all(plain[shift] is None for shift in plain if shift >= 90)
    wrong = [shift for shift in plain if plain[shift] != pytest.approx(right[0.0], rel=1e-3)]
    assert max(shift for shift in wrong if shift < 0) == -95


def test_attacks_beside_foolbox_are_what_was_measured():
    text = words_of("density")
    for attack, found in kept("attacks_beside_foolbox")["accuracy"].items():
        assert found.pop("images on which pgd and foolbox, any point, differ") == 0
        cells = " | ".join(f"{100 * value:.2f}" for value in found.values())
        assert f"| {attack} | {cells} |" in text
        assert found["apgd, CE and DLR"] < found["pgd, ten runs"]
        behind = round(800 * (found["apgd, CE"] - found["pgd"]))
        assert behind == 2 if attack == "l2 0.4" else behind <= 0


def test_costs_of_density_are_what_was_measured():
    text, found = words_of("density"), kept("density_step_time")
    for net in ("mlp2, batch 128", "resnet18, batch 128"):
        beside = found[net]["10 classes, beside input_gradient"]["density logsumexp"]
        ratio = found[net]["10 classes"]["density logsumexp"]
        assert f"| {net} | density logsumexp | {ratio:.2f} | {beside:.2f} |" in text
        assert beside <= 1.05
    mlp, resnet = (
        found[net]["many classes beside few"]["density logsumexp"]
        for net in ("mlp2, batch 128", "resnet18, batch 128")
    )
    assert f"takes {mlp:.2f} of the time on the MLP and {resnet:.2f} on the ResNet-18" in text
    assert max(mlp, resnet) <= 1.1
    beside = found["mlp2, batch 128"]["1000 classes, beside input_gradient"]["density logsumexp"]
    assert f"it is {beside:.2f} on the MLP with 1,000 classes" in text


@pytest.mark.parametrize("method", ["Smooth-R3", "IBP-Ex", "Rand-R4", "Adv-R4", "Cert-R4"])
def test_what_was_chosen_on_decoy_mnist_is_the_recipes_default(method):
    table = benchmark.show_suite("r4-table1", ROOT / "benchmarks" / "results" / "r4")
    chosen = {
        line["variant"]: line["chosen"]["settings"]
        for line in table.to_dict()["lines"]
        if line["method"] == method and line["variant"].startswith("mnist")
    }
    recipe = getattr(recipes, method.lower().replace("-", "_"))
    defaults = {name: one.default for name, one in inspect.signature(recipe).parameters.items()}
    assert sorted(chosen) == ["mnist-faint", "mnist-ross"]
    for settings in chosen.values():
        assert settings == {name: defaults[name] for name in settings}


def reff_means(measure):
    """Of Table 3, by variant and method."""
    table = benchmark.show_suite("reff-table3", ROOT / "benchmarks" / "results" / "reff")
    return {
        (line["variant"], line["method"]): 100 * line["measures"][measure]["ours"]["mean"]
        for line in table.to_dict()["lines"]
    }


def test_ten_annotations_keep_as_much_as_the_page_says():
    text, accuracy = words_of("reff"), reff_means("accuracy")
    few, all_of_them = (
        accuracy["p = 0", name] - accuracy["p = 0", "baseline"]
        for name in ("ReFF (L2, n = 10)", "ReFF (L2)")
    )
    assert all_of_them >= 15 and few >= 0.7 * all_of_them
    assert (
        f"ReFF (L2) gains {few:.1f} points, where it gains {all_of_them:.1f} points with all"
    ) in text
    rows = (ROOT / "benchmarks/results/reff/results.jsonl").read_text().splitlines()
    first = {
        (
            row["config"]["strategy"],
            row["config"]["recipe"],
            row["config"]["settings"].get("weight"),
        ): row["results"]["metrics"]["test"]["accuracy"]
        for row in map(json.loads, rows)
        if row["config"]["data"] == "textured_mnist"
        and row["config"]["seed"] == 0
        and row["config"]["lr"] == 3e-3
        and row["config"]["settings"] in ({}, *({"ramp": 0.5, "weight": w} for w in (3.0, 10.0)))
        and row["config"]["model_settings"] == {"padding": 1}
        and row["config"]["data_settings"]["digit_size"] == 31
        and row["config"]["data_settings"]["textures"] == "procedural"
        and not {"oracle", "background_randomness"} & set(row["config"]["data_settings"])
    }
    baseline = first["once", "erm", None]
    kept_at = [
        100
        * (first["reff", "reff_l2", weight] - baseline)
        / (first["once", "reff_l2", weight] - baseline)
        for weight in (3.0, 10.0)
    ]
    told = "keep {:.0f} % of the gain (weight 3) and {:.0f} % (weight 10)"
    assert told.format(*kept_at) in text


def test_the_regimes_have_the_weights_that_table_3_chooses():
    table = benchmark.show_suite("reff-table3", ROOT / "benchmarks" / "results" / "reff")
    chosen = {
        line["method"]: line["chosen"]["settings"]["weight"]
        for line in table.to_dict()["lines"]
        if line["variant"] == "p = 0" and line["method"] in WEIGHTS
    }
    assert chosen == WEIGHTS


def test_heat_leaves_the_background_as_far_as_the_page_says():
    text = words_of("reff")
    seen, new = reff_means("the same, as in training"), reff_means("heat outside the digit")
    told = (
        "from {:.0f} to {:.0f} % ({:.0f} % less) and ReFF (L1) to {:.0f} %; on test images, whose "
        "backgrounds are others, from {:.0f} to {:.0f} % ({:.0f} % less) and {:.0f} %. ReFF as "
        "written brings it to {:.0f} and {:.0f} %"
    )
    figures = []
    for heat in (seen, new):
        before, after, other = (
            heat["p = 0", name] for name in ("baseline", "ReFF (L2)", "ReFF (L1)")
        )
        figures += [before, after, 100 * (1 - after / before), other]
    assert figures[1] < figures[0] / 2
    assert told.format(*figures, *(heat["p = 0", "ReFF"] for heat in (seen, new))) in text


def test_focus_costs_as_much_without_a_shortcut_as_the_page_says():
    text, accuracy = words_of("reff"), reff_means("accuracy")
    losses = {
        (variant, name): accuracy[variant, "baseline"] - accuracy[variant, name]
        for variant in ("p = 1", "p = 1, chosen anew")
        for name in ("ReFF", "ReFF (L2)")
    }
    assert (
        f"ReFF loses {losses['p = 1', 'ReFF']:.1f} points in 320 updates and ReFF (L2) "
        f"{losses['p = 1', 'ReFF (L2)']:.1f} points"
    ) in text
    assert f"at p = 1, ReFF loses {losses['p = 1, chosen anew', 'ReFF']:.1f} points" in text
    assert losses["p = 1, chosen anew", "ReFF"] <= 1
    assert losses["p = 1, chosen anew", "ReFF (L2)"] <= 0
    heat = reff_means("the same, as in training")
    shown = [heat["p = 1, chosen anew", name] for name in ("ReFF (L2)", "baseline")]
    told = "has {:.0f} % of the heat outside the digit where the baseline has {:.0f} %"
    assert told.format(*shown) in text


def test_guidance_on_skin_lifts_the_worst_group_as_the_page_says():
    text = words_of("reff")
    table = benchmark.show_suite("reff-decoy-ham", ROOT / "benchmarks" / "results" / "reff")
    worst = {
        (line["variant"], line["method"]): line["measures"]["worst group"]["ours"]
        for line in table.to_dict()["lines"]
    }
    assert all(one["num_runs"] == 3 for one in worst.values())

    def gains(method):
        return [
            100 * (worst[net, method]["mean"] - worst[net, "ERM"]["mean"])
            for net in ("small CNN", "EfficientNet-Lite0")
        ]

    with_all, with_few = gains("R3 (margin)"), gains("R3 (margin, 20 masks)")
    assert min(with_all) >= 15
    assert min(with_few) >= 10
    small, large = (f"{gain:.1f} points" for gain in with_all)
    assert f"lifts it by {small} with the small CNN and by {large} with EfficientNet" in text
    small, large = (f"{gain:.1f} points" for gain in with_few)
    assert f"for the rest, by {small} and by {large}" in text
    small, few = (f"{gains(method)[0]:.1f} points" for method in ("ReFF", "ReFF (20 masks)"))
    assert f"There it lifts the worst group by {small}, with 20 masks by {few}" in text


@pytest.mark.parametrize("net", ["small CNN", "EfficientNet-Lite0"])
def test_attributions_on_skin_are_what_was_measured(net):
    found, text = kept(f"decoy_ham_{net.split('-')[0].replace(' ', '_').lower()}"), words_of("reff")
    assert f"Of {found['samples']} such lesions" in text
    for name in ("ERM", "R3 (margin)"):
        cells = " | ".join(f"{100 * value:.1f}" for value in found[name].values())
        assert f"| {net} | {name} | {cells} |" in text


def test_a_step_of_reff_costs_what_was_measured():
    found, text = kept("reff_step_time")["resnet18"], words_of("reff")
    four, last = found["reff, four layers"], found["reff, last layer"]
    assert (
        f"takes {four['beside cross-entropy']:.2f} times a cross-entropy step, "
        f"{four['beside by hand']:.2f} of the same formula written by hand, and "
        f"{four['beside reff, first layer']:.2f} times ReFF with the first layer alone"
    ) in text
    assert f"takes {last['beside cross-entropy']:.2f} times a cross-entropy step, so" in text
    assert f"four layers are {four['beside reff, last layer']:.2f} times that" in text


def test_pseudo_masks_are_as_good_as_measured():
    found, text = kept("pseudo_annotator"), words_of("reff")
    assert [row["annotations a class"] for row in found["rows"]] == [1, 5, 10, 20, 50]
    for row in found["rows"]:
        each = ", ".join(f"{value:.3f}" for value in row["relevant_iou of each seed"])
        overlaps = f"{row['relevant_iou']:.3f} | {each} | {row['iou']:.3f}"
        cells = f"{row['annotations a class']} | {overlaps} | {row['calibration_error']:.4f}"
        assert f"| {cells} |" in text
    settings = found["settings"]
    assert f"the {settings['validation images']} validation images" in text
    assert f"Means of {len(settings['seeds'])} seeds" in text


def test_the_second_stage_of_masktune_costs_what_was_measured():
    found, text = kept("masktune_cost"), words_of("masktune")
    ratios, peaks = found["ratios"], found["peak megabytes"]
    beside = "masking / evaluation with gradients"
    assert (
        f"masking took {ratios[beside]:.2f} of an evaluation pass with gradients at the input, "
        f"{ratios[f'{beside} at the layer']:.2f} of one at the layer, and the whole second stage "
        f"{ratios['second stage / an epoch of ERM']:.2f} epochs"
    ) in text
    more = [
        peaks[f"masking, masks in {where}, beyond the evaluation"] for where in ("memory", "a file")
    ]
    assert (
        f"{more[0]:.1f} MB with masks in memory and {more[1]:.1f} MB with masks in a file" in text
    )
    assert f"the masks themselves are {peaks['the masks']:.1f} MB" in text


def test_coverages_are_as_near_to_their_targets_as_told():
    text, means, singles = words_of("masktune"), [], []
    folder = ROOT / "benchmarks" / "results" / "masktune"
    for line in benchmark.show_suite("masktune-table4", folder).lines:
        for target in (95, 90, 85, 80):
            key = f"risk_coverage/realised/{target}/coverage"
            found = [100 * run["metrics"]["test"][key] - target for run in line.results]
            singles += found
            means.append(sum(found) / len(found))
    assert "within 0.7 points of every target" in text
    assert max(map(abs, means)) < 0.7
    assert f"of the {len(singles)} single values two are off by a little more than one" in text
    assert sum(abs(value) > 1 for value in singles) == 2
    assert max(map(abs, singles)) < 1.1
