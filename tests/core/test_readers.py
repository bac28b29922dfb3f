"""Whatever is in a file, its reader gives a sentence, soon."""

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

import rightreasons as rr
from rightreasons.annotators.mask_files import with_mask_archive
from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.store import read_rows
from rightreasons.core.arrays import read_arrays
from rightreasons.core.files import Unreadable, load_checkpoint, load_tensors, read_json
from rightreasons.datasets import as_dataset
from rightreasons.datasets.download import download
from rightreasons.errors import (
    DatasetCorruptError,
    InvalidSettingError,
    RightReasonsError,
    RunNotFoundError,
)
from rightreasons.report.record import read_record
from rightreasons.run.config import read_yaml
from rightreasons.run.run import Config, load_config, load_run, train_run

BOMB = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [*{before}, *{before}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DATA = as_dataset(
    rr.Batch(x=torch.rand(4, 1, 8, 8), y=torch.arange(4) % 2, mask=torch.zeros(4, 1, 8, 8))
)


def array_file(header, content=b""):
    """An .npy file with a header of one's own."""
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


def archive(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in members.items():
            target.writestr(f"{name}.npy", content)
    return file.getvalue()


HUGE = archive(mask=array_file("{'descr': '|u1', 'fortran_order': False, 'shape': (10**4,)}"))
TERABYTE = archive(
    mask=array_file("{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}")
)
OBJECTS = archive(mask=array_file("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"x"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (BOMB, "it has an alias"),
        ("[" * 200_000, "nested too deep"),
        ("a: " + "9" * 5000, "digits"),
        ("a: 2001-99-99", "month"),
        ("a: [", "expected the node content"),
        ("a: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("# " * 600_000, "at most 1048576 are read"),
    ],
)
def test_yaml_that_nobody_wrote_is_refused(text, words, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(text)
    with pytest.raises(Unreadable, match=words):
        read_yaml(path)
    with pytest.raises(RunNotFoundError, match="config.yaml as rightreasons wrote it, but cannot"):
        load_config(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 200_000, b"\xff\xfe", b"", b"{", b"9" * 5000])
def test_json_that_nobody_wrote_is_refused(content, tmp_path):
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(Unreadable):
        read_json(tmp_path / "file.json")


@pytest.mark.parametrize(
    "content",
    [HUGE, TERABYTE, OBJECTS, b"", b"PK\x03\x04", array_file("{"), archive(mask=b"no array")],
)
def test_arrays_that_claim_what_they_are_not_are_refused(content, tmp_path):
    path = tmp_path / "masks.npz"
    path.write_bytes(content)
    with pytest.raises(Unreadable):
        read_arrays(path)
    with pytest.raises(DatasetCorruptError, match="masks.npz as `rightreasons annotate --rest`"):
        with_mask_archive(DATA, path)


def test_an_archive_that_unpacks_to_more_than_it_can_is_refused(tmp_path):
    content = bytearray(archive(mask=array_file("{'descr': '|u1', 'shape': (3,)}", b"abc")))
    place = content.rindex(b"PK\x01\x02")
    content[place + 24 : place + 28] = (2**31).to_bytes(4, "little")  # the size it claims
    (tmp_path / "a.npz").write_bytes(bytes(content))
    with pytest.raises(Unreadable, match="claims 2147483648 bytes, which it has not"):
        read_arrays(tmp_path / "a.npz")


@pytest.mark.parametrize("mask", [np.zeros((4, 8, 8)), np.zeros((4, 8, 8), dtype=bool)])
def test_masks_that_are_no_bytes_are_refused(mask, tmp_path):
    np.savez(tmp_path / "masks.npz", mask=mask, annotated=np.ones(4, dtype=bool))
    with pytest.raises(DatasetCorruptError, match="its masks are (float64|bool), not bytes"):
        with_mask_archive(DATA, tmp_path / "masks.npz")


READERS = {
    "config.yaml": load_config,
    "checkpoint.pt": lambda folder: load_checkpoint(folder / "checkpoint.pt"),
    "model.safetensors": lambda folder: load_tensors(folder / "model.safetensors"),
    "masks.npz": lambda folder: with_mask_archive(DATA, folder / "masks.npz"),
    "results.jsonl": read_rows,
    "figures.yaml": lambda folder: read_figures(folder / "figures.yaml"),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_in_place_of_a_file_is_refused(name, make, tmp_path):
    make(tmp_path / name)
    with pytest.raises(RightReasonsError, match="it is no file"):
        READERS[name](tmp_path)


def test_an_image_that_is_a_pipe_is_refused(tmp_path):
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    os.mkfifo(tmp_path / "b.png")
    rows = [
        f"{name},{label},{split}"
        for split in ("train", "test")
        for name, label in (("a.png", "x"), ("b.png", "y"))
    ]
    (tmp_path / "data.csv").write_text("\n".join(["file,label,split", *rows]))
    with pytest.raises(DatasetCorruptError, match="b.png.*it is no file"):
        rr.datasets.load("folder", data_dir=tmp_path, size=8)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            {"frozen_statistics": "false"},
            "`frozen_statistics` to be True or False, but got 'false'",
        ),
        (
            {"epochs": 1.5},
            "`epochs` to be a whole number or None, but got 1.5. Set it with --epochs",
        ),
        ({"epochs": True}, "`epochs` to be a whole number or None, but got True"),
        ({"lr": "0.1"}, "`lr` to be a number, but got '0.1'"),
        ({"settings": ["weight"]}, r"`settings` to be settings by name, but got \['weight'\]"),
        ({"settings": {1: 2}}, "`settings` to be settings by name"),
        ({"metric_settings": {"rps": 1}}, "`metric_settings` to be settings by name"),
        ({"metrics": "rps"}, "`metrics` to be a list of names or None, but got 'rps'"),
        ({"data_dir": 4}, "`data_dir` to be a word or None, but got 4"),
        ({"recipe": None}, "`recipe` to be a word, but got None"),
    ],
)
def test_a_setting_of_another_type_is_refused_by_name(setting, words, tmp_path):
    with pytest.raises(InvalidSettingError, match=words):
        Config(**{"data": "decoy_digits", **setting})
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data": "decoy_digits", **setting}))
    with pytest.raises(InvalidSettingError, match=f"config.yaml: Expected {words}"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"epochs": 1.5}, "`epochs` to be a whole number or None, but got 1.5"),
        ({"epochs": 10**40}, "`epochs` below 4611686018427387904, but got 1000"),
        ({"seed": 10**40}, "`seed` below 4611686018427387904, but got 1000"),
        ({"batch_size": "8"}, "`batch_size` to be a whole number or None, but got '8'"),
    ],
)
def test_a_fit_refuses_numbers_that_are_none(setting, words):
    with pytest.raises(InvalidSettingError, match=words):
        rr.fit(torch.nn.Linear(4, 2), rr.recipes.erm(), DATA, **{"epochs": 1, **setting})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    small = {
        "model": "mlp",
        "model_settings": {"hidden": [4]},
        "metrics": ["accuracy"],
        "accelerator": "cpu",
    }
    train_run(Config(data="decoy_digits", epochs=1, **small), folder)
    return folder


def test_results_of_another_kind_are_refused(finished, tmp_path):
    for name in ("config.yaml", "results.json"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    assert load_run(tmp_path).results["format"] == 1
    results = json.loads((finished / "results.json").read_text())
    for text in ("[]", "5", json.dumps({**results, "seed": "0"}), json.dumps({"format": 2})):
        (tmp_path / "results.json").write_text(text)
        with pytest.raises(RunNotFoundError, match="results.json, but"):
            load_run(tmp_path)


def test_a_report_leaves_out_what_cannot_be_read(finished, tmp_path):
    for name in ("config.yaml", "results.json"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    (tmp_path / "log.jsonl").write_text("[" * 100_000 + '\n{"epoch": 1}\n')
    (tmp_path / "examples.npz").write_bytes(array_file("{'descr': '|u1', 'shape': ()}"))
    os.mkfifo(tmp_path / "certificate.json")
    record = read_record(tmp_path)
    assert (len(record.history), record.examples, record.certificate) == (1, None, None)


@pytest.mark.parametrize("key", ["model", "position", "processes", "settings", "optimizer"])
@pytest.mark.parametrize("value", [None, 5, [], {}, {"a": 1}])
def test_a_checkpoint_with_a_damaged_part_is_refused(key, value, finished, tmp_path):
    saved = load_checkpoint(finished / "checkpoint.pt")
    torch.save({**saved, key: value}, tmp_path / "checkpoint.pt")
    config = load_config(finished)
    (tmp_path / "config.yaml").write_bytes((finished / "config.yaml").read_bytes())
    with pytest.raises(rr.errors.CheckpointMismatchError):
        train_run(config, tmp_path, resume=True)


def test_damaged_rows_of_a_suite_do_not_count(tmp_path, caplog):
    good = {"address": "a", "config": {}, "data_sha256": "b", "finished": "c", "results": {}}
    bad = [{}, {**good, "address": 5}, {**good, "results": []}, {**good, "results": {"metrics": 5}}]
    lines = [json.dumps(row) for row in (*bad, good)] + ["[" * 100_000, ""]
    (tmp_path / "results.jsonl").write_text("\n".join(lines))
    assert [row.address for row in read_rows(tmp_path)] == ["a"]


@pytest.mark.parametrize("size", ["abc", "-5", "9" * 40, ""])
def test_a_mirror_may_say_anything_about_its_size(size, tmp_path, monkeypatch):
    class Response(io.BytesIO):
        headers = {"Content-Length": size}

    module = "rightreasons.datasets.download.urllib.request.urlopen"
    monkeypatch.setattr(module, lambda *_, **__: Response(b"content"))
    digest = "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"
    download(["http://mirror/file"], tmp_path / "file", sha256=digest)
    assert Path(tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize(
    "text", ["", "[]", "source: a", "source: a\nfigures: {a: {b: {c: {mean: x}}}}", BOMB]
)
def test_figures_that_are_none_are_refused(text, tmp_path):
    (tmp_path / "figures.yaml").write_text(text)
    with pytest.raises(InvalidSettingError, match="Expected `source` and `figures` by variant"):
        read_figures(tmp_path / "figures.yaml")
