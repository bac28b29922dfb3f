import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import rightreasons as rr
from rightreasons.datasets import Card, InMemory
from rightreasons.errors import InvalidBatchError, InvalidSettingError, UnknownNameError
from rightreasons.explainers import InputGradient
from rightreasons.report import write_report
from rightreasons.report.explanation import (
    draw_samples,
    draw_sheet,
    explain_run,
    explain_samples,
    render_explanations,
)
from rightreasons.run.config import Config
from rightreasons.run.run import load_run, train_run

CARD = Card(classes=("cat & dog", "ship"))


def make_columns(size=3, *, channels=3, maps=3, mask=True):
    draw = np.random.default_rng(0)
    columns = {
        "x": draw.random((size, channels, 8, 10)),
        "y": np.arange(size) % 2,
        "index": 10 + np.arange(size),
        "prediction": np.zeros(size, int),
        "probability": np.full(size, 0.75),
        "attribution": draw.standard_normal((size, maps, 8, 10)),
    }
    if mask:
        columns["mask"] = np.zeros((size, channels, 8, 10))
        columns["mask"][:, :, :4] = 1
    return columns


def test_samples_are_named_and_drawn():
    first, second, _ = draw_samples(make_columns(), CARD)
    assert (first.index, first.label, first.prediction) == (10, "cat & dog", "cat & dog")
    assert first.is_right and not second.is_right
    assert first.probability.startswith("75.0")
    assert first.in_mask.endswith("%")
    assert first.picture.startswith("data:image/png;base64,")
    assert first.attribution != first.picture


@pytest.mark.parametrize("maps", [1, 3])
def test_a_map_of_all_channels_is_drawn_too(maps):
    sample = draw_samples(make_columns(maps=maps), CARD)[0]
    assert 30 < float(sample.in_mask[:-2]) < 70


def test_without_masks_nothing_is_said_of_them():
    samples = draw_samples(make_columns(mask=False), CARD)
    assert not samples[0].in_mask
    page = render_explanations(samples, title="lrp of run", explained="the label")
    assert "in mask" not in page and "outlined" not in page


def test_the_page_stands_alone_and_escapes_names():
    samples = draw_samples(make_columns(), CARD)
    page = render_explanations(samples, title="lrp of <run>", explained="the predicted class")
    assert "<h1>lrp of &lt;run&gt;</h1>" in page
    assert "cat &amp; dog" in page
    assert "attribution of the predicted class" in page
    assert page.count('<img src="data:image/png') == 6
    assert "http://" not in page and "https://" not in page
    assert "in mask" in page


@pytest.mark.parametrize(("size", "num_rows", "num_columns"), [(1, 1, 1), (3, 1, 3), (6, 2, 4)])
def test_the_sheet_has_all_pairs(size, num_rows, num_columns):
    samples = draw_samples(make_columns(size), CARD)
    sheet = Image.open(io.BytesIO(draw_sheet(samples)))
    width, height = 14 * 10, 14 * 8  # enlarged by a whole number
    assert sheet.size == (num_columns * (2 * width + 8), num_rows * (height + 8))
    assert np.asarray(sheet.convert("RGB")).std() > 10


@pytest.fixture
def run(digits_run):
    return digits_run


def test_arrays_hold_the_attributions(run, tmp_path):
    path = explain_run(run, tmp_path / "deep" / "found.npz", explainer="lrp", num_samples=5)
    assert path == tmp_path / "deep" / "found.npz"
    with np.load(path) as found:
        columns = {name: torch.from_numpy(found[name]) for name in found.files}
    data = load_run(run).config.load_data()
    model = load_run(run).load_model(data)
    batch = data.test.take(columns["index"])
    assert torch.equal(columns["x"], batch.x) and torch.equal(columns["mask"], batch.mask)
    assert torch.equal(columns["y"], batch.y)
    chances = model(batch.x).softmax(dim=1)
    assert torch.equal(columns["prediction"], chances.argmax(dim=1))
    torch.testing.assert_close(columns["probability"], chances.amax(dim=1).detach())
    expected = rr.explainers.LRP()(model, batch.x, columns["prediction"])
    torch.testing.assert_close(columns["attribution"], expected)


def test_a_page_and_a_picture(run, tmp_path):
    page = explain_run(run, tmp_path / "page.html", num_samples=3, split="validation")
    text = page.read_text()
    assert "input_gradient of digits" in text
    assert text.count("<figure") == 3
    picture = explain_run(run, tmp_path / "sheet.png", explainer=InputGradient(), num_samples=2)
    with Image.open(picture) as sheet:
        assert sheet.size == (2 * (2 * 140 + 8), 148)


@pytest.mark.parametrize("explained", ["prediction", "label"])
def test_the_predicted_class_or_the_label_is_explained(explained):
    model = nn.Linear(3, 2)
    data = InMemory(rr.Batch(x=torch.rand(6, 3), y=torch.tensor([0, 1] * 3)))
    columns = explain_samples(
        model, data, explainer=InputGradient(), num_samples=99, explained=explained
    )
    assert len(columns["x"]) == 6 and "mask" not in columns
    key = "prediction" if explained == "prediction" else "y"
    expected = model.weight.detach().numpy()[columns[key]]
    np.testing.assert_array_equal(columns["attribution"], expected)


def test_samples_are_spread_over_the_classes():
    data = InMemory(rr.Batch(x=torch.rand(40, 3), y=torch.arange(40) // 10))
    columns = explain_samples(nn.Linear(3, 4), data, explainer=InputGradient(), num_samples=4)
    assert columns["y"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"out": "x.pdf"}, InvalidSettingError, "Expected `out` to end in .html, .png, .npz"),
        ({"split": "train"}, InvalidSettingError, "Expected `split` to be 'test' or 'validation'"),
        ({"explained": "all"}, InvalidSettingError, "`explained` to be 'prediction' or 'label'"),
        ({"num_samples": 0}, InvalidSettingError, "Expected `num_samples` to be a whole number"),
        ({"explainer": "lpr"}, UnknownNameError, "Expected an explainer, but got 'lpr'"),
    ],
)
def test_mistakes(run, tmp_path, settings, error, words):
    out = tmp_path / settings.pop("out", "page.html")
    with pytest.raises(error, match=words):
        explain_run(run, out, **settings)
    assert not out.exists()


def test_inputs_that_are_no_images(run, tmp_path, monkeypatch):
    data = load_run(run).config.load_data()
    flat = {
        part: InMemory(d.batch.replace(x=d.batch.x.flatten(1), mask=None, annotated=None), d.card)
        for part, d in (("train", data.train), ("val", data.val), ("test", data.test))
    }
    monkeypatch.setattr(Config, "load_data", lambda self: rr.datasets.Splits(**flat))
    net = rr.models.mlp(inputs=196, hidden=(8,), classes=10)
    monkeypatch.setattr(Config, "build_model", lambda self, data: net)
    with pytest.raises(InvalidBatchError, match="Expected images .* to draw.*Write .npz"):
        explain_run(run, tmp_path / "page.html")
    assert explain_run(run, tmp_path / "page.npz").exists()


def test_a_run_without_validation_data(run, tmp_path, monkeypatch):
    data = load_run(run).config.load_data()
    without = rr.datasets.Splits(train=data.train, val=None, test=data.test)
    monkeypatch.setattr(Config, "load_data", lambda self: without)
    with pytest.raises(InvalidSettingError, match="Expected a run with validation data to explain"):
        explain_run(run, tmp_path / "page.html", split="validation")


def test_texts_are_words_shaded_marked_and_escaped():
    nasty = ["<script>alert(1)</script>", 'a"b', "🎬", "שלום", "w" * 300, "spiel", "##berg", ""]
    attribution = np.array([[0.0, 0, 0, 0, 0, 2.0, -5.0, 9.0]])
    columns = {
        "x": np.zeros((1, 8), int),
        "tokens": np.array([nasty]),
        "y": np.array([1]),
        "index": np.array([3]),
        "prediction": np.array([1]),
        "probability": np.array([0.9]),
        "attribution": attribution,
        "mask": np.array([[0.0, 0, 0, 0, 0, 1, 1, 0]]),
    }
    (sample,) = draw_samples(columns, CARD)
    assert [one.heat for one in sample.words] == [0, 0, 0, 0, 0, 2, 5]  # padding sets no scale
    assert [one.is_masked for one in sample.words[4:]] == [False, True, True]
    assert (sample.words[6].word, sample.words[6].joins) == ("berg", True)
    page = render_explanations([sample], title="a text", explained="the label")
    assert "<script>" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "a&#34;b" in page and "🎬" in page and "<bdi>שלום</bdi>" in page
    assert "w" * 40 + "…" in page and "w" * 41 not in page
    assert "<img" not in page and "underlined" in page


def test_a_run_of_texts_is_explained_and_reported(tmp_path):
    rows = [{"text": f"{w} <b>film</b>", "label": w} for w in ("good", "bad") for _ in range(40)]
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    config = Config(data="text", data_dir=str(tmp_path), model="text_mlp", epochs=5, lr=0.01)
    train_run(config, tmp_path / "run")
    page = explain_run(tmp_path / "run", tmp_path / "e.html", num_samples=4).read_text()
    assert "input_times_gradient of run" in page and "hot-5" in page and "<b>film" not in page
    arrays = np.load(explain_run(tmp_path / "run", tmp_path / "e.npz", num_samples=4))
    assert arrays["attribution"].shape == arrays["tokens"].shape
    with pytest.raises(InvalidBatchError, match=r"Write \.html or \.npz instead"):
        explain_run(tmp_path / "run", tmp_path / "e.png")
    report = write_report([tmp_path / "run"], tmp_path / "report.html").read_text()
    assert "Test texts" in report and "hot-5" in report and "&lt;" in report
