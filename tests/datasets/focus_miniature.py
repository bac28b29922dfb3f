"""Miniature files for the data sets with outlines, textures and artefacts."""

import csv
import io
import json
import zipfile

import numpy as np
from PIL import Image


def encoded(pixels, kind="JPEG", **options):
    content = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(content, kind, **options)
    return content.getvalue()


def jpeg_columns(images):
    """The arrays ``jpeg`` and ``offsets`` of an archive."""
    contents = [np.frombuffer(encoded(image, quality=95), dtype=np.uint8) for image in images]
    return {"jpeg": np.concatenate(contents), "offsets": np.cumsum([0, *map(len, contents)])}


def texture_archive(root, *, per_class=6, side=40):
    """Ten classes; every texture of a class is of its own grey, with noise."""
    rng = np.random.default_rng(20)
    labels = np.repeat(np.arange(10), per_class)
    images = [20 * label + rng.integers(0, 12, size=(side, side, 3)) for label in labels]
    np.savez(root / "dtd10_128.npz", label=labels.astype(np.uint8), **jpeg_columns(images))


def texture_folders(root, classes, *, per_class=2):
    """Folders as DTD has them; a class is of one grey, that of its place in ``classes``."""
    for number, name in enumerate(classes):
        folder = root / "dtd" / "images" / name
        folder.mkdir(parents=True)
        for image in range(per_class):
            pixels = np.full((20, 30, 3), 5 * number)
            (folder / f"{name}_{image:04}.jpg").write_bytes(encoded(pixels, quality=95))


def pet_rows(count=24):
    """Names, breeds, species and whether for training: three breeds, the last are dogs."""
    breeds = ("Abyssinian", "Bengal", "shiba_inu")
    return [(f"{breeds[n % 3]}_{n}", n % 3, int(n % 3 == 2), n % 4 != 3) for n in range(count)]


def pet_trimap(side):
    """An animal in the left third, a border in the middle one."""
    trimap = np.full((side, side), 2, dtype=np.uint8)
    trimap[:, : side // 3] = 1
    trimap[:, side // 3 : 2 * side // 3] = 3
    return trimap


def pet_archive(root, *, side=12):
    rng = np.random.default_rng(21)
    rows = pet_rows()
    images = [rng.integers(0, 256, size=(side, side, 3)) for _ in rows]
    np.savez(
        root / "pets_128.npz",
        label=np.array([row[1] for row in rows], dtype=np.uint8),
        species=np.array([row[2] for row in rows], dtype=np.uint8),
        split=np.array([0 if row[3] else 1 for row in rows], dtype=np.uint8),
        trimap=np.stack([pet_trimap(side)] * len(rows)),
        class_names=np.array(["Abyssinian", "Bengal", "shiba_inu"]),
        **jpeg_columns(images),
    )


def pet_folder(root, *, side=12):
    rng = np.random.default_rng(21)
    (root / "images").mkdir(parents=True)
    (root / "annotations" / "trimaps").mkdir(parents=True)
    lines = {True: [], False: []}
    for name, breed, species, is_train in pet_rows():
        pixels = rng.integers(0, 256, size=(side, side, 3))
        (root / "images" / f"{name}.jpg").write_bytes(encoded(pixels, quality=95))
        trimap = root / "annotations" / "trimaps" / f"{name}.png"
        trimap.write_bytes(encoded(pet_trimap(side), "PNG"))
        lines[is_train].append(f"{name} {breed + 1} {species + 1} 1")
    for is_train, file in ((True, "trainval.txt"), (False, "test.txt")):
        (root / "annotations" / file).write_text("\n".join(lines[is_train]) + "\n")


def isic2017_files(root, *, counts=(9, 6, 6)):
    """Noise of 12×12; the lesion is the upper half; kinds in turn."""
    rng = np.random.default_rng(22)
    for part, count in zip(("Training", "Validation", "Test_v2"), counts, strict=True):
        start = root / f"ISIC-2017_{part}"
        data, masks = (start.with_name(start.name + end) for end in ("_Data", "_Part1_GroundTruth"))
        data.mkdir(parents=True)
        masks.mkdir()
        rows = [["image_id", "melanoma", "seborrheic_keratosis"]]
        lesion = np.zeros((12, 12))
        lesion[:6] = 255
        for number in range(count):
            name = f"ISIC_{part}{number:03}"
            pixels = rng.integers(0, 256, size=(12, 12, 3))
            (data / f"{name}.jpg").write_bytes(encoded(pixels, quality=95))
            (data / f"{name}_superpixels.png").write_bytes(encoded(pixels, "PNG"))
            (masks / f"{name}_segmentation.png").write_bytes(encoded(lesion, "PNG"))
            rows.append([name, float(number % 3 == 1), float(number % 3 == 2)])
        with start.with_name(start.name + "_Part3_GroundTruth.csv").open("w", newline="") as lines:
            csv.writer(lines).writerows(rows)


def lesion_archive(root, *, counts=(60, 30, 30)):
    """Noise of 128 pixels, not too dark; the lesion is the left half; all seven kinds in turn."""
    rng = np.random.default_rng(23)
    total = sum(counts)
    images = [
        np.kron(rng.integers(80, 240, size=(8, 8, 3)), np.ones((16, 16, 1))) for _ in range(total)
    ]
    lesion = np.zeros((128, 128), dtype=bool)
    lesion[:, :64] = True
    np.savez(
        root / "ham10000_128.npz",
        label=(np.arange(total) % 7).astype(np.uint8),
        split=np.repeat(np.arange(3, dtype=np.uint8), counts),
        mask_bits=np.stack([np.packbits(lesion, axis=1)] * total),
        class_names=np.array(["akiec", "bcc", "bkl", "df", "mel", "nv", "vasc"]),
        **jpeg_columns(images),
    )


def artefact_images():
    """By name: pairs of skin with and without an artefact, and ink on white."""
    skin = np.full((60, 400, 3), (200, 150, 140))
    ruled = skin.copy()
    ruled[10:50, ::40] = 20
    skin_spot = np.full((40, 40, 3), (200, 150, 140))
    bubble = skin_spot.copy()
    bubble[10:30, 10:30] = 250
    ink = np.full((80, 80, 3), 255)
    ink[20:60, 20:60] = (90, 30, 160)
    ring = np.full((300, 300, 3), 255)
    ring[:40] = ring[-40:] = (90, 30, 160)
    return {
        "B/B_with_1.png": bubble,
        "B/B_without_1.png": skin_spot,
        "R/R_1_with.png": ruled,
        "R/R_1_without.png": skin,
        "V/V_with.png": np.tile(ruled, (1, 2, 1)),
        "V/V_without.png": np.tile(skin, (1, 2, 1)),
        "S/S_1.png": ink,
        "C/C_1.png": ring,
    }


def artefact_zip(root, images=None):
    kinds = [("bubble", None, "B"), ("ruler", "horizontal", "R"), ("ruler", "vertical", "V")]
    kinds += [("marking", "spot", "S"), ("marking", "circle", "C")]
    described = [
        {"class": kind, "artefact_folder": f"src/{name}"} | ({"subclass": sub} if sub else {})
        for kind, sub, name in kinds
    ]
    with zipfile.ZipFile(root / "skin_artefacts.zip", "w") as archive:
        archive.writestr("artefacts/meta.json", json.dumps({"artefacts": described}))
        for name, pixels in (images or artefact_images()).items():
            archive.writestr(f"artefacts/src/{name}", encoded(pixels, "PNG"))


def decoy_ham_files(root):
    lesion_archive(root)
    artefact_zip(root)
