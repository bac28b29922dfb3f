import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from safetensors.torch import save_file

from rightreasons.certification import Certificate, Verdict, model_digest
from rightreasons.errors import InvalidSettingError, OutputError, RunNotFoundError
from rightreasons.report import write_report
from rightreasons.report.curves import make_curves
from rightreasons.report.page import make_groups, make_proofs, make_tiles
from rightreasons.report.record import read_record
from rightreasons.report.section import group_records


def test_every_accuracy_and_every_part_of_the_loss_has_a_chart(make_section):
    section = make_section(("erm", 0.5, {}), ("r3", 0.8, {}), ("r3", 0.8, {"seed": 1}))
    curves = {curve.title: curve.chart for curve in make_curves(section)}
    assert list(curves) == [
        "Training accuracy",
        "Validation accuracy",
        "Loss part cross_entropy",
        "Loss part r3",
    ]
    assert [chart.count("<path") for chart in curves.values()] == [3, 3, 3, 2]
    assert "r3, seed 1" in curves["Loss part r3"]


def test_the_measure_of_the_selection_is_shown_too(make_section):
    log = [{"epoch": 1, "validation": {"accuracy": 0.5, "group_accuracy/worst": 0.25}}]
    titles = [curve.title for curve in make_curves(make_section(("erm", 0.5, {"log": log})))]
    assert titles == ["Validation accuracy", "Validation group accuracy, worst"]


def test_runs_without_a_log_have_no_curves(make_section):
    assert make_curves(make_section(("erm", 0.5, {"log": None}))) == []


def test_what_is_no_number_is_left_out(make_section):
    log = [
        {"epoch": 1, "accuracy": float("nan"), "parts": ["x"], "validation": {"accuracy": "high"}},
        {"epoch": 2, "accuracy": 0.5, "parts": {"cross_entropy": None}},
    ]
    (curve,) = make_curves(make_section(("erm", 0.5, {"log": log})))
    assert curve.title == "Training accuracy"
    assert "epoch 1" not in curve.chart


def test_groups_have_a_bar_for_each_method(make_section):
    groups, count = make_groups(make_section(("erm", 0.5, {}), ("r3", 0.8, {})))
    assert [(group.name, group.size) for group in groups] == [("healthy", 120), ("ill", 80)]
    assert count == 2
    assert [group.chart.count("<rect") for group in groups] == [2, 2]
    assert groups[1].lowest == 0.5


def test_of_too_many_groups_the_hardest_are_shown_in_their_order(make_section):
    shares = [0.9, 0.1, 0.8, 0.2]
    test = {}
    for number, share in enumerate(shares):
        test |= {f"group_accuracy/g{number}": share, f"group_accuracy/g{number}/n": 5.0}
    groups, count = make_groups(make_section(("erm", 0.5, {"test": test})), most=3)
    assert [group.name for group in groups] == ["g1", "g2", "g3"]
    assert count == 4


def test_without_groups_there_are_no_bars(make_section):
    assert make_groups(make_section(("erm", 0.5, {"test": {"accuracy": 0.5}}))) == ([], 0)


def test_a_size_without_an_accuracy_is_no_group(make_section):
    assert make_groups(make_section(("erm", 0.5, {"test": {"group_accuracy/a/n": 5.0}}))) == ([], 0)


WEIGHTS = {"weight": torch.arange(3.0)}


def certificate(verified, *, epsilon=None, size=4, sha=None):
    zeros = dict.fromkeys(
        [f"{t}_gradient_{k}" for t in ("loss", "logit") for k in ("proved", "found")], 0.0
    )
    samples = [
        Verdict(
            index=n,
            y=0,
            prediction=n % 2,
            status="verified" if n < verified else "refuted",
            margin_proved=0.0,
            **zeros,
        )
        for n in range(size)
    ]
    return Certificate(
        samples=tuple(samples),
        settings={"epsilon": epsilon},
        model_sha256=sha or model_digest(WEIGHTS),
        data_sha256="b" * 64,
    )


@pytest.fixture
def certified(make_run):
    """A run's folder with a certificate in it."""

    def make(recipe, verified, *, seed=0, **changes):
        folder = make_run(recipe, 0.5, seed=seed)
        save_file(WEIGHTS, folder / "model.safetensors")
        certificate(verified, **changes).to_json(folder / "certificate.json")
        return folder

    return make


def section_of(*folders):
    (section,) = group_records([read_record(folder) for folder in folders])
    return section


def test_a_row_for_each_certificate(certified, make_run):
    section = section_of(
        certified("erm", 1), certified("r3", 4, epsilon=0.25), make_run("input_gradient")
    )
    first, second = make_proofs(section)
    assert (first.method, first.box, first.seed) == ("erm", "every valid value", 0)
    assert (second.method, second.box) == ("r3", "± 0.25")
    told = (first.verified, first.refuted, first.unknown, first.verified_and_right)
    assert [word.replace("\u202f", " ") for word in told] == ["25.0 %", "75.0 %", "0.0 %", "25.0 %"]
    assert second.verified_and_right == "50.0\u202f%"
    assert first.sentence.startswith("For 25.0 % of 4 samples it is proved")


def test_a_certificate_of_nothing(certified):
    (proof,) = make_proofs(section_of(certified("erm", 0, size=0)))
    assert proof.verified == "–"
    assert "nothing to certify" in proof.sentence


def test_no_certificates_no_rows(make_run):
    assert make_proofs(section_of(make_run())) == []


def test_the_page_tells_what_is_proved(certified, make_run, tmp_path):
    runs = [certified("erm", 1), certified("r3", 4)]
    page = write_report(runs, tmp_path / "report.html").read_text()
    assert "<h2>What is proved</h2>" in page
    assert "whatever valid values the masked features take" in page
    assert "not about whether it is right" in page
    without = write_report([make_run()], tmp_path / "report.html").read_text()
    assert "What is proved" not in without


def certificate_tile(*statuses):
    zeros = dict.fromkeys(
        [f"{t}_gradient_{k}" for t in ("loss", "logit") for k in ("proved", "found")], 0.0
    )
    samples = [Verdict(index=0, y=0, prediction=0, status=status, **zeros) for status in statuses]
    return Certificate(
        samples=tuple(samples), settings={"epsilon": None}, model_sha256="", data_sha256=""
    )


def test_tiles_tell_every_method(make_section, make_metrics):
    section = make_section(
        ("erm", 0.5, {"validation": make_metrics(0.9, swap=0.6)}), ("r3", 0.8, {})
    )
    tiles = {tile.title: tile for tile in make_tiles(section.methods)}
    assert list(tiles) == [
        "Right in the worst group",
        "Right over all samples",
        "Gradient inside the mask",
        "Lost when the masked part is exchanged",
    ]
    worst, lost = tiles["Right in the worst group"], tiles["Lost when the masked part is exchanged"]
    assert [(e.label, e.colour, e.value) for e in worst.entries] == [
        ("erm", 0, "50.0\u202f%"),
        ("r3", 1, "80.0\u202f%"),
    ]
    assert [entry.value for entry in lost.entries] == ["35.0 points", "0.0 points"]
    assert (worst.higher_is_better, lost.higher_is_better) == (True, False)


def test_what_not_all_have_is_no_tile(make_section):
    section = make_section(("erm", 0.5, {"test": {"accuracy": 0.5}}), ("r3", 0.8, {}))
    assert [tile.title for tile in make_tiles(section.methods)] == ["Right over all samples"]


def test_no_methods_no_tiles():
    assert make_tiles(()) == []


def test_what_is_proved_is_what_every_seed_has(make_section):
    section = make_section(("erm", 0.5, {}), ("erm", 0.5, {"seed": 1}))
    (method,) = section.methods
    good, bad = certificate_tile("verified", "verified"), certificate_tile("verified", "refuted")
    first, second = method.records

    def told(*records):
        tiles = {tile.title: tile for tile in make_tiles([replace(method, records=records)])}
        return tiles.get("Proved not to change with the masked part")

    both = told(replace(first, certificate=good), replace(second, certificate=bad))
    assert both is not None
    assert [entry.value for entry in both.entries] == ["50.0\u202f%"]
    assert both.higher_is_better
    assert told(replace(first, certificate=good), second) is None
    assert told(first, second) is None


EVIL = "<script>alert(1)</script>\"'&"
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """Tags, their attributes and whether they are nested as they should be."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.faults = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture
def page(make_run, tmp_path):
    """The text of the page about two methods."""
    runs = [make_run("erm", 0.5), make_run("r3", 0.8)]
    return write_report(runs, tmp_path / "report.html").read_text()


def test_the_page_says_what_it_should(page):
    for text in (
        "<h1>Right for the right reasons?</h1>",
        "2 runs of 2 methods",
        "Clear improvement",
        "r3 is clearly better than erm",
        "Every method was trained with one seed only",
        "A ruler beside malignant lesions.",
        "CC BY 4.0",
        "cross_entropy + 30 × r3",
        "mlp, 12,345 parameters",
        "47.0 to 53.0",
        "Right answers, group by group",
        "Where the models look",
        "Labelled <b>malignant</b>",
        "Loss part r3",
        "000000000000",
        "torch 2.13.0",
    ):
        assert text in page


def test_the_page_is_well_formed_and_accessible(page):
    found = Page(page)
    assert found.faults == [] and found.open == []
    assert all(image["alt"] for image in found.all("img"))
    assert all("scope" in head for head in found.all("th"))
    assert all(svg["aria-label"] for svg in found.all("svg") if "role" in svg)
    assert found.all("html")[0]["lang"] == "en"
    assert len(found.all("h1")) == 1


def test_the_page_needs_nothing_but_itself(page):
    found = Page(page)
    assert (
        "http:" not in page and "https:" not in page and "//" not in re.sub(r"base64,\S+", "", page)
    )
    assert all(image["src"].startswith("data:image/png;base64,") for image in found.all("img"))
    assert not found.all("script") and not found.all("link") and not found.all("iframe")
    assert "@import" not in page and "url(" not in page
    assert not any(name.startswith("on") for _, attrs in found.tags for name in attrs)


def test_light_dark_and_small_screens_are_thought_of(page):
    assert "prefers-color-scheme: dark" in page
    assert 'content="width=device-width, initial-scale=1"' in page


def test_the_page_is_small(page):
    assert len(page.encode()) < 1_000_000


@pytest.mark.slow
def test_large_photographs_stay_within_a_megabyte(make_run, make_examples, tmp_path):
    shape = (3, 224, 224)
    runs = [
        make_run(recipe, 0.5, shape=shape, kept=make_examples(shape, num=12))
        for recipe in ("erm", "r3")
    ]
    assert write_report(runs, tmp_path / "report.html").stat().st_size < 1_000_000


def test_everything_from_files_is_escaped(make_run, make_metrics, tmp_path):
    card = {
        "name": EVIL,
        **{name: EVIL for name in ("description", "source", "licence", "shortcut")},
        "classes": [EVIL, EVIL],
        "groups": [EVIL],
        "shape": [1, 10, 10],
    }
    test = make_metrics(0.5) | {f"group_accuracy/{EVIL}": 0.5, f"group_accuracy/{EVIL}/n": 9.0}
    log = [{"epoch": 1, "parts": {EVIL: 1.0}, "validation": {EVIL: 1.0}, "accuracy": 0.5}]
    run = make_run(
        EVIL.replace("/", "_"),
        test=test | {EVIL: 1.0},
        name="evil",
        log=log,
        card=card,
        model=EVIL,
        settings={EVIL: EVIL},
        terms={EVIL: 2.0},
        training={EVIL: EVIL},
        selection={"used": EVIL, "epoch": EVIL},
        diagnosis={"learned": False, "message": EVIL},
        versions={EVIL: EVIL},
        data_sha256=EVIL,
    )
    text = write_report([run], tmp_path / "report.html").read_text()
    found = Page(text)
    assert "<script" not in text
    assert not found.all("script")
    assert found.faults == [] and found.open == []
    assert "&lt;script&gt;" in text


def test_seeds_are_one_row(make_run, tmp_path):
    runs = [make_run("erm", 0.5 + 0.02 * seed, seed=seed) for seed in range(3)]
    text = write_report(runs, tmp_path / "report.html").read_text()
    assert "3 runs of 1 method ·" in text
    assert "3 seeds" in text
    assert "±\u202f2.0" in text


def test_other_data_get_their_own_section_and_verdict(make_run, tmp_path):
    runs = [make_run("erm"), make_run("erm", data_settings={"oracle": True})]
    text = write_report(runs, tmp_path / "report.html").read_text()
    assert "on 2 data sets" in text
    assert '<a href="#data-2">lesions (oracle=True)</a>' in text
    assert 'id="data-2"' in text
    assert text.count('class="verdict') == 2


def test_runs_with_the_least_there_can_be(make_run, tmp_path):
    folder = make_run(log=None, kept=None)
    keys = ("data", "recipe", "model", "seed")
    told = json.loads((folder / "results.json").read_text())
    least = {key: told[key] for key in keys} | {"metrics": {}}
    (folder / "results.json").write_text(json.dumps(least))
    text = write_report([folder], tmp_path / "report.html").read_text()
    for sentence in (
        "so nothing can be said",
        "Nothing was measured on test data.",
        "The runs kept no examples, so there are no pictures.",
        "The runs kept no log, so there are no training curves.",
    ):
        assert sentence in text
    assert "group by group" not in text


def test_a_method_that_did_not_learn_is_marked(make_run, tmp_path):
    failed = make_run("r3", 0.1, diagnosis={"learned": False, "message": "Lower its weight."})
    text = write_report([make_run(), failed], tmp_path / "report.html").read_text()
    assert "did not learn" in text
    assert "r3, seed 0: Lower its weight." in text


def test_folders_are_made_and_the_path_is_given_back(make_run, tmp_path):
    out = tmp_path / "new" / "folder" / "report.html"
    assert write_report([make_run()], str(out)) == out
    written = sorted(path.name for path in out.parent.iterdir())
    assert written == ["report.html", "report.json", "report.md"]


def test_no_runs(tmp_path):
    with pytest.raises(InvalidSettingError, match="at least one folder of a run"):
        write_report([], tmp_path / "report.html")


def test_no_finished_run(tmp_path):
    with pytest.raises(RunNotFoundError, match=r"but it has no config\.yaml"):
        write_report([tmp_path], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_place_that_cannot_be_written(make_run, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot be written"):
        write_report([make_run()], tmp_path / "file" / "report.html")


def test_a_folder_in_place_of_the_file(make_run, tmp_path):
    with pytest.raises(OutputError, match=r"Expected `out` to be a file, but .* is a folder"):
        write_report([make_run()], tmp_path)
