import numpy as np
import pytest
import torch
from PIL import Image

import rightreasons as rr
from rightreasons.annotators import annotate_rest, with_mask_archive
from rightreasons.annotators.mask_files import write_masks
from rightreasons.datasets import Augmented, InMemory, Selected
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError


def test_all_masks_are_written(fitted, tmp_path):
    annotator, data = fitted
    filled = annotate_rest(data, annotator=annotator)
    write_masks(tmp_path / "masks.npz", filled)
    with np.load(tmp_path / "masks.npz") as kept:
        assert sorted(kept) == ["annotated", "mask"]
        assert kept["mask"].shape == (24, 8, 8)
        assert np.abs(kept["mask"] / 255 - filled.batch.mask[:, 0].numpy()).max() < 0.003
        assert np.array_equal(kept["annotated"], data.batch.annotated.numpy())


def test_what_was_written_is_put_on_the_data(fitted, make_squares, tmp_path):
    annotator, data = fitted
    filled = annotate_rest(data, annotator=annotator)
    write_masks(tmp_path / "masks.npz", filled)
    plain = InMemory(rr.Batch(x=data.batch.x, y=data.batch.y))
    read = with_mask_archive(plain, tmp_path / "masks.npz")
    batch = read.take(torch.arange(24))
    torch.testing.assert_close(batch.mask, filled.batch.mask, atol=0.002, rtol=0)
    assert torch.equal(batch.annotated, data.batch.annotated)
    assert batch.guided.all()
    moved = with_mask_archive(Augmented(plain, crop=2), tmp_path / "masks.npz")
    assert isinstance(moved, Augmented)
    again = with_mask_archive(data, tmp_path / "masks.npz")
    assert torch.equal(again.take(torch.arange(24)).mask, batch.mask)


def test_archives_that_do_not_fit_are_refused(fitted, tmp_path):
    annotator, data = fitted
    path = tmp_path / "masks.npz"
    with pytest.raises(DatasetNotFoundError, match="no such file. Write it with `rightreasons ann"):
        with_mask_archive(data, path)
    path.write_text("no archive")
    with pytest.raises(DatasetCorruptError, match="--rest` wrote it, but cannot read it"):
        with_mask_archive(data, path)
    np.savez(path, other=np.zeros(3))
    with pytest.raises(DatasetCorruptError, match="--rest` wrote it, but cannot read it"):
        with_mask_archive(data, path)
    write_masks(path, annotate_rest(data, annotator=annotator))
    some = Selected(data, torch.arange(5))
    with pytest.raises(DatasetCorruptError, match=r"masks of \(5, 8, 8\).*but got \(24, 8, 8\)"):
        with_mask_archive(some, path)


def test_archives_of_other_files_are_refused(tmp_path):
    rows = ["file,label,split"]
    for number, split in enumerate(["train"] * 3 + ["test"] * 2):
        for name in (f"i{number}.png", f"m{number}.png"):
            pixels = np.eye(8, dtype=np.uint8)[..., None].repeat(3, axis=2) * 255
            Image.fromarray(pixels).save(tmp_path / name)
        rows.append(f"i{number}.png,{'ab'[number % 2]},{split},m{number}.png")
    (tmp_path / "data.csv").write_text("\n".join([f"{rows[0]},mask", *rows[1:]]))
    settings = {"mask_polarity": "irrelevant", "workers": 0}
    data = rr.datasets.folder(tmp_path, in_memory=False, **settings).train
    write_masks(tmp_path / "masks.npz", data)
    for same in (data, rr.datasets.folder(tmp_path, in_memory=True, **settings).train):
        read = with_mask_archive(same, tmp_path / "masks.npz").take(torch.arange(3))
        assert torch.equal(read.mask, data.take(torch.arange(3)).mask)
    turned = Selected(data, torch.tensor([0, 2, 1]))
    with pytest.raises(DatasetCorruptError, match=r"where these have i2\.png it has i1\.png\. Use"):
        with_mask_archive(turned, tmp_path / "masks.npz")
