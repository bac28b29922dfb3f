"""Miniature files in the layouts of published data sets."""

import csv
import io
import pickle

import numpy as np
from PIL import Image

WORDNET = {306: "n02174001", 142: "n02033041", 270: "n02114548"}
PARTS = ("train", "val", "test")


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path, **options)


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
    """Photographs as JPEG in one array; each is one colour, that of its place."""
    total = sum(counts)
    contents = []
    for place in range(total):
        content = io.BytesIO()
        Image.new("RGB", (128, 128), (10 * place, 100, 50)).save(content, "JPEG", quality=95)
        contents.append(np.frombuffer(content.getvalue(), dtype=np.uint8))
    np.savez(
        root / "ham10000_128.npz",
        jpeg=np.concatenate(contents),
        offsets=np.cumsum([0, *map(len, contents)]),
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
        for part, some in (("train", train), ("test", test)):
            (root / "rgb_dataset_splits" / f"{part}_{fold}.txt").write_text("\n".join(some))
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
        for feature, some in answers.items()
        for worker, answer in enumerate(some)
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
            table = [[place, *(f"{wordnet}_{n}" for n in pair)] for place, pair in enumerate(names)]
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
        contents = []
        for image in pixels:
            content = io.BytesIO()
            Image.fromarray(image.transpose(1, 2, 0)).save(content, "JPEG", subsampling=0)
            contents.append(np.frombuffer(content.getvalue(), dtype=np.uint8))
        arrays[f"jpeg_{part}"] = np.concatenate(contents)
        arrays[f"offsets_{part}"] = np.cumsum([0, *map(len, contents)])
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
    """Noise of 9×7 pixels; labels, places and splits in turn."""
    rng = np.random.default_rng(10)
    rows = [["img_id", "img_filename", "y", "split", "place", "place_filename"]]
    for number in range(count):
        file = f"{number % 3:03}.Bird/{number}.png"
        save(root / folder / file, rng.integers(0, 256, size=(9, 7, 3)))
        split, place = (0, 0, 0, 1, 2, 2)[number % 6], number // 2 % 2
        rows.append([number + 1, file, number % 2, split, place, "/o/ocean/1.jpg"])
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
            for place in range(number):
                image = rng.integers(0, 256, size=(9, 8, 3))
                save(root / folder / name / f"{place}.png", image)


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
