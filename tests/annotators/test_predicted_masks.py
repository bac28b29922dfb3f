import numpy as np
import pytest
import torch

import rightreasons as rr
from rightreasons.annotators import annotate_rest, mask_uncertainty
from rightreasons.annotators import predicted_masks as module
from rightreasons.annotators.predicted_masks import fill_masks, read_or_predict
from rightreasons.datasets import Augmented, InMemory, MaskBits
from rightreasons.errors import InvalidBatchError, InvalidSettingError

ROWS = np.arange(6, dtype=np.uint8).reshape(2, 3)
KEYS = {"annotator": "a" * 64, "data": "d" * 64, "shape": (2, 3)}


def refuse():
    raise AssertionError("predicted again")


def test_predicted_once(tmp_path):
    folder = tmp_path / "new"
    assert np.array_equal(read_or_predict(folder, **KEYS, make=lambda: ROWS), ROWS)
    assert [path.name for path in folder.iterdir()] == [f"masks-{'a' * 12}-{'d' * 12}.npz"]
    assert np.array_equal(read_or_predict(folder, **KEYS, make=refuse), ROWS)
    other = read_or_predict(folder, **{**KEYS, "annotator": "b" * 64}, make=lambda: ROWS + 1)
    assert np.array_equal(other, ROWS + 1)
    assert np.array_equal(read_or_predict(folder, **KEYS, make=refuse), ROWS)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "packing", "other hash", "other shape"])
def test_damaged_or_other_files_are_made_anew(tmp_path, damage, caplog):
    read_or_predict(tmp_path, **KEYS, make=lambda: ROWS)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    keys = dict(KEYS)
    if damage == "other hash":  # with the same first letters
        keys["data"] = "d" * 12 + "e" * 52
    elif damage == "other shape":
        np.savez(path, rows=ROWS[:1], annotator=KEYS["annotator"], data=KEYS["data"])
    elif damage == "packing":  # the first packed byte; before it, 30 bytes, a name, an extra field
        start = 30 + int.from_bytes(whole[26:28], "little") + int.from_bytes(whole[28:30], "little")
        path.write_bytes(whole[:start] + b"\xff" + whole[start + 1 :])
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "empty": b"", "text": b"hello"}[damage])
    assert np.array_equal(read_or_predict(tmp_path, **keys, make=lambda: ROWS + 1), ROWS + 1)
    assert "are damaged or of other data: predicted anew" in caplog.text
    assert np.array_equal(read_or_predict(tmp_path, **keys, make=refuse), ROWS + 1)


def test_every_sample_has_a_mask_and_hand_is_told_from_machine(fitted):
    annotator, data = fitted
    batch = annotate_rest(data, annotator=annotator).take(torch.arange(24))
    assert torch.equal(batch.annotated, data.batch.annotated)
    assert torch.equal(batch.mask[:10], data.batch.mask[:10])
    predicted = annotator.masks(data.batch.x)
    assert (batch.mask[10:] - predicted[10:]).abs().max() <= 0.5 / 255 + 1e-6
    assert batch.guided.all()


def test_masks_that_are_unsure_count_less(fitted):
    annotator, data = fitted
    plain, weighed = (
        annotate_rest(data, annotator=annotator, weight_by_confidence=flag).batch.mask
        for flag in (False, True)
    )
    assert torch.equal(plain[:10], weighed[:10])
    factor = 1 - mask_uncertainty(plain[10:])
    torch.testing.assert_close(weighed[10:], plain[10:] * factor.reshape(-1, 1, 1, 1))
    with pytest.raises(InvalidSettingError, match="Expected `weight_by_confidence` to be True"):
        annotate_rest(data, annotator=annotator, weight_by_confidence=1)


@pytest.mark.parametrize("term", [rr.objectives.R3(), rr.objectives.ReFF(layers="0")])
def test_terms_use_both(fitted, term):
    annotator, data = fitted
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.Softplus(), torch.nn.Flatten(), torch.nn.Linear(108, 2)
    )
    batch = annotate_rest(data, annotator=annotator).batch
    losses = term(rr.Probe(net, batch, needs_gradient=True, layers=term.layers))
    assert (losses[~batch.annotated] > 0).any()


def test_predictions_are_cached_under_both_hashes(fitted, tmp_path, monkeypatch):
    annotator, data = fitted
    first = annotate_rest(data, annotator=annotator, cache_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    assert path.name == f"masks-{annotator.digest()[:12]}-{data.digest()[:12]}.npz"
    monkeypatch.setattr(module, "predict_rows", lambda *_: pytest.fail("predicted again"))
    again = annotate_rest(data, annotator=annotator, cache_dir=tmp_path)
    assert torch.equal(first.batch.mask, again.batch.mask)
    assert first.digest() == again.digest() != data.digest()


def test_masks_of_augmented_images_move_with_them(fitted):
    annotator, data = fitted
    moving = Augmented(data, flip=True, crop=1, seed=5)
    filled = annotate_rest(moving, annotator=annotator)
    still = annotate_rest(data, annotator=annotator)
    twin = Augmented(still, flip=True, crop=1, seed=5)
    rows = torch.arange(24)
    assert torch.equal(filled.at_epoch(2).take(rows).mask, twin.at_epoch(2).take(rows).mask)


def test_masks_of_other_channels_are_filled_in(fitted):
    annotator, data = fitted
    wide = data.batch.replace(mask=data.batch.mask[..., :1])  # one column for the whole row
    assert annotate_rest(InMemory(wide), annotator=annotator).batch.mask.shape == (24, 1, 8, 8)


def test_masks_of_other_data_are_refused(fitted):
    bits = MaskBits(np.zeros((3, 64), dtype=np.uint8), size=(8, 8), soft=True)
    with pytest.raises(InvalidBatchError, match="Expected a mask for each of 24 images"):
        fill_masks(fitted[1], bits, key="none")
