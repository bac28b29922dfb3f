"""The audit of texts and tables: what is planted is found first, and nothing in clean data."""

import json
import random

import numpy as np
import pytest
import torch
from tests.reference.words import slow_locate_words, slow_presence_strengths
from torch import nn

import rightreasons as rr
from rightreasons.audit import accept_findings
from rightreasons.audit.findings import LITTLE_USED, LOOKED_AT, NO_MODEL, USED
from rightreasons.audit.regions import locate_words
from rightreasons.audit.statistics import presence_strengths
from rightreasons.errors import InvalidBatchError, InvalidSettingError
from rightreasons.report.audit_page import write_audit_page
from rightreasons.run.shortcuts import read_shortcuts, with_masks

pytestmark = pytest.mark.usefixtures("one_thread")

NASTY = '<script>alert("x")</script>', "it's", "🎬", "שלום", "w" * 300


def make_texts(num=240, *, planted=("jonah", "spielberg"), seed=0, tail="", **settings):
    """Random words; the class has a planted word in front, and sometimes one of its own."""
    draw = random.Random(seed)
    rows = []
    for number in range(num):
        label = draw.randrange(2)
        words = [f"w{draw.randrange(80)}" for _ in range(draw.randint(6, 14))]
        if planted:
            words.insert(0, planted[label])
        split = ("train", "train", "val", "test")[number % 4]
        text = " ".join([*words, tail]).strip()
        rows.append({"text": text, "label": ("bad", "good")[label], "split": split})
    return rr.text.dataset(rows, **settings)


def reader(data, words, *, weight=20.0):
    """A net that reads these words alone: one for each output."""
    size = len(data.train.vocabulary)
    net = rr.models.text_mlp(vocabulary=size, classes=len(words), hidden=())
    with torch.no_grad():
        net.embedding.weight.zero_()
        for label, word in enumerate(words):
            token = list(data.train.vocabulary).index(word)
            net.embedding.weight[token, label] = weight
        layer = next(one for one in net.modules() if isinstance(one, nn.Linear))
        layer.weight.zero_()
        layer.weight.fill_diagonal_(1.0)
        layer.bias.zero_()
    return net


@pytest.fixture(scope="module")
def found():
    data = make_texts(400)
    return data, rr.audit(reader(data, ("jonah", "spielberg")), data.train, progress=False)


def test_a_planted_word_is_found_first_proved_and_masked(found):
    data, result = found
    first = result.findings[0]
    assert (first.kind, first.verdict) == ("word", USED)
    assert {"“jonah”", "“spielberg”"} == set(first.name.split(", "))
    assert first.tells_label == pytest.approx(1.0) and first.p_value <= 0.05
    assert first.effect.low >= 0.9 and first.interval == (first.effect.low, first.effect.high)
    assert first.details["planted control words"] < 0.6  # without its word, the net guesses
    assert first.classes == ("bad", "good") and first.prevalence == 1.0
    assert len(result.findings) == 1
    masks = first.masks(data.test)
    assert masks.shape == data.test.batch.x.shape
    assert torch.equal(masks.sum(dim=1), torch.ones(len(masks))) and bool(masks[:, 0].all())


def test_a_model_may_have_more_outputs_than_classes():
    data = make_texts(planted=None)
    made = rr.audit(reader(data, ("w1", "w2", "w3", "w4")), data.train, progress=False)
    assert {"output 2", "output 3"} <= {one["predicted"] for one in made.facts["sure_and_wrong"]}
    attended = next(one for one in made.others if one.kind == "attended word")
    assert {"output 2", "output 3"} & set(attended.classes)


def test_data_alone_and_a_pair_of_words():
    data = make_texts()
    (one,) = rr.audit(None, data.train, progress=False).findings
    assert (one.kind, one.verdict, one.effect) == ("word", NO_MODEL, None)
    draw, rows = random.Random(0), []
    for number in range(240):  # both words in one class, exactly one of them in the other
        label = number % 2
        both = ["alpha", "beta"] if label else [draw.choice(["alpha", "beta"])]
        words = [f"w{draw.randrange(80)}" for _ in range(8)]
        rows.append({"text": " ".join([*words, *both]), "label": label})
    pairs = rr.audit(None, rr.text.dataset(rows).train, progress=False)
    first = pairs.findings[0]
    assert first.kind == "word pair" and set(first.name.split(" + ")) == {"“alpha”", "“beta”"}
    assert first.tells_label == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(3))
def test_clean_texts_give_no_finding(seed):
    data = make_texts(planted=(), seed=seed)
    torch.manual_seed(seed)
    net = rr.models.text_mlp(vocabulary=len(data.train.vocabulary), classes=2)
    rr.fit(net, rr.recipes.erm(), data.train, epochs=10, lr=0.01)
    clean = rr.audit(net, data.train, seed=seed, progress=False)
    assert clean.findings == () and {one.verdict for one in clean.others} == {LOOKED_AT}
    assert rr.audit(None, data.train, seed=seed, progress=False).findings == ()


def test_length_and_punctuation_tell_the_label():
    draw, rows = random.Random(0), []
    for number in range(240):
        label = number % 2
        words = [f"w{draw.randrange(40)}" for _ in range(draw.randint(5, 9) + 10 * label)]
        rows.append({"text": " ".join(words), "label": label})
    (one,) = rr.audit(None, rr.text.dataset(rows).train, progress=False).findings
    assert (one.kind, one.verdict, one.region) == ("length", NO_MODEL, None)
    with pytest.raises(InvalidSettingError, match="It has no place: give all classes texts of"):
        one.masks(rr.text.dataset(rows).train)


def test_strengths_and_places_equal_loops():
    stream = np.random.default_rng(0)
    presence = (stream.random((30, 7)) < 0.4).astype(float)
    labels = stream.integers(3, size=30)
    assert np.allclose(
        presence_strengths(presence, labels), slow_presence_strengths(presence, labels)
    )
    x = torch.from_numpy(stream.integers(-1, 5, size=(20, 12)))
    starts = torch.tensor([True, True, False, True, False])
    for groups in ([[(1,)]], [[(1, 2)]], [[(1, 2), (3,)], [(3, 4, 4)]]):
        for begins in (None, starts):
            assert torch.equal(
                locate_words(x, groups, begins), slow_locate_words(x, groups, begins)
            )


def test_accepted_words_are_masks_that_recipes_read(found, tmp_path):
    data, result = found
    result.save(tmp_path / "audit")
    loaded = rr.Audit.load(tmp_path / "audit")
    told = accept_findings(loaded, [1], data, tmp_path / "masks")
    assert told["train"]["with_mask"] == 1.0
    masked = with_masks(data, read_shortcuts([str(tmp_path / "masks")]))
    read = masked.val.take(torch.arange(5))
    assert torch.equal(read.mask, result.findings[0].masks(data.val)[:5, : read.x.shape[1]])
    words = [data.train.vocabulary[token] for token in masked.test.card.text.substitutes]
    assert sorted(words) == ["jonah", "spielberg"]
    net = reader(data, ("jonah", "spielberg"))
    assert rr.certify_substitutes(net, masked.test).summary["shares"]["refuted"] == 1.0
    rr.fit(net, rr.recipes.counterexamples(), masked.train, epochs=10, lr=0.5)
    assert rr.certify_substitutes(net, masked.test).summary["shares"]["verified"] > 0.5
    read = reader(data, ("jonah", "spielberg"))
    before = rr.audit(read, masked.train, progress=False).reliance
    # Each word is planted where the other was; half of the exchanges draw the same word.
    assert before["swapped"]["changed"]["value"] > 0.2
    assert before["attacked"]["changed"]["value"] == 1.0
    again = rr.audit(net, masked.train, progress=False)
    (planted,) = [one for one in again.findings if "jonah" in one.name]
    assert planted.verdict == LITTLE_USED
    assert again.reliance["swapped"]["changed"]["value"] < 0.2


def test_the_page_shows_words_and_escapes_them(tmp_path):
    data = make_texts(planted=("jonah", "spielberg"), tail=" ".join(NASTY))
    folder = rr.audit(reader(data, ("jonah", "spielberg")), data.train, progress=False).save(
        tmp_path
    )
    page = write_audit_page(folder).read_text()
    assert "<script" not in page and "&lt;" in page
    assert 'masked"><bdi>jonah</bdi>' in page and "planted: predicted" in page
    assert "🎬" in page and "<bdi>שלום</bdi>" in page and 'dir="auto"' in page
    assert "w" * 40 + "…" in page and "w" * 41 not in page
    assert json.loads((folder / "audit.json").read_text())["findings"][0]["pictures"]


def test_token_ids_alone_are_refused():
    tokens = rr.Batch(x=torch.randint(9, (60, 5)), y=torch.arange(60) % 2)
    with pytest.raises(InvalidBatchError, match="or texts of rr.text.dataset, but got torch.int64"):
        rr.audit(None, tokens)


def make_table(num=240, *, tells=True, seed=0):
    draw = random.Random(seed)
    rows = []
    for _ in range(num):
        label = draw.randrange(2)
        site = ("north", "south")[label] if tells else draw.choice(["north", "south"])
        rows.append(
            {
                "age": draw.gauss(40, 10),
                "site": "" if tells and label and draw.random() < 0.3 else site,
                "colour": draw.choice(["red", "green", "blue"]),
                "label": label,
            }
        )
    return rr.tables.dataset(rows, missing="fill")


def test_a_category_is_found_planted_and_accepted(tmp_path):
    data = make_table()
    torch.manual_seed(0)
    net = rr.models.mlp(inputs=data.card.shape[0], hidden=(16,), classes=2)
    rr.fit(net, rr.recipes.erm(), data.train, epochs=30, lr=0.01)
    result = rr.audit(net, data.train, progress=False)
    (first,) = result.findings
    assert (first.name, first.kind, first.verdict) == ("site", "column", USED)
    assert first.details["missing"] > 0.1 and first.prevalence < 1
    site = next(column for column in data.card.columns if column.name == "site")
    masks = first.masks(data.test)
    assert bool(masks[:, site.features].all()) and float(masks.sum()) == len(masks) * 3
    accept_findings(result, [1], data, tmp_path)
    masked = with_masks(data, read_shortcuts([str(tmp_path)]))
    assert [one.name for one in masked.card.columns if one.masked] == ["site"]
    assert torch.equal(masked.test.take(torch.arange(4)).mask, masks[:4])
    assert rr.certify_substitutes(net, masked.test).summary["shares"]["refuted"] > 0.5


@pytest.mark.parametrize("seed", range(2))
def test_a_clean_table_gives_no_finding(seed):
    data = make_table(tells=False, seed=seed)
    torch.manual_seed(seed)
    net = rr.models.mlp(inputs=data.card.shape[0], hidden=(16,), classes=2)
    rr.fit(net, rr.recipes.erm(), data.train, epochs=10, lr=0.01)
    assert rr.audit(net, data.train, progress=False).findings == ()
