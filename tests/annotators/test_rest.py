import numpy as np
import pytest
import torch

import rightreasons as rr
from rightreasons.annotators import annotate_rest, mask_uncertainty
from rightreasons.annotators import predicted_masks as module
from rightreasons.annotators.predicted_masks import with_predicted
from rightreasons.datasets import Augmented, InMemory, MaskBits
from rightreasons.errors import InvalidBatchError, InvalidSettingError


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
    monkeypatch.setattr(module, "predicted_rows", lambda *_: pytest.fail("predicted again"))
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
        with_predicted(fitted[1], bits, key="none")
