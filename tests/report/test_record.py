import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from rightreasons.certification import Certificate, model_digest
from rightreasons.errors import InvalidSettingError, RunNotFoundError
from rightreasons.report.record import read_record, read_records


def test_reads_everything_a_run_left(make_run):
    record = read_record(make_run("r3", 0.75, seed=3))
    assert record.seed == record.data_seed == 3
    assert record.card.classes == ("benign", "malignant")
    assert record.card.shape == (1, 10, 10)
    assert record.metrics()["group_accuracy/worst"] == 0.75
    assert [row["epoch"] for row in record.history] == [1, 2, 3, 4]
    assert record.examples is not None
    assert set(record.examples) >= {"x", "mask"}


def test_missing_log_and_examples_are_no_fault(make_run):
    record = read_record(make_run(log=None, kept=None))
    assert record.history == ()
    assert record.examples is None


def test_a_log_cut_short_is_read_as_far_as_it_goes(make_run):
    folder = make_run()
    text = (folder / "log.jsonl").read_text()
    (folder / "log.jsonl").write_text(text[:-20] + "\n[1]\n")
    assert len(read_record(folder).history) == 3


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut"])
def test_broken_examples_count_as_missing(make_run, content):
    folder = make_run()
    (folder / "examples.npz").write_bytes(content)
    assert read_record(folder).examples is None


def test_examples_that_would_run_code_are_not_loaded(make_run):
    folder = make_run(kept=None)
    np.savez(folder / "examples.npz", x=np.array([object()], dtype=object))
    assert read_record(folder).examples is None


def test_examples_of_another_kind_of_file_count_as_missing(make_run):
    folder = make_run(kept=None)
    with (folder / "examples.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    assert read_record(folder).examples is None


def test_what_is_no_finite_number_was_not_measured(make_run):
    test = {"accuracy": float("nan"), "swap_accuracy": "0.9", "calibration_error": 0.1, "ok": True}
    assert read_record(make_run(test=test)).metrics() == {"calibration_error": 0.1}
    assert read_record(make_run(metrics={"test": [1]})).metrics() == {}


def test_a_card_of_other_types_is_read_as_far_as_possible(make_run):
    card = {"name": 3, "classes": "ab", "shape": ["x"], "valid_range": [0], "unknown": 1}
    found = read_record(make_run(card=card, kept=None)).card
    assert (found.name, found.classes, found.shape) == ("3", (), ())
    assert found.valid_range == (0.0, 1.0)


@pytest.mark.parametrize("runs", [[], (), "runs/erm"])
def test_no_runs(runs):
    with pytest.raises(InvalidSettingError, match="Expected `runs` to be at least one folder"):
        read_records(runs)


def test_a_folder_given_twice_is_read_once(make_run):
    folder = make_run()
    assert len(read_records([folder, f"{folder}/../{folder.name}"])) == 1


def test_one_problem_is_told_as_it_is(make_run, tmp_path):
    with pytest.raises(RunNotFoundError, match="nowhere, but it has no config"):
        read_records([make_run(), tmp_path / "nowhere"])


def test_several_problems_are_told_at_once(make_run, tmp_path):
    unfinished, ok = make_run("r3"), make_run()
    (unfinished / "results.json").unlink()
    with pytest.raises(RunNotFoundError, match="Expected 3 finished runs, but 2") as caught:
        read_records([ok, tmp_path / "nowhere", unfinished])
    assert "nowhere, but it has no config.yaml" in str(caught.value)
    assert f"{unfinished}, but it has no results.json" in str(caught.value)


@pytest.mark.parametrize(
    ("file", "text"),
    [("results.json", "{"), ("config.yaml", "a: [1"), ("config.yaml", ""), ("config.yaml", "1")],
)
def test_files_that_cannot_be_read(make_run, file, text):
    folder = make_run()
    (folder / file).write_text(text)
    with pytest.raises(RunNotFoundError, match="as rightreasons wrote it, but cannot read it"):
        read_record(folder)


def test_a_file_instead_of_a_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunNotFoundError, match="file, but it"):
        read_record(tmp_path / "file")


@pytest.mark.parametrize(("text", "found"), [('{"format": 7}', "7"), ("[]", "list")])
def test_results_of_another_format(make_run, text, found):
    folder = make_run()
    (folder / "results.json").write_text(text)
    with pytest.raises(RunNotFoundError, match=f"format 1 in .*results.json, but got {found}"):
        read_record(folder)


def test_results_that_lack_keys(make_run):
    folder = make_run()
    told = json.loads((folder / "results.json").read_text())
    del told["recipe"]
    (folder / "results.json").write_text(json.dumps(told | {"card": [], "seed": "0"}))
    with pytest.raises(RunNotFoundError, match="missing or of another type: recipe, seed, card"):
        read_record(folder)


def test_a_certificate_counts_as_long_as_it_is_of_the_weights(make_run):
    folder = make_run()
    assert read_record(folder).certificate is None
    weights = {"weight": torch.ones(2)}
    certificate = Certificate(
        samples=(),
        settings={"epsilon": None},
        model_sha256=model_digest(weights),
        data_sha256="",
    )
    certificate.to_json(folder / "certificate.json")
    assert read_record(folder).certificate is None  # nobody knows of which weights it is
    save_file(weights, folder / "model.safetensors")
    assert read_record(folder).certificate == certificate
    save_file({"weight": torch.zeros(2)}, folder / "model.safetensors")
    assert read_record(folder).certificate is None
    (folder / "model.safetensors").write_text("no weights")
    assert read_record(folder).certificate is None
    (folder / "certificate.json").write_text("{")
    assert read_record(folder).certificate is None
