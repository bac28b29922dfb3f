"""Every entrance, fed with anything: an error of this library or a result, soon, and no traceback.

`make fuzz CASES=5000` runs more cases of each.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import sys

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import rightreasons as rr
from rightreasons.annotators.mask_files import with_mask_archive, write_masks
from rightreasons.benchmark.measure import read_figures
from rightreasons.benchmark.store import read_rows
from rightreasons.certification import Certificate
from rightreasons.cli import commands
from rightreasons.core.files import load_weights_into
from rightreasons.datasets import as_dataset
from rightreasons.errors import RightReasonsError
from rightreasons.report.record import read_record
from rightreasons.run.run import Config, certify_run, load_config, load_run, train_run

CASES = int(os.environ.get("RIGHTREASONS_FUZZ_CASES", "25"))
SECONDS = 20
MASKED = as_dataset(
    rr.Batch(x=torch.rand(4, 1, 8, 8), y=torch.arange(4) % 2, mask=torch.zeros(4, 1, 8, 8))
)
CASE_SETTINGS = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=CASES <= 25,
    database=None,
    suppress_health_check=list(HealthCheck),
)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([10**40, -1, 0, "", "[/b]", "auto", "9" * 60]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
edits = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 3), st.binary(min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)


def damage(content, changes):
    """Overwrite, insert, cut off or cut out bytes of a good file."""
    data = bytearray(content)
    for place, kind, new in changes:
        place %= len(data) + 1
        if kind == 0:
            data[place : place + len(new)] = new
        elif kind == 1:
            data[place:place] = new
        elif kind == 2:
            del data[place:]
        else:
            del data[place : place + 40]
    return bytes(data)


def replace_value(values, keys, new):
    """Put a value at some place of nested dictionaries."""
    copied = json.loads(json.dumps(values))
    target = copied
    for key in keys[:-1]:
        below = target[sorted(target)[key % len(target)]] if target else None
        if not isinstance(below, dict) or not below:
            break
        target = below
    if target:
        target[sorted(target)[keys[-1] % len(target)]] = new
    return copied


@contextlib.contextmanager
def at_most(seconds):
    def stop(*_):
        raise TimeoutError(f"no answer within {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def call(function, *arguments):
    """Call, and let errors of this library pass."""
    with at_most(SECONDS), contextlib.suppress(RightReasonsError):
        function(*arguments)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder with a good file of each kind."""
    folder = tmp_path_factory.mktemp("good") / "run"
    small = {
        "model": "mlp",
        "model_settings": {"hidden": [4]},
        "metrics": ["accuracy"],
        "accelerator": "cpu",
    }
    config = Config(data="decoy_digits", epochs=1, **small)
    results = train_run(config, folder)
    certify_run(folder, epsilon=0.01, method="ibp")
    write_masks(folder / "masks.npz", MASKED)
    row = {"address": "a", "config": {}, "data_sha256": "b", "finished": "c", "results": results}
    (folder / "results.jsonl").write_text(json.dumps(row) + "\n")
    figures = {"source": "a", "figures": {"v": {"m": {"accuracy": {"mean": 0.5}}}}}
    (folder / "figures.yaml").write_text(yaml.safe_dump(figures))
    return folder


@pytest.fixture(scope="module")
def scratch(good, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scratch") / "run"
    shutil.copytree(good, folder)
    return folder


def resume(folder):
    config = load_config(folder)
    train_run(config, folder, resume=True, progress=False)


READERS = {
    "config.yaml": load_config,
    "results.json": read_record,
    "log.jsonl": read_record,
    "examples.npz": read_record,
    "certificate.json": lambda folder: Certificate.from_json(folder / "certificate.json"),
    "checkpoint.pt": resume,
    "model.safetensors": lambda folder: load_weights_into(
        load_run(folder).config.build_model(MODEL_DATA), folder / "model.safetensors"
    ),
    "masks.npz": lambda folder: with_mask_archive(MASKED, folder / "masks.npz"),
    "results.jsonl": read_rows,
    "figures.yaml": lambda folder: read_figures(folder / "figures.yaml"),
}
MODEL_DATA = rr.datasets.load("decoy_digits", seed=0)


@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes(name, good, scratch):
    content = (good / name).read_bytes()

    @CASE_SETTINGS
    @given(edits)
    def check(changes):
        (scratch / name).write_bytes(damage(content, changes))
        call(READERS[name], scratch)

    try:
        check()
    finally:
        shutil.copyfile(good / name, scratch / name)
    assert {path.name for path in scratch.parent.iterdir()} == {"run"}


@pytest.mark.parametrize(
    "name", ["config.yaml", "results.json", "certificate.json", "results.jsonl", "figures.yaml"]
)
def test_values_of_another_type(name, good, scratch):
    values = yaml.safe_load((good / name).read_text())

    @CASE_SETTINGS
    @given(st.lists(st.integers(0, 99), min_size=1, max_size=4), plain)
    def check(keys, new):
        changed = replace_value(values, keys, new)
        dump = yaml.safe_dump if name.endswith("yaml") else json.dumps
        (scratch / name).write_text(dump(changed) + "\n", errors="replace")
        call(READERS[name], scratch)

    try:
        check()
    finally:
        shutil.copyfile(good / name, scratch / name)


@CASE_SETTINGS
@given(st.dictionaries(st.sampled_from(["x", "y", "mask", "index", "a"]), st.integers(0, 5)))
def test_arrays_of_any_shape(tmp_path_factory, shapes):
    path = tmp_path_factory.mktemp("arrays") / "masks.npz"
    np.savez(path, **{name: np.zeros((size,) * (size % 3)) for name, size in shapes.items()})
    call(with_mask_archive, MASKED, path)


cells = st.sampled_from(
    ["a.png", "b.png", "../a.png", "/dev/zero", "pipe", "0", "train", "test", ""]
)


@CASE_SETTINGS
@given(
    st.lists(st.sampled_from(["file", "label", "split", "group", "mask", "", "x"]), max_size=6),
    st.lists(st.lists(cells | st.text(max_size=6), max_size=6), max_size=6),
    st.binary(max_size=300),
)
def test_a_folder_of_images(tmp_path_factory, header, rows, image):
    folder = tmp_path_factory.mktemp("images")
    Image.new("L", (8, 8)).save(folder / "a.png")
    (folder / "b.png").write_bytes(image)
    os.mkfifo(folder / "pipe")
    lines = [",".join(row) for row in (header or ["file", "label", "split"], *rows)]
    (folder / "data.csv").write_text("\n".join(lines), errors="replace")
    call(lambda: rr.datasets.load("folder", data_dir=folder, size=8))


words = st.sampled_from(
    ["--out", "--data", "--set", "--metrics", "--epochs", "--seed", "--recipe", "self=1", "-1", ""]
    + ["weight=[[[", "[/b]", "9" * 40, "x" * 5000, ",", "nothing", "--resume", "--json", "--next"]
) | st.text(max_size=8)
names = st.sampled_from(
    ["train", "evaluate", "report", "explain", "certify", "annotate", "list", "bench", "demoo"]
)


@CASE_SETTINGS
@given(names, st.lists(words, max_size=5))
def test_arguments_of_the_command_line(tmp_path_factory, command, arguments):
    folder = tmp_path_factory.mktemp("arguments")
    before, argv, quiet = os.getcwd(), sys.argv, io.StringIO()
    os.chdir(folder)
    sys.argv = ["rightreasons", command, *arguments]
    try:
        with at_most(SECONDS), contextlib.redirect_stderr(quiet), contextlib.redirect_stdout(quiet):
            commands.main()
    except SystemExit as stop:
        assert stop.code in (0, 2), quiet.getvalue()
    finally:
        os.chdir(before)
        sys.argv = argv
