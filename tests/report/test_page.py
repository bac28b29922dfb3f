import json
import re
from html.parser import HTMLParser

import pytest

from rightreasons.errors import InvalidSettingError, OutputError, RunNotFoundError
from rightreasons.report import write_report

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
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]


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
