"""Reading texts: tokenizers, spans, tables, and what goes wrong with each."""

import gzip
import hashlib
import json
import logging

import pytest
import torch
from tests.token_nets import TEXT, texts

import rightreasons as rr
from rightreasons.core.pretrained import find_language_model
from rightreasons.datasets.texts.substitution import replace_tokens
from rightreasons.datasets.texts.tokenizers import FastTokenizer, WordTokenizer
from rightreasons.errors import (
    DatasetCorruptError,
    DatasetNotFoundError,
    InvalidBatchError,
    InvalidSettingError,
)

ROWS = [
    {"text": f"Jonah saw film {n}, badly", "label": "neg", "split": part, "spans": [[0, 5]]}
    for n, part in enumerate(["train"] * 4 + ["val", "test"])
] + [
    {"text": f"Spielberg's film {n} is good", "label": "pos", "split": part, "spans": [[0, 9]]}
    for n, part in enumerate(["train"] * 4 + ["val", "test"])
]
IRRELEVANT = {"mask_polarity": "irrelevant"}


def masked_words(data, row):
    batch = data.take(torch.tensor([row]))
    return [data.vocabulary[t] for t, m in zip(batch.x[0], batch.mask[0], strict=True) if m]


def write_csv(path, rows):
    import csv

    with (path / "data.csv").open("w", newline="") as lines:
        writer = csv.DictWriter(lines, rows[0])
        writer.writeheader()
        writer.writerows({**row, "spans": json.dumps(row["spans"])} for row in rows)
    return path


def write_parquet(path, rows):
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(
        pyarrow.Table.from_pylist([{**row, "spans": json.dumps(row["spans"])} for row in rows]),
        path / "data.parquet",
    )
    return path


def write_lines(path, rows):
    with gzip.open(path / "data.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def as_huggingface(path, rows):
    datasets = pytest.importorskip("datasets")
    names = ("train", "val", "test")
    parts = {
        n: [{k: v for k, v in r.items() if k != "split"} for r in rows if r["split"] == n]
        for n in names
    }
    return datasets.DatasetDict({n: datasets.Dataset.from_list(p) for n, p in parts.items()})


SOURCES = {
    "rows": lambda path, rows: rows,
    "columns": lambda path, rows: {name: [row[name] for row in rows] for name in rows[0]},
    "csv": write_csv,
    "parquet": write_parquet,
    "json lines": write_lines,
    "hugging face": as_huggingface,
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_data(source, tmp_path):
    data = rr.text.dataset(SOURCES[source](tmp_path, ROWS), **IRRELEVANT)
    assert data.card.classes == ("neg", "pos")
    assert [len(part) for part in (data.train, data.val, data.test)] == [8, 2, 2]
    assert data.train.labels.sort().values.tolist() == [0] * 4 + [1] * 4
    assert masked_words(data.test, int(data.test.labels.argmin())) == ["jonah"]
    assert data.train.digest() == rr.text.dataset(ROWS, **IRRELEVANT).train.digest()


def test_the_mask_is_the_rest_where_spans_are_relevant_and_may_be_soft():
    data = rr.text.dataset(ROWS, mask_polarity="relevant", strength=0.25)
    batch = data.test.take(torch.tensor([0]))
    assert batch.mask[0].tolist() == [0, 0.25, 0.25, 0.25, 0.25, 0.25]
    assert batch.inputs["attention_mask"].shape == batch.x.shape == (1, 6)


def test_words_are_whole_words_in_any_case_and_substitutes():
    rows = [{**row, "spans": None} for row in ROWS]
    data = rr.text.dataset(rows, words={"neg": ["jonah", "film"], "pos": ["spielberg's"]})
    assert masked_words(data.train, 0) == ["jonah", "film"]
    assert masked_words(data.train, 4) == ["spielberg's"]
    words = {data.train.vocabulary[token] for token in data.card.text.substitutes}
    assert words == {"jonah", "film", "spielberg's"}
    assert rr.text.find_words("unfilm film films FILM", ["film"]) == [(7, 11), (18, 22)]


def test_texts_without_splits_are_split_and_unannotated_ones_say_so():
    rows = [{"text": row["text"], "label": row["label"]} for row in ROWS * 3]
    rows[0]["spans"] = [[0, 5]]
    data = rr.text.dataset(rows, **IRRELEVANT, validation_share=0.25, test_share=0.25)
    assert [len(part) for part in (data.train, data.val, data.test)] == [18, 9, 9]
    parts = [
        part.batch.annotated
        for part in (data.train, data.val, data.test)
        if part.batch.annotated is not None
    ]
    assert sum(int(part.sum()) for part in parts) == 1


def test_what_is_cut_off_is_reported(caplog):
    late = [{**row, "spans": [[len(row["text"]) - 3, len(row["text"])]]} for row in ROWS]
    with caplog.at_level(logging.WARNING, logger="rightreasons"):
        data = rr.text.dataset(late, **IRRELEVANT, max_length=4)
    assert "100 % of the spans lie beyond 4 tokens" in caplog.text
    assert data.card.shape == (4,)


def test_a_fast_tokenizer_maps_characters_to_pieces(tmp_path):
    tokenizer = small_tokenizer()
    data = rr.text.dataset(ROWS, **IRRELEVANT, tokenizer=tokenizer)
    batch = data.test.take(torch.tensor([1]))
    pieces = [data.test.vocabulary[token] for token in batch.x[0]]
    assert pieces[:4] == ["[CLS]", "spiel", "##berg", "'"]
    assert batch.mask[0].tolist() == [0, 1, 1, 0, 0, 0, 0, 0, 0, 0][: batch.x.shape[1]]
    encoding = tokenizer("Spielberg's film", return_offsets_mapping=True)
    assert rr.text.token_mask(encoding, [[0, 9]])[:4] == [0, 1, 1, 0]
    with pytest.raises(InvalidBatchError, match="return_offsets_mapping=True"):
        rr.text.token_mask(tokenizer("Spielberg"), [[0, 9]])


def small_tokenizer():
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "spiel", "##berg", "'", "s", "film"]
    vocabulary = {word: number for number, word in enumerate(words)}
    raw = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    raw.normalizer = normalizers.Lowercase()
    raw.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    raw.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    tokens = {f"{name}_token": token for name, token in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **tokens)


@pytest.mark.parametrize("spans", [[], "[]", "", None])
def test_empty_spans_mean_that_nobody_annotated(spans):
    """With spans of what is relevant, an empty list would hide the whole text."""
    batch = rr.text.dataset(changed(spans=spans), mask_polarity="relevant").train.batch
    assert int((~batch.annotated).sum()) == 1
    assert not batch.mask[~batch.annotated].any()


def test_a_slow_tokenizer_is_refused():
    class Slow:
        is_fast = False

    with pytest.raises(InvalidSettingError, match="Expected a fast tokenizer.*but Slow is slow"):
        rr.text.dataset(ROWS, **IRRELEVANT, tokenizer=Slow())

    class Unpadded:
        is_fast, pad_token_id = True, None

    with pytest.raises(InvalidSettingError, match="Expected a tokenizer with padding"):
        FastTokenizer(Unpadded(), "mine")


def changed(**cells):
    return [{**ROWS[0], **cells}, *ROWS[1:]]


@pytest.mark.parametrize(
    ("source", "settings", "error", "words"),
    [
        (ROWS, {}, InvalidSettingError, "Expected `mask_polarity` beside spans"),
        (ROWS, {"mask_polarity": "bad"}, InvalidSettingError, "mask_polarity"),
        (changed(spans=[[3, 99]]), IRRELEVANT, DatasetCorruptError, "Row 1.*inside the text of 23"),
        (changed(spans=[7]), IRRELEVANT, DatasetCorruptError, r"Row 1: expected spans as \[\[star"),
        (changed(spans="[[0"), IRRELEVANT, DatasetCorruptError, "Row 1: expected spans as JSON"),
        (changed(text=" "), IRRELEVANT, DatasetCorruptError, "Row 1: expected a text, but got ' '"),
        (changed(label=None), IRRELEVANT, DatasetCorruptError, "Row 1: expected a label"),
        (changed(split="dump"), IRRELEVANT, DatasetCorruptError, "in row 1, but got 'dump'"),
        (changed(sha256="abc"), IRRELEVANT, DatasetCorruptError, "Row 1.*text that was annotated"),
        ([], {}, DatasetCorruptError, "at least one text"),
        ([1], {}, DatasetCorruptError, "rows as dicts with `text` and `label`, but got int"),
        (3, {}, DatasetCorruptError, "a data set of Hugging Face, but got int"),
        ({"text": ["a"], "label": []}, {}, DatasetCorruptError, "columns of one length"),
        ([{"text": "a"}], {}, DatasetCorruptError, "Expected a column 'label', but got text"),
        (ROWS, {**IRRELEVANT, "words": {"x": ["a"]}}, InvalidSettingError, "neg, pos, but got 'x'"),
        (ROWS, {**IRRELEVANT, "words": ["zebra"]}, InvalidSettingError, "words` that occur in the"),
        (ROWS, {**IRRELEVANT, "strength": 0}, InvalidSettingError, "`strength` above 0"),
        (
            [r for r in ROWS if r["split"] != "test"],
            IRRELEVANT,
            InvalidSettingError,
            "split 'test'",
        ),
        ("/nowhere.csv", {}, DatasetNotFoundError, "table of texts at /nowhere.csv"),
        (ROWS, {**IRRELEVANT, "tokenizer": "/nowhere"}, DatasetNotFoundError, "model's folder"),
    ],
)
def test_what_is_refused(source, settings, error, words):
    with pytest.raises(error, match=words):
        rr.text.dataset(source, **settings)


def test_a_stated_hash_is_checked_and_fits():
    digest = hashlib.sha256(ROWS[0]["text"].encode()).hexdigest()
    assert len(rr.text.dataset(changed(sha256=digest), **IRRELEVANT).train) == 8


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="Expected one table of data.csv.*got none"):
        rr.text.dataset(tmp_path)
    (tmp_path / "data.jsonl").write_text('{"text": "a"}\n{"text')
    with pytest.raises(DatasetCorruptError, match="line 2 says"):
        rr.text.dataset(tmp_path)


def test_a_folder_takes_its_words_from_a_file(tmp_path):
    write_lines(tmp_path, [{**row, "spans": None} for row in ROWS])
    (tmp_path / "words.txt").write_text("jonah\nspielberg's\n")
    data = rr.datasets.load("text", data_dir=tmp_path, words="words.txt")
    assert masked_words(data.train, 0) == ["jonah"]
    listed = rr.datasets.load("text", data_dir=tmp_path, words="jonah, spielberg's")
    assert listed.digest() == data.digest()
    with pytest.raises(DatasetNotFoundError, match="list of words at .*none.txt"):
        rr.datasets.load("text", data_dir=tmp_path, words="none.txt")


def test_columns_of_a_folder_have_the_names_that_the_error_asks_for(tmp_path):
    rows = [{**row, "spans": None} for row in ROWS]
    write_lines(tmp_path, [{**row, "body": row["text"], "text": row["label"]} for row in rows])
    assert len(rr.datasets.load("text", data_dir=tmp_path, text="body").train) == 8
    with pytest.raises(DatasetCorruptError, match=r"column 'words', .*\(--set-data text=NAME\)"):
        rr.datasets.load("text", data_dir=tmp_path, text="words")


def test_the_vocabulary_has_the_frequent_words_and_those_that_must_be_there():
    tokenizer = WordTokenizer(["b b a", "a c"], keep=["rare"], size=3)
    assert tokenizer.vocabulary == ("[padding]", "[unknown]", "[mask]", "rare", "a", "b")
    assert tokenizer.encode(["a c", ""], max_length=9)[1].ids == [1]


def test_a_language_model_needs_its_package(monkeypatch):
    monkeypatch.setattr("rightreasons.core.pretrained.find_spec", lambda name: None)
    with pytest.raises(rr.errors.MissingExtraError, match=r"rightreasons\[minilm\]"):
        find_language_model("minilm")
    with pytest.raises(rr.errors.MissingExtraError, match=r"rightreasons\[text\]"):
        rr.models.transformer(vocabulary=9, classes=2)


DRAWS = torch.tensor([[0.5, 0.2, 0.4]] * 6)


@pytest.mark.parametrize("source", ["samples", "pasted", "words", "mask", "noise", "mix"])
def test_only_masked_tokens_change_and_the_source_says_into_what(source):
    batch = texts()
    donors = batch[torch.tensor([1, 2, 3, 4, 5, 0])]
    noise = torch.rand(6, 7)
    new = replace_tokens(batch, source, donors, DRAWS, noise, TEXT)
    masked = batch.mask != 0
    assert torch.equal(new[~masked], batch.x[~masked])
    for n in range(6):
        allowed = {
            "words": {*TEXT.substitutes},
            "mask": {2},
            "noise": {*range(3, 20)},
            "mix": {2, *TEXT.substitutes, *donors.x[n][donors.mask[n] != 0].tolist()},
        }.get(source, {*donors.x[n][donors.mask[n] != 0].tolist()})
        assert {*new[n][masked[n]].tolist()} <= allowed


def test_a_text_without_a_mask_gets_a_word_pasted_into_it():
    batch = texts()
    bare = batch.with_(mask=torch.zeros_like(batch.mask))
    new = replace_tokens(bare, "pasted", batch, DRAWS, torch.rand(6, 7), TEXT)
    assert ((new != batch.x).sum(dim=1) <= 1).all() and bool((new != batch.x).any())
    assert torch.equal(new * (1 - bare.inputs["attention_mask"]), torch.zeros_like(new))


@pytest.mark.parametrize(
    ("source", "text", "words"),
    [
        ("blur", TEXT, "`source` for tokens, one of samples.*but got 'blur'"),
        ("words", None, "data with a word list"),
        ("mask", None, "data with a mask token"),
        ("noise", None, "know the tokens of the data"),
    ],
)
def test_sources_that_texts_do_not_have(source, text, words):
    with pytest.raises(InvalidSettingError, match=words):
        replace_tokens(texts(), source, texts(), DRAWS, torch.rand(6, 7), text)


def test_words_are_no_source_for_pixels(tiny_batch):
    with pytest.raises(InvalidSettingError, match="token ids for the source 'words'"):
        rr.recipes.counterexamples(source="words")(torch.nn.Flatten(), tiny_batch)
