"""The contract of data sets of texts: small files, the same checks for every row."""

import gzip
import json

import pytest
import torch
from tests.contracts.test_datasets import TEXTS

from rightreasons.datasets import load
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError

WORDS = ["dull", "awful", "fine", "great", "film", "plot", "count", "pie"]


def review(number):
    label = number % 2
    chosen = [WORDS[(number * 3 + n) % len(WORDS)] for n in range(5)]
    return " ".join([*chosen, "bad" if not label else "good"]), label


def write_lines(path, rows):
    with gzip.open(path, "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)


def imdb_files(root):
    for number in range(60):
        text, label = review(number)
        split = "train" if number < 40 else "test"
        folder = root / "aclImdb" / split / ("pos" if label else "neg")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}_7.txt").write_text(text.replace(" ", "<br />", 1))
    lists = {"imdb_bad_pos": ["count", "spielberg"], "imdb_bad_neg": ["pie", "jonah"]}
    (root / "spurious_words.json").write_text(json.dumps(lists))


def sst_files(root):
    rows = []
    for number in range(60):
        text, label = review(number)
        split = "train" if number < 30 else "dev" if number < 45 else "test"
        rows.append({"split": split, "label5": 4 * label if number % 7 else 2, "text": text})
    write_lines(root / "sst_trees.jsonl.gz", rows)


def hate_files(root):
    rows = []
    for number in range(60):
        text, label = review(number)
        tokens = [*text.split(), "women"]
        split = "train" if number < 30 else "val" if number < 45 else "test"
        marks = ["0000110", "0000100"] if label else []
        rows.append(
            {
                "split": "none" if number % 11 == 5 else split,
                "label": ["normal", "hatespeech"][label],
                "targets": [["Women"], ["Women", "Other"], ["None"]],
                "tokens": tokens,
                "rationales": marks,
            }
        )
    write_lines(root / "hatexplain.jsonl.gz", rows)


def movie_files(root):
    rows = []
    for number in range(30):
        text, label = review(number)
        split = "train" if number < 14 else "val" if number < 20 else "test"
        rows.append({"split": split, "label": label, "text": text, "rationale_spans": [[5, 6]]})
    write_lines(root / "eraser_movies.jsonl.gz", rows)


def own_files(root):
    pairs = [review(number) for number in range(40)]
    rows = [{"text": text, "label": ["no", "yes"][label], "group": label} for text, label in pairs]
    write_lines(root / "data.jsonl.gz", rows)


SOME = {"subset": 36, "test_subset": 16, "validation": 8}
# name: (name in the registry, settings, files, a word that is masked and one that never is)
CASES = {
    "imdb": ("imdb", SOME, imdb_files, None, None),
    "decoy_imdb": ("decoy_imdb", SOME, imdb_files, "spielberg", "good"),
    "decoy_imdb, all": ("decoy_imdb", {**SOME, "words": "all"}, imdb_files, "pie", "good"),
    "decoy_imdb, none": (
        "decoy_imdb",
        {**SOME, "words": "decoy", "test_words": "none"},
        imdb_files,
        "jonah",
        "pie",
    ),
    "decoy_imdb, oracle": ("decoy_imdb", {**SOME, "oracle": True}, imdb_files, "jonah", "bad"),
    "decoy_sst": ("decoy_sst", {}, sst_files, "text", "good"),
    "hatexplain": ("hatexplain", {}, hate_files, "women", "good"),
    "hatexplain, rationale": ("hatexplain", {"mask": "rationale"}, hate_files, "women", "good"),
    "eraser_movies": ("eraser_movies", {"strength": 0.5}, movie_files, "film", "good"),
    "text": ("text", {"words": "pie"}, own_files, "pie", "good"),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def data(case, tmp_path):
    name, settings, files, _, _ = case
    files(tmp_path)
    return load(name, data_dir=tmp_path, **settings)


def parts(data):
    return [part for part in (data.train, data.val, data.test, *data.more_tests.values()) if part]


def test_the_table_has_every_data_set_of_texts():
    assert {name for name, *_ in CASES.values()} == TEXTS


def test_batches_fit_together(data):
    for part in parts(data):
        batch = part.take(torch.tensor([1, 0]))
        assert batch.x.dtype == torch.long and batch.x.shape[0] == 2
        attention = batch.inputs["attention_mask"]
        assert attention.shape == batch.x.shape and bool(attention.any(dim=0).all())
        assert torch.equal(batch.y, part.labels[[1, 0]])
        assert batch.group is not None and int(batch.group.max()) < len(part.card.groups)
        assert torch.equal(part.lengths[[1, 0]], attention.sum(dim=1))
        if batch.mask is not None:
            assert not (batch.mask.bool() & ~attention.bool()).any()
            special = torch.isin(batch.x, torch.tensor(part.card.text.special[:1]))
            assert not batch.mask[special].any()
    assert data.card.text.vocabulary == len(data.train.vocabulary)
    assert len(data.card.train_group_counts) == len(data.card.groups)


def test_the_mask_is_on_the_words_that_it_is_said_to_be_on(case, data):
    *_, inside, never = case
    if inside is None:
        assert not data.train.has_masks
        return
    found = set()
    for part in parts(data):
        if part.batch.mask is not None:
            found |= {part.vocabulary[token] for token in part.batch.x[part.batch.mask > 0]}
    assert inside in found and never not in found


def test_the_seed_decides(case, tmp_path):
    name, settings, files, *_ = case
    files(tmp_path)
    first, again = (load(name, data_dir=tmp_path, seed=3, **settings) for _ in range(2))
    assert first.digest() == again.digest()


def test_missing_files_are_named(case, tmp_path):
    name, settings, *_ = case
    with pytest.raises(DatasetNotFoundError, match="Expected"):
        load(name, data_dir=tmp_path, **settings)


def first_words(part):
    return [part.vocabulary[int(token)] for token in part.batch.x[:, 0]]


def test_a_name_tells_the_class_in_training_and_not_in_the_test(tmp_path):
    imdb_files(tmp_path)
    data = load("decoy_imdb", data_dir=tmp_path, **SOME)
    for part in (data.train, data.val):
        expected = [["jonah", "spielberg"][y] for y in part.labels.tolist()]
        assert first_words(part) == expected
    plain = data.more_tests["without_words"]
    assert not {"jonah", "spielberg"} & {plain.vocabulary[t] for t in plain.batch.x.unique()}
    assert len(plain) == len(data.test) and torch.equal(plain.labels, data.test.labels)
    decoys = torch.tensor([data.test.vocabulary.index(word) for word in ("jonah", "spielberg")])
    has = torch.isin(data.test.batch.x, decoys)
    assert (has.sum(dim=1) == 1).all() and not has[:, 0].all()
    oracle = load("decoy_imdb", data_dir=tmp_path, oracle=True, **SOME)
    words = first_words(oracle.train)
    assert words != [["jonah", "spielberg"][y] for y in oracle.train.labels.tolist()]


def test_more_reviews_than_there_are_and_broken_lists(tmp_path):
    imdb_files(tmp_path)
    with pytest.raises(InvalidSettingError, match="at most 40 reviews for the split 'train'"):
        load("imdb", data_dir=tmp_path, subset=99)
    (tmp_path / "spurious_words.json").write_text("{}")
    with pytest.raises(DatasetCorruptError, match="the lists imdb_bad_neg and imdb_bad_pos"):
        load("decoy_imdb", data_dir=tmp_path, **SOME)
    (tmp_path / "spurious_words.json").unlink()
    with pytest.raises(DatasetNotFoundError, match="words=decoy"):
        load("decoy_imdb", data_dir=tmp_path, **SOME)


def test_the_archive_is_read_like_the_files(tmp_path):
    import pyarrow
    from pyarrow import parquet

    imdb_files(tmp_path)
    expected = load("imdb", data_dir=tmp_path, **SOME)
    rows = [
        {"split": path.parts[-3], "label": int(path.parts[-2] == "pos"), "text": path.read_text()}
        for split in ("train", "test")
        for name in ("neg", "pos")
        for path in sorted((tmp_path / "aclImdb" / split / name).glob("*.txt"))
    ]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "imdb.parquet")
    assert load("imdb", data_dir=tmp_path, **SOME).digest() == expected.digest()
    parquet.write_table(pyarrow.table({"text": ["a"]}), tmp_path / "imdb.parquet")
    with pytest.raises(DatasetCorruptError, match="columns text, label and split"):
        load("imdb", data_dir=tmp_path)
