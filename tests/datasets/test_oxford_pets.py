import pytest
import torch
from tests.conftest import DATA_DIR
from tests.datasets.miniature import pet_archive, pet_folder, pet_rows

from rightreasons.datasets import oxford_pets
from rightreasons.errors import DatasetCorruptError, DatasetNotFoundError

SIZE = {"size": 6, "validation_share": 0.25}


@pytest.mark.parametrize("write", [pet_archive, pet_folder])
def test_masks_are_what_is_not_animal(tmp_path, write):
    write(tmp_path)
    data = oxford_pets(tmp_path, **SIZE)
    batch = data.test.take(torch.arange(len(data.test)))
    assert not batch.mask[..., :2].any()
    assert batch.mask[..., 2:].all()
    free = oxford_pets(tmp_path, border="free", **SIZE).test.take(torch.arange(1))
    assert not free.mask[..., :4].any()
    assert free.mask[..., 4:].all()


@pytest.mark.parametrize("write", [pet_archive, pet_folder])
def test_labels_and_official_parts(tmp_path, write):
    write(tmp_path)
    data = oxford_pets(tmp_path, **SIZE)
    rows = [row for row in pet_rows() if not row[3]]
    assert sorted(data.test.labels.tolist()) == sorted(row[1] for row in rows)
    assert (len(data.train), len(data.val), len(data.test)) == (14, 4, 6)
    assert data.card.classes == ("Abyssinian", "Bengal", "shiba_inu")
    assert torch.equal(data.test.groups, (data.test.labels == 2).long())
    species = oxford_pets(tmp_path, task="species", **SIZE)
    assert species.card.classes == ("cat", "dog")
    assert torch.equal(species.test.labels, species.test.groups)
    assert oxford_pets(tmp_path, size=6, validation_share=0).val is None


def test_both_forms_hold_the_same(tmp_path):
    for name, write in (("a", pet_archive), ("b/oxford-iiit-pet", pet_folder)):
        (tmp_path / name).mkdir(parents=True)
        write(tmp_path / name)
    archive, folder = (oxford_pets(tmp_path / name, size=12) for name in ("a", "b"))
    for one in (archive, folder):
        order = one.test.pixels.float().mean(dim=(1, 2, 3)).argsort()
        one.test.pixels = one.test.pixels[order]
    assert torch.equal(archive.test.pixels, folder.test.pixels)


def test_files_that_are_missing_or_damaged(tmp_path):
    with pytest.raises(DatasetNotFoundError, match="found neither annotations/trainval.txt"):
        oxford_pets(tmp_path)
    pet_folder(tmp_path)
    (tmp_path / "annotations" / "trimaps" / "Bengal_1.png").write_bytes(b"nothing")
    with pytest.raises(DatasetCorruptError, match="an image and a trimap of Bengal_1"):
        oxford_pets(tmp_path, **SIZE)
    (tmp_path / "annotations" / "test.txt").write_text("Bengal_1 2\n")
    with pytest.raises(DatasetCorruptError, match="a name and three numbers, but got 'Bengal_1 2'"):
        oxford_pets(tmp_path, **SIZE)
    (tmp_path / "annotations" / "test.txt").unlink()
    with pytest.raises(DatasetNotFoundError, match="test.txt beside"):
        oxford_pets(tmp_path, **SIZE)


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA_DIR / "pets_128.npz").exists(), reason=f"no pets_128.npz in {DATA_DIR}"
)
def test_the_real_thing():
    data = oxford_pets(DATA_DIR, size=16)
    assert (len(data.train), len(data.val), len(data.test)) == (3312, 368, 3669)
    assert len(data.card.classes) == 37
    inside = data.train.mask[:, 0, 6:10, 6:10].float().mean()
    border = data.train.mask[:, 0, [0, 15]].float().mean()
    assert inside < 0.3 < 0.8 < border
