"""Small files in the layouts of published data sets; one function writes one layout."""

import csv
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

WORDNET = {306: "n02174001", 142: "n02033041", 270: "n02114548"}
PARTS = ("train", "val", "test")
WORKER_WARNINGS = [  # of worker processes, on machines with one processor and on Python 3.12
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path, **options)
    return path


def encode(pixels, kind="JPEG", **options):
    content = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(content, kind, **options)
    return content.getvalue()


def jpeg_columns(images, **options):
    """The arrays ``jpeg`` and ``offsets`` of an archive."""
    options = options or {"quality": 95}
    contents = [np.frombuffer(encode(image, **options), dtype=np.uint8) for image in images]
    return {"jpeg": np.concatenate(contents), "offsets": np.cumsum([0, *map(len, contents)])}


def derma_arrays(*, size=28, counts=(400, 200, 1000)):
    """Noise in MedMNIST's form; a bit more than half are nevi."""
    rng = np.random.default_rng(1)
    arrays = {}
    for part, count in zip(PARTS, counts, strict=True):
        labels = np.arange(count) % 13
        arrays[f"{part}_images"] = rng.integers(0, 256, size=(count, size, size, 3), dtype=np.uint8)
        arrays[f"{part}_labels"] = np.where(labels > 6, 5, labels).astype(np.uint8)[:, None]
    return arrays


def derma_files(root, *, name="dermamnist.npz", **shape):
    np.savez(root / name, **derma_arrays(**shape))


def ham_files(root, *, counts=(6, 3, 4)):
    """Photographs as JPEG in one array; each has one colour, chosen by its index."""
    total = sum(counts)
    images = [np.full((128, 128, 3), (10 * index, 100, 50)) for index in range(total)]
    np.savez(
        root / "ham10000_128.npz",
        **jpeg_columns(images),
        label=(np.arange(total) % 7).astype(np.uint8),
        split=np.repeat(np.arange(3, dtype=np.uint8), counts)[::-1],
    )


def isic_files(root, *, count=20):
    """Twenty images a group, 12×12; a patch in the top left of those of the last."""
    rng = np.random.default_rng(2)
    for folder in ("cancer", "no_cancer", "patch_no_cancer_again"):
        for number in range(count):
            image = rng.integers(0, 256, size=(12, 12, 3))
            save(root / "processed" / folder / f"ISIC_{number:03}.png", image)
    for number in range(count):
        mask = np.zeros((12, 12))
        mask[:8, :8] = 255
        save(root / "segmentation" / f"ISIC_{number:03}.jpg", mask, quality=90)


def plant_files(root, *, folds=(2,)):
    """Eighteen leaves on two days, 10×10, the leaf in the middle rows."""
    rng = np.random.default_rng(3)
    names = [f"{day}_Z{leaf}_0_0" for day in (1, 2) for leaf in range(1, 19)]
    leaf = np.zeros((10, 10), dtype=bool)
    leaf[3:7] = True
    for name in names:
        image = rng.integers(0, 256, size=(10, 10, 3))
        save(root / "rgb_data" / name[0] / f"{name}.JPEG", image, quality=95)
    (root / "rgb_dataset_splits").mkdir()
    for fold in folds:
        test = names[fold::3]
        train = [name for name in names if name not in test]
        for part, members in (("train", train), ("test", test)):
            (root / "rgb_dataset_splits" / f"{part}_{fold}.txt").write_text("\n".join(members))
    (root / "mask").mkdir()
    masks = {name: np.broadcast_to(leaf, (3, 10, 10)).copy() for name in names}
    (root / "mask" / "preprocessed_masks.pyu").write_bytes(pickle.dumps(masks))


def salient_files(root, *, count=12):
    """Three classes: feature 7 is background by three votes, feature 8 is core by three.

    The first images have both, those after them either; maps are 16×16, bright in the left half
    for feature 7 and in the upper half for feature 8.
    """
    rng = np.random.default_rng(4)
    header = ["WorkerId", "Input.wordnet_id", "Input.class_index", "Input.feature_index"]
    answers = {7: ["background", "separate_object", "background", "main_object", "main_object"]}
    answers[8] = ["main_object", "main_object", "background", "separate_object", "main_object"]
    rows = [
        [worker, wordnet, number, feature, answer]
        for number, wordnet in WORDNET.items()
        for feature, votes in answers.items()
        for worker, answer in enumerate(votes)
    ]
    with (root / "discover_spurious_features.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([[*header, "Answer.main"], *rows])
    maps = {7: np.zeros((16, 16)), 8: np.zeros((16, 16))}
    maps[7][:, :8] = 255
    maps[8][:8] = 255
    for wordnet in WORDNET.values():
        folder = root / "salient_imagenet_dataset" / wordnet
        columns = {7: range(count), 8: range(count // 2, count + count // 2)}
        for feature, numbers in columns.items():
            for number in numbers:
                save(folder / f"feature_{feature}" / f"{wordnet}_{number}.JPEG", maps[feature])
        with (folder / "image_names_map.csv").open("w", newline="") as lines:
            names = zip(*columns.values(), strict=True)
            table = [[index, *(f"{wordnet}_{n}" for n in pair)] for index, pair in enumerate(names)]
            csv.writer(lines).writerows([["", *columns], *table])
        for number in range(count + count // 2):
            image = rng.integers(0, 256, size=(32, 64, 3))
            path = root / "ILSVRC2012" / "train" / wordnet / f"{wordnet}_{number}.JPEG"
            save(path, image, quality=95)


def cifar_arrays(*, counts=(200, 100)):
    """Noise in CIFAR's form: channels first, ten classes in turn."""
    rng = np.random.default_rng(7)
    return [
        (
            rng.integers(0, 256, size=(count, 3, 32, 32), dtype=np.uint8),
            (np.arange(count) % 10).astype(np.uint8),
        )
        for count in counts
    ]


def cifar_pickles(root):
    """As torchvision unpacks it; keys and arrays as Python 2 wrote them."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    for name, pixels, y in cifar_batches():
        content = {"data": pixels.reshape(len(y), -1), "labels": y.tolist(), "batch_label": name}
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def cifar_bytes(root):
    """The version for C programs: a label, then the pixels, for each image."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name, pixels, y in cifar_batches():
        rows = np.concatenate([y[:, None], pixels.reshape(len(y), -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())


def cifar_batches():
    (pixels, y), test = cifar_arrays()
    for number in range(5):
        rows = slice(40 * number, 40 * number + 40)
        yield f"data_batch_{number + 1}", pixels[rows], y[rows]
    yield "test_batch", *test


def cifar_jpegs(root):
    """One array of JPEGs for each part, and where each begins."""
    arrays = {}
    for part, (pixels, y) in zip(("train", "test"), cifar_arrays(), strict=True):
        columns = jpeg_columns(pixels.transpose(0, 2, 3, 1), subsampling=0)
        arrays |= {f"{name}_{part}": column for name, column in columns.items()}
        arrays[f"y_{part}"] = y
    np.savez(root / "cifar10_jpeg.npz", **arrays)


def class_folders(root, *, parts=("train.X1", "train.X2", "val.X"), count=4):
    """Noise in two classes, 10×8 pixels."""
    rng = np.random.default_rng(8)
    for part in parts:
        for name in ("n01440764", "n01443537"):
            for number in range(count):
                image = rng.integers(0, 256, size=(10, 8, 3))
                save(root / part / name / f"{part}_{number}.png", image)


def cifar100_arrays(*, counts=(300, 200)):
    """Noise in CIFAR's form: pixels, fine labels in turn, and coarse ones."""
    rng = np.random.default_rng(9)
    return [
        (
            rng.integers(0, 256, size=(count, 3, 32, 32), dtype=np.uint8),
            (np.arange(count) % 100).astype(np.uint8),
            (np.arange(count) % 20).astype(np.uint8),
        )
        for count in counts
    ]


def cifar100_pickles(root):
    folder = root / "cifar-100-python"
    folder.mkdir(parents=True)
    for name, (pixels, fine, coarse) in zip(("train", "test"), cifar100_arrays(), strict=True):
        content = {"data": pixels.reshape(len(fine), -1), "fine_labels": fine.tolist()}
        content["coarse_labels"] = coarse.tolist()
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))


def cifar100_bytes(root):
    folder = root / "cifar-100-binary"
    folder.mkdir(parents=True)
    for name, (pixels, fine, coarse) in zip(("train", "test"), cifar100_arrays(), strict=True):
        rows = [coarse[:, None], fine[:, None], pixels.reshape(len(fine), -1)]
        (folder / f"{name}.bin").write_bytes(np.concatenate(rows, axis=1).tobytes())


def svhn_files(root, *, counts=(200, 100)):
    """Noise as MATLAB had it: samples last, 10 for the digit 0."""
    from scipy.io import savemat

    for name, (pixels, y) in zip(("train", "test"), cifar_arrays(counts=counts), strict=True):
        digits = np.where(y == 0, 10, y)[:, None]
        savemat(root / f"{name}_32x32.mat", {"X": pixels.transpose(2, 3, 1, 0), "y": digits})


def waterbird_files(root, *, folder="waterbirds_v1.0", count=24):
    """Noise of 9×7 pixels; labels, backgrounds and splits alternate."""
    rng = np.random.default_rng(10)
    rows = [["img_id", "img_filename", "y", "split", "place", "place_filename"]]
    for number in range(count):
        file = f"{number % 3:03}.Bird/{number}.png"
        save(root / folder / file, rng.integers(0, 256, size=(9, 7, 3)))
        split, background = (0, 0, 0, 1, 2, 2)[number % 6], number // 2 % 2
        rows.append([number + 1, file, number % 2, split, background, "/o/ocean/1.jpg"])
    with (root / folder / "metadata.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows(rows)


def celeba_files(root, *, folder="celebA_v1.0", text=False, count=24):
    """Noise of 11×9 pixels; hair, sex and splits in turn, in both forms of the tables."""
    rng = np.random.default_rng(11)
    header, rows, splits = ["Bald", "Blond_Hair", "Male"], [], []
    for number in range(count):
        name = f"{number + 1:06}.png"
        save(root / folder / "img_align_celeba" / name, rng.integers(0, 256, size=(11, 9, 3)))
        hair, sex = 2 * (number % 2) - 1, 2 * (number // 2 % 2) - 1
        rows.append([name, -1, hair, sex])
        splits.append([name, (0, 0, 0, 1, 2, 2)[number % 6]])
    splits.reverse()  # tables are matched by name
    tables = {"list_attr_celeba": rows, "list_eval_partition": splits}
    for name, table in tables.items():
        if text:
            first = [[count], header] if table is rows else []
            content = "\n".join("  ".join(map(str, row)) for row in [*first, *table])
            (root / folder / f"{name}.txt").write_text(content)
            continue
        columns = header if table is rows else ["partition"]
        with (root / folder / f"{name}.csv").open("w", newline="") as lines:
            csv.writer(lines).writerows([["image_id", *columns], *table])


def challenge_files(root, *, around="bg_challenge", tests=None, count=3):
    """Noise in two of ImageNet-9's classes; eight training images each, three at test."""
    rng = np.random.default_rng(9)
    chosen = tests or ("original", "mixed_same", "mixed_rand", "only_fg")
    folders = {"train": 8, **{f"{around}/{test}/val".lstrip("/"): count for test in chosen}}
    for folder, number in folders.items():
        for name in ("00_dog", "01_bird"):
            for index in range(number):
                image = rng.integers(0, 256, size=(9, 8, 3))
                save(root / folder / name / f"{index}.png", image)


def pet_files(root, *, layout="microsoft", count=10):
    """Dark cats and bright dogs."""
    rng = np.random.default_rng(10)
    for label, name in enumerate(("cat", "dog")):
        for number in range(count):
            image = rng.integers(160 * label, 96 + 160 * label, size=(9, 8, 3))
            path = {
                "microsoft": root / "PetImages" / name.capitalize() / f"{number}.png",
                "folders": root / name.capitalize() / f"{number}.png",
                "kaggle": root / "train" / f"{name}.{number}.png",
            }[layout]
            save(path, image)


def texture_archive(root, *, per_class=6, side=40):
    """Ten classes; each class has its own grey, with noise."""
    rng = np.random.default_rng(20)
    labels = np.repeat(np.arange(10), per_class)
    images = [20 * label + rng.integers(0, 12, size=(side, side, 3)) for label in labels]
    np.savez(root / "dtd10_128.npz", label=labels.astype(np.uint8), **jpeg_columns(images))


def texture_folders(root, classes, *, per_class=2):
    """Folders as DTD has them; each class has one grey, by its index in ``classes``."""
    for number, name in enumerate(classes):
        folder = root / "dtd" / "images" / name
        folder.mkdir(parents=True)
        for image in range(per_class):
            pixels = np.full((20, 30, 3), 5 * number)
            (folder / f"{name}_{image:04}.jpg").write_bytes(encode(pixels, quality=95))


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
        (root / "images" / f"{name}.jpg").write_bytes(encode(pixels, quality=95))
        trimap = root / "annotations" / "trimaps" / f"{name}.png"
        trimap.write_bytes(encode(pet_trimap(side), "PNG"))
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
            (data / f"{name}.jpg").write_bytes(encode(pixels, quality=95))
            (data / f"{name}_superpixels.png").write_bytes(encode(pixels, "PNG"))
            (masks / f"{name}_segmentation.png").write_bytes(encode(lesion, "PNG"))
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
            archive.writestr(f"artefacts/src/{name}", encode(pixels, "PNG"))


def decoy_ham_files(root):
    lesion_archive(root)
    artefact_zip(root)


def split_columns(counts):
    return {"split": np.repeat(np.arange(3, dtype=np.uint8), counts)}


def waterbird_archive(root, *, counts=(12, 6, 6)):
    """Noise of 16×16 pixels; the bird is the upper half; labels and backgrounds alternate."""
    rng = np.random.default_rng(24)
    total = sum(counts)
    bird = np.zeros((16, 16), dtype=bool)
    bird[:8] = True
    np.savez(
        root / "waterbirds_96.npz",
        y=(np.arange(total) % 2).astype(np.uint8),
        place=(np.arange(total) // 2 % 2).astype(np.uint8),
        mask_bits=np.stack([np.packbits(bird, axis=1)] * total),
        **split_columns(counts),
        **jpeg_columns([rng.integers(0, 256, size=(16, 16, 3)) for _ in range(total)]),
    )


def celeba_archive(root, *, counts=(12, 6, 6)):
    """Noise of 16×16 pixels; hair and sex alternate."""
    rng = np.random.default_rng(25)
    total = sum(counts)
    np.savez(
        root / "celeba_64.npz",
        y=(np.arange(total) % 2).astype(np.uint8),
        male=(np.arange(total) // 2 % 2).astype(np.uint8),
        **split_columns(counts),
        **jpeg_columns([rng.integers(0, 256, size=(16, 16, 3)) for _ in range(total)]),
    )


def isic2017_archive(root, *, counts=(24, 12, 12)):
    """Grey noise of 16×16; the lesion is the upper half, a red patch the lower left quarter.

    One in three is a melanoma, one in three another keratosis. A half of the keratoses have a
    patch; the last photograph of each part has no outline.
    """
    rng = np.random.default_rng(26)
    total = sum(counts)
    kind = np.arange(total) % 3
    patch = np.zeros((16, 16), dtype=bool)
    patch[8:, :8] = True
    has_patch = (kind == 2) & (np.arange(total) % 2 == 0)
    images = rng.integers(60, 180, size=(total, 16, 16, 3))
    images[has_patch[:, None, None] & patch] = (250, 0, 0)
    split = split_columns(counts)["split"]
    last = np.isin(np.arange(total), np.cumsum(counts) - 1)
    lesion = np.packbits(~(patch | patch[:, ::-1]), axis=1)
    np.savez(
        root / "isic2017_128.npz",
        melanoma=(kind == 1).astype(np.uint8),
        seborrheic_keratosis=(kind == 2).astype(np.uint8),
        patch=has_patch.astype(np.uint8),
        patch_bits=np.stack([np.packbits(patch & one, axis=1) for one in has_patch]),
        mask_bits=np.stack([0 * lesion if one else lesion for one in last]),
        has_mask=(~last).astype(np.uint8),
        split=split,
        official_split=split,
        **jpeg_columns(images, quality=100, subsampling=0),
    )


def svhn_archive(root, *, counts=(200, 100)):
    """One array of JPEGs for each part, and where each begins."""
    arrays = {}
    for part, (pixels, y) in zip(("train", "test"), cifar_arrays(counts=counts), strict=True):
        columns = jpeg_columns(pixels.transpose(0, 2, 3, 1), subsampling=0)
        arrays |= {f"{name}_{part}": column for name, column in columns.items()}
        arrays[f"y_{part}"] = y
    np.savez(root / "svhn_32.npz", **arrays)
