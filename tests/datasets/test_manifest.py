import pytest

from rightreasons.datasets.images.manifest import read_manifest
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


def test_names_are_sorted_and_numbered(pets):
    manifest, problems = read_manifest(pets)
    assert problems == []
    assert manifest.classes == ("cat", "dog")
    assert manifest.groups == ("indoors", "outdoors")
    assert manifest.has_masks
    assert [len(manifest.part(split)) for split in ("train", "val", "test")] == [6, 3, 3]
    second = manifest.entries[1]
    assert (second.row, second.label, second.group, second.mask) == (3, 1, 0, "masks/1.png")
    assert manifest.entries[0].mask == ""


def test_numbers_are_sorted_as_numbers(tmp_path, write_table):
    write_table(tmp_path, ["file", "label", "split"], ["a", "10", 0], ["b", "9", 0], ["c", "10", 2])
    manifest, problems = read_manifest(tmp_path)
    assert problems == []
    assert manifest.classes == ("9", "10")
    assert [entry.label for entry in manifest.entries] == [1, 0, 1]
    assert [entry.split for entry in manifest.entries] == ["train", "train", "test"]
    assert manifest.groups == ()
    assert not manifest.has_masks


def test_the_table_of_group_dro_and_wilds(tmp_path, write_table):
    write_table(
        tmp_path,
        ["img_id", "img_filename", "y", "split", "place", "place_filename"],
        [1, "a.jpg", 0, 0, 1, "/x"],
        [2, "b.jpg", 1, 0, 0, "/x"],
        [3, "c.jpg", 1, 1, 1, "/x"],
        [4, "d.jpg", 0, 2, 0, "/x"],
    )
    manifest, problems = read_manifest(tmp_path)
    assert problems == []
    assert [entry.group for entry in manifest.entries] == [1, 2, 3, 0]  # y * 2 + place
    assert manifest.groups == (
        "label 0, place 0",
        "label 0, place 1",
        "label 1, place 0",
        "label 1, place 1",
    )


def test_the_table_may_have_another_name(tmp_path, write_table):
    write_table(tmp_path, ["file", "label", "split"], ["a", 0, 0], ["b", 0, 2])
    (tmp_path / "data.csv").rename(tmp_path / "metadata.csv")
    manifest, problems = read_manifest(tmp_path, table="metadata.csv")
    assert problems == [] and manifest.origin == "its metadata.csv says"
    with pytest.raises(DatasetNotFoundError, match="Expected a table at .*data.csv"):
        read_manifest(tmp_path)


def test_own_groups_go_before_attributes_and_may_be_unknown(tmp_path, write_table):
    write_table(
        tmp_path,
        ["filename", "y", "a", "split", "group"],
        ["a", 0, 1, "train", "odd"],
        ["b", 0, 0, "test", ""],
    )
    manifest, _ = read_manifest(tmp_path)
    assert manifest.groups == ("odd",)
    assert [entry.group for entry in manifest.entries] == [0, -1]


def test_spreadsheets_leave_marks_and_blank_lines(tmp_path):
    text = "\ufeffFile, Label ,split\r\na.png, cat ,Train\r\n\r\n,,\r\nb.png,cat,TEST\r\n"
    (tmp_path / "data.csv").write_bytes(text.encode())
    manifest, problems = read_manifest(tmp_path)
    assert problems == []
    assert [(entry.row, entry.file) for entry in manifest.entries] == [(2, "a.png"), (5, "b.png")]
    assert manifest.classes == ("cat",)


def test_every_problem_of_the_rows_at_once(tmp_path, write_table):
    write_table(
        tmp_path,
        ["file", "label", "split"],
        ["a.png", "cat", "train"],
        ["./a.png", "cat", "train"],
        ["b.png", "", "train"],
        ["", "cat", "train"],
        ["c.png", "cat", "holdout"],
        ["d.png", "Cat", "val"],
        ["e.png", "cat", "train", "more"],
        ["f.png", "cat"],
    )
    _, problems = read_manifest(tmp_path)
    assert problems == [
        "row 8: has 4 fields, but the header has 3",
        "row 9: has 2 fields, but the header has 3",
        "row 3, ./a.png: is a duplicate of row 2",
        "row 4, b.png: has no label",
        "row 5, no file: names no file",
        "row 6, c.png: has the split 'holdout', expected train, val, test, 0, 1 or 2",
        "row 9, f.png: has the split '', expected train, val, test, 0, 1 or 2",
        "no row has the split 'test'",
        "the label 'Cat' occurs, but not in the split 'train'",
    ]


def test_no_table(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="columns file,label,split"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no file or img_filename or filename, no label or y, no split; it has: nothing"),
        (b"file,split\na,train\n", "it has no label or y; it has: file, split"),
        (b"file;label;split\na;b;train\n", "Save it with commas, not semicolons"),
        (b"file,label,split\n", "it has a header only"),
        (b"file,label,split\n\xff\xfe,a,train\n", "a table in UTF-8 with commas, but got"),
        (b'file,label,split\n"a,b,train\n', "a table in UTF-8 with commas, but got"),
    ],
)
def test_not_a_table(tmp_path, text, words):
    (tmp_path / "data.csv").write_bytes(text)
    with pytest.raises(DatasetCorruptError, match=words):
        read_manifest(tmp_path)


@pytest.mark.parametrize("again", ["label", "Label ", "group"])
def test_columns_that_occur_twice_are_refused(tmp_path, write_table, again):
    header = ["file", "label", "split", "group", again]
    write_table(tmp_path, header, ["a", "x", "train", "g", "y"], ["b", "y", "test", "g", "x"])
    words = f"to have each column once, but it has several called {again.strip().lower()}. Rename"
    with pytest.raises(DatasetCorruptError, match=words):
        read_manifest(tmp_path)


ROWS = [["a", "cat", "train", "A", 3], ["b", "dog", "train", "B", ""], ["c", "cat", "test", "", 1]]


def test_parquet_equals_csv(tmp_path, write_table):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    header = ["file", "label", "split", "site", "age"]
    write_table(tmp_path, header, *ROWS)
    expected = read_manifest(tmp_path, groups=["label", "site"])
    columns = [[None if cell == "" else cell for cell in column] for column in zip(*ROWS)]  # noqa: B905
    parquet.write_table(
        pyarrow.table(dict(zip(header, columns, strict=True))), tmp_path / "data.parquet"
    )
    with pytest.raises(DatasetCorruptError, match="one table in .* data.csv and data.parquet"):
        read_manifest(tmp_path)
    (tmp_path / "data.csv").unlink()
    manifest, problems = read_manifest(tmp_path, groups=["label", "site"])
    assert (manifest.entries, problems) == (expected[0].entries, expected[1])
    (tmp_path / "data.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(DatasetCorruptError, match="to be a parquet table, but got"):
        read_manifest(tmp_path)


def test_groups_from_columns(tmp_path, write_table):
    write_table(tmp_path, ["file", "label", "split", "site", "age"], *ROWS)
    crossed, _ = read_manifest(tmp_path, groups=["label", "Site"])
    assert crossed.groups == (
        "label cat, site A",
        "label cat, site B",
        "label dog, site A",
        "label dog, site B",
    )
    assert [entry.group for entry in crossed.entries] == [0, 3, -1]
    alone, _ = read_manifest(tmp_path, groups=["age"])
    assert alone.groups == ("1", "3")
    assert [entry.group for entry in alone.entries] == [1, -1, 0]
    with pytest.raises(InvalidSettingError, match="--groups.* file, label, split, site, age; but"):
        read_manifest(tmp_path, groups=["label", "hospital"])


def test_a_column_of_masks_may_state_its_polarity(tmp_path, write_table):
    rows = [["a", "cat", "train", "m"], ["b", "dog", "test", ""]]
    for column, polarity in (("mask", None), ("irrelevant_mask", "irrelevant")):
        write_table(tmp_path, ["file", "label", "split", column], *rows)
        assert read_manifest(tmp_path)[0].mask_polarity == polarity
    write_table(tmp_path, ["file", "label", "split", "mask", "relevant_mask"], *rows)
    with pytest.raises(DatasetCorruptError, match="one column of masks, but got mask, relevant_m"):
        read_manifest(tmp_path)
