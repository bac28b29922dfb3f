import csv
import json
import struct
import zlib
from collections import Counter

import numpy as np
import pytest
from PIL import Image
from tests.datasets.miniature import class_folders, save
from typer.testing import CliRunner

from rightreasons.cli.commands import app
from rightreasons.datasets import check_data
from rightreasons.datasets.images.row_checks import KINDS, measure_telling
from rightreasons.errors import InvalidSettingError

HEADER = ["file", "label", "split", "group", "mask", "site", "scanner", "study"]
SIZE = 32


class Folder:
    """A clean data folder in which faults are planted; it knows what must be reported."""

    def __init__(self, root):
        self.root = root
        self.rng = np.random.default_rng(1)
        self.rows = []
        self.expected = []
        for number in range(120):
            split = ("train", "train", "train", "val", "test")[number // 2 % 5]
            self.add(split=split, label=("cat", "dog")[number % 2], masked=number % 3 == 0)

    @property
    def row(self):
        """The number of the last row in a spreadsheet."""
        return len(self.rows) + 1

    def picture(self):
        coarse = self.rng.integers(0, 256, size=(6, 6, 3), dtype=np.uint8)
        return np.asarray(Image.fromarray(coarse).resize((SIZE, SIZE), Image.Resampling.BICUBIC))

    def add(self, *, kinds=(), at=None, masked=False, pixels=None, suffix=".png", **cells):
        """Add a row with its files; ``kinds`` must be reported for it."""
        name = cells.get("file", f"images/{len(self.rows)}{suffix}")
        if name and pixels is not False:
            save(self.root / name, self.picture() if pixels is None else pixels)
        if masked:
            mask = np.zeros((SIZE, SIZE))
            top, left = self.rng.integers(2, 20, size=2)
            mask[top : top + 6, left : left + 8] = 255
            save(self.root / "masks" / f"{len(self.rows)}.png", mask)
            cells.setdefault("mask", f"masks/{len(self.rows)}.png")
        label = cells.get("label", "cat")
        usual = {
            "file": name,
            "label": label,
            "split": "train",
            "group": ("in", "out")[len(self.rows) // 2 % 2],
            "mask": "",
            "site": str(self.rng.integers(3)),
            "scanner": "old" if label == "cat" else "new",
            "study": "pilot",
        }
        self.rows.append([{**usual, **cells}[column] for column in HEADER])
        for kind in kinds:
            self.expected.append((kind, self.row, at or name))
        return self.root / name

    def mask(self, kind, pixels, **cells):
        """Add a row whose mask has a fault."""
        name = f"masks/{len(self.rows)}.png"
        if isinstance(pixels, bytes):
            (self.root / name).write_bytes(pixels)
        elif pixels is not None:
            save(self.root / name, pixels)
        self.add(kinds=[kind], at=name, mask=name, **cells)

    def write(self):
        with (self.root / "data.csv").open("w", newline="") as lines:
            csv.writer(lines).writerows([HEADER, *self.rows])


def bomb(path, side):
    """A PNG that claims to be of a size it has not."""
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0")), (b"IEND", b"")):
        content += struct.pack(">I", len(data)) + kind + data
        content += struct.pack(">I", zlib.crc32(kind + data))
    path.write_bytes(content)


def cut(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def plant(data):
    """Faults of every kind that a table can have."""
    train = [row for row in data.rows if row[2] == "train" and row[1] == "cat"]
    data.add(kinds=["fields"])
    data.rows[-1].append("one more")
    data.add(kinds=["fields"])
    del data.rows[-1][5:]
    data.add(kinds=["no-file"], at="data.csv", file="")
    for before in (data.rows[0], data.rows[1]):
        file, label, split, group, mask, *_ = before
        cells = {"file": file, "label": label, "split": split, "group": group, "mask": mask}
        data.add(kinds=["duplicate-row"], pixels=False, **cells)
    for _ in range(2):
        data.add(kinds=["no-label"], label="")
        data.add(kinds=["blank-image"], pixels=np.full((SIZE, SIZE, 3), len(data.rows)))
    data.add(kinds=["label-spelling"], label="DOG", split="test")
    data.add(kinds=["untrained-label"], label="bird", split="test")
    for split in ("dev", ""):
        data.add(kinds=["split"], split=split)
    for _ in range(3):
        data.add(kinds=["missing-image"], pixels=False)
    for suffix, share in ((".jpg", 0.7), (".png", 0.6), (".png", 0.8)):
        noise = data.rng.integers(0, 256, size=(SIZE, SIZE, 3))
        cut(data.add(kinds=["truncated-image"], suffix=suffix, pixels=noise), share)
    for content in (b"", b"hello", b"\x89PNG\r\n\x1a\nnothing"):
        data.add(kinds=["unreadable-image"]).write_bytes(content)
    for side in (10_000, 30_000):
        bomb(data.add(kinds=["bomb"]), side)
    for _ in range(3):
        data.mask("missing-mask", None)
    classes = np.zeros((SIZE, SIZE))
    classes[:9, :9], classes[9:12] = 1, 2
    data.mask("unreadable-mask", classes)
    data.mask("unreadable-mask", b"no mask")
    for size in ((SIZE, SIZE + 1), (9, 9)):
        pixels = np.zeros(size)
        pixels[2:5, 2:5] = 255
        data.mask("mask-size", pixels)
    for _ in range(2):
        data.mask("empty-mask", np.zeros((SIZE, SIZE)))
        data.mask("full-mask", np.full((SIZE, SIZE), 255))
        inverted = np.full((SIZE, SIZE), 255)
        inverted[8:14, 8:18] = 0
        data.mask("inverted-mask", inverted)
    for before, split in zip(train[:2], ("val", "test"), strict=True):
        pixels = np.asarray(Image.open(data.root / before[0]))
        data.add(kinds=["same-image"], pixels=pixels, split=split, suffix=".bmp")
    for before, split in zip(train[2:4], ("val", "test"), strict=True):
        pixels = np.asarray(Image.open(data.root / before[0]).resize((48, 48)))
        data.add(kinds=["near-image"], pixels=pixels, split=split, suffix=".jpg")
    pixels = np.asarray(Image.open(data.root / train[4][0]))
    data.add(kinds=["label-conflict"], pixels=pixels, label="dog")
    for number in range(3):
        data.add(kinds=["small-group"] * 2 * (number == 0), split="test", group="rare")
    data.add(kinds=["imbalance"], label="fox")
    data.expected += [("constant-column", 1, "data.csv"), ("telling-column", 1, "data.csv")]
    for row in data.rows[10:14]:
        row[6] = "old"  # so that the scanner tells the label nearly always


def test_47_faults_of_25_kinds_and_nothing_else(tmp_path):
    data = Folder(tmp_path)
    data.write()
    clean = [problem for problem in check_data(tmp_path) if "column" not in problem.kind]
    assert clean == []
    plant(data)
    data.write()
    problems = check_data(tmp_path)
    found = [(problem.kind, problem.row, problem.file) for problem in problems]
    assert len(data.expected) == 47
    assert len({kind for kind, _, _ in data.expected}) == 25
    assert Counter(found) == Counter(data.expected)
    assert {problem.kind for problem in problems} <= set(KINDS)


def test_the_command_tells_all_and_fails(tmp_path):
    data = Folder(tmp_path)
    data.rows = [[*row[:6]] for row in data.rows]
    with (tmp_path / "data.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([HEADER[:6], *data.rows])
    runner = CliRunner()
    clean = runner.invoke(app, ["data", "check", str(tmp_path)])
    assert (clean.exit_code, " ".join(clean.stdout.split())) == (0, f"0 problems in {tmp_path}")
    (tmp_path / "images/4.png").unlink()
    shown = runner.invoke(app, ["data", "check", str(tmp_path)])
    assert shown.exit_code == 1
    assert "row 6, images/4.png: no such file [missing-image]" in " ".join(shown.stdout.split())
    as_json = runner.invoke(app, ["data", "check", str(tmp_path), "--json"])
    assert as_json.exit_code == 1
    assert json.loads(as_json.stdout)["problems"] == [
        {"kind": "missing-image", "message": "no such file", "file": "images/4.png", "row": 6}
    ]


def test_class_folders_have_no_rows(tmp_path):
    class_folders(tmp_path, count=20)
    path = next(tmp_path.glob("train*/n01440764/*"))
    path.write_bytes(b"")
    save(tmp_path / "masks" / "other.png", np.zeros((4, 4)))
    found = {(one.kind, one.file, one.row) for one in check_data(tmp_path, least_group=1)}
    assert ("unreadable-image", str(path.relative_to(tmp_path)), None) in found
    assert ("unused-mask", "masks/other.png", None) in found


def test_a_folder_without_a_table_is_one_problem(tmp_path):
    (tmp_path / "data.csv").write_text("file,split\na,train\n")
    (problem,) = check_data(tmp_path)
    assert problem.kind == "table"
    assert "no label or y" in problem.message
    with pytest.raises(InvalidSettingError, match="`least_group` to be a whole number from 1"):
        check_data(tmp_path, least_group=0)


def test_how_well_a_column_tells_the_label():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=400).tolist()
    assert measure_telling([str(label) for label in labels], labels) == 1
    assert measure_telling([str(n) for n in rng.integers(3, size=400)], labels) < 0.2
    assert measure_telling([f"id{n}" for n in range(400)], labels) == 0
    ages = [str(20 + 30 * label + value) for label, value in zip(labels, rng.normal(size=400))]  # noqa: B905
    assert measure_telling(ages, labels) > 0.85
    rare = [0] * 380 + [1] * 20
    assert measure_telling(["a"] * 400, rare) == 0  # the frequent class alone tells nothing
