import numpy as np
import pytest
import torch
from PIL import Image

import rightreasons as rr
from rightreasons.annotators import annotate_rest, with_mask_archive
from rightreasons.annotators.mask_files import file_names, with_mask_files, write_masks
from rightreasons.datasets import Augmented, InMemory, Selected
from rightreasons.datasets.wrappers import ChangedMasks
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError, InvalidSettingError


@pytest.fixture
def masks(tmp_path):
    """White in the upper half, for samples 3 and 5."""
    pixels = np.zeros((16, 16), dtype=np.uint8)
    pixels[:8] = 255
    for name in ("3", "5", "unknown"):
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    return tmp_path


@pytest.mark.parametrize(
    ("polarity", "inside"), [("irrelevant", slice(0, 4)), ("relevant", slice(4, 8))]
)
def test_masks_called_as_places(make_squares, masks, polarity, inside):
    data = make_squares()
    found = with_mask_files(Augmented(data, flip=True), masks, polarity=polarity)
    batch = found.take(torch.arange(24))
    assert batch.annotated.nonzero().flatten().tolist() == [3, 5]
    assert batch.guided.nonzero().flatten().tolist() == [3, 5]
    expected = torch.zeros(8, 8)
    expected[inside] = 1
    assert torch.equal(batch.mask[5, 0], expected)
    assert found.has_masks and found.digest() != data.digest()
    assert torch.equal(found.at_epoch(1).take(torch.tensor([5])).mask, batch.mask[5:6])


def test_masks_move_with_augmented_images(make_squares, masks):
    x = torch.zeros(24, 1, 8, 8)
    x[:, :, :4] = 1  # as the masks
    data = Augmented(InMemory(make_squares().batch.replace(x=x)), crop=2, seed=3)
    same = ChangedMasks(data, lambda mask, annotated, _: (mask, annotated), key="same")
    for given in (data, same):
        found = with_mask_files(given, masks, polarity="irrelevant")
        seen = found.at_epoch(1).take(torch.tensor([3, 5]))
        assert torch.equal(seen.mask, seen.x)
        assert not torch.equal(seen.x, x[:2])


def test_masks_called_as_files(tmp_path):
    rows = ["file,label,split"]
    for number, split in enumerate(["train"] * 3 + ["test"] * 2):
        Image.fromarray(np.full((8, 8, 3), number, dtype=np.uint8)).save(
            tmp_path / f"i{number}.png"
        )
        rows.append(f"i{number}.png,{'ab'[number % 2]},{split}")
    (tmp_path / "data.csv").write_text("\n".join(rows))
    data = rr.datasets.folder(tmp_path, in_memory=False, workers=0).train
    assert file_names(data) == ["i0.png", "i1.png", "i2.png"]
    assert file_names(Selected(Augmented(data), torch.tensor([2]))) == ["i2.png"]
    (tmp_path / "masks").mkdir()
    Image.fromarray(np.full((8, 8), 255, dtype=np.uint8)).save(tmp_path / "masks" / "i1.png")
    found = with_mask_files(data, tmp_path / "masks", polarity="irrelevant")
    assert found.take(torch.arange(3)).mask.mean(dim=(1, 2, 3)).tolist() == [0, 1, 0]


def written(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), 255, dtype=np.uint8)).save(root / name)


@pytest.fixture
def classes(tmp_path):
    """Images in folders of their classes, two of them of the same name, and no masks."""
    files = ["images/a/001.png", "images/b/001.png", "images/b/002.v1.png"]
    written(tmp_path, *files, "images/a/3.png")
    rows = [f"{file},{file[7]},train" for file in files] + ["images/a/3.png,a,test"]
    (tmp_path / "data.csv").write_text("\n".join(["file,label,split", *rows]))
    return rr.datasets.folder(tmp_path, in_memory=False, workers=0).train


def test_masks_in_folders_as_the_images_are(classes, tmp_path, caplog):
    for number, root in enumerate(["", "images/"]):
        masks = tmp_path / f"masks-{number}"
        written(masks, f"{root}b/001.JPG", f"{root}b/002.v1.PNG")
        found = with_mask_files(classes, masks, polarity="irrelevant")
        assert found.take(torch.arange(3)).annotated.tolist() == [False, True, True]
    assert not caplog.messages


def test_files_that_are_not_used_are_told(classes, tmp_path, caplog):
    masks = tmp_path / "masks"
    written(masks, "002.v1.png", "3.png", ".hidden.png", *(f"x{n}.png" for n in range(5)))
    (masks / "b").mkdir()
    (masks / "b" / "001.xcf").write_text("a drawing")
    found = with_mask_files(classes, masks, polarity="irrelevant")
    assert found.take(torch.arange(3)).annotated.tolist() == [False, False, True]
    (told,) = caplog.messages
    assert told.startswith(f"7 of 8 files in {masks} are called as none of the 3 images (or are")
    assert told.endswith("not used: 3.png, b/001.xcf, x0.png, x1.png, x2.png, ….")


def test_masks_that_fit_several_images_and_images_of_several_masks(classes, tmp_path):
    masks = tmp_path / "masks"
    written(masks, "001.png")
    words = r"001\.png to be called as one image, but 2 are called so: images/a/001.png, images/b"
    with pytest.raises(DatasetCorruptError, match=words + r".*such as .*masks/images/a/001\.png"):
        with_mask_files(classes, masks, polarity="irrelevant")
    (masks / "001.png").unlink()
    written(masks, "b/001.png", "b/001.bmp")
    with pytest.raises(
        DatasetCorruptError, match=r"one mask for the image .*b/001.png, but got .*"
    ):
        with_mask_files(classes, masks, polarity="irrelevant")


def test_images_in_memory_have_no_files(make_squares):
    assert file_names(make_squares()) is None
    assert file_names(Selected(make_squares(), torch.tensor([1]))) is None


def test_problems_are_told(make_squares, masks, tmp_path):
    data = make_squares()
    with pytest.raises(InvalidSettingError, match="Expected `polarity` to be 'irrelevant' or 'rel"):
        with_mask_files(data, masks, polarity="white")
    with pytest.raises(DatasetNotFoundError, match=r"a folder with masks at .*nowhere, but there"):
        with_mask_files(data, tmp_path / "nowhere", polarity="relevant")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DatasetNotFoundError, match=r"such as 0\.png, but it is empty"):
        with_mask_files(data, tmp_path / "empty", polarity="relevant")
    written(tmp_path / "others", "cat.png")
    words = r"but none of its 1 files is: cat\.png\. Images in memory.*in_memory=False keeps"
    with pytest.raises(DatasetNotFoundError, match=words):
        with_mask_files(data, tmp_path / "others", polarity="relevant")
    (masks / "3.png").write_bytes(b"no image")
    with pytest.raises(DatasetCorruptError, match=r"Expected a mask in .*3\.png, but it"):
        with_mask_files(data, masks, polarity="relevant")
    table = InMemory(rr.Batch(x=torch.rand(4, 3), y=torch.tensor([0, 1, 0, 1])))
    with pytest.raises(InvalidSettingError, match=r"Expected images of shape \(C, H, W\) to read"):
        with_mask_files(table, masks, polarity="relevant")


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


def test_masks_of_another_shape_are_not_squashed(make_squares, tmp_path):
    Image.fromarray(np.full((8, 16), 255, dtype=np.uint8)).save(tmp_path / "3.png")
    words = "3.png, but it has 8x16 pixels, but its image has 8x8; draw it on the image"
    with pytest.raises(DatasetCorruptError, match=words):
        with_mask_files(make_squares(), tmp_path, polarity="irrelevant")


def test_masks_of_files_have_the_size_of_the_file_or_of_the_data(tmp_path):
    (tmp_path / "masks").mkdir()
    rows = ["file,label,split"]
    for number, split in enumerate(["train", "train", "test", "test"]):
        image = np.full((12, 24, 3), number, dtype=np.uint8)
        Image.fromarray(image).save(tmp_path / f"i{number}.png")
        rows.append(f"i{number}.png,{'ab'[number % 2]},{split}")
    (tmp_path / "data.csv").write_text("\n".join(rows))
    data = rr.datasets.folder(tmp_path, size=8, in_memory=False, workers=0).train
    for size in ((12, 24), (8, 8)):
        Image.fromarray(np.full(size, 255, dtype=np.uint8)).save(tmp_path / "masks" / "i1.png")
        found = with_mask_files(data, tmp_path / "masks", polarity="irrelevant")
        assert found.take(torch.tensor([1])).mask.mean().item() == 1
    Image.fromarray(np.full((24, 24), 255, dtype=np.uint8)).save(tmp_path / "masks" / "i1.png")
    with pytest.raises(DatasetCorruptError, match="has 24x24 pixels, but its image has 12x24"):
        with_mask_files(data, tmp_path / "masks", polarity="irrelevant")
