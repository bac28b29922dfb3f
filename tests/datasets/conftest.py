"""Fixtures: small files of MNIST and of image folders."""

import csv
import gzip
import struct

import numpy as np
import pytest
from tests.datasets.miniature import save

IDX_NAMES = {
    "x_train": "train-images-idx3-ubyte",
    "y_train": "train-labels-idx1-ubyte",
    "x_test": "t10k-images-idx3-ubyte",
    "y_test": "t10k-labels-idx1-ubyte",
}


@pytest.fixture
def tiny_mnist():
    """Noise in the form of MNIST: 400 training and 300 test images."""
    rng = np.random.default_rng(5)
    return {
        "x_train": rng.integers(0, 256, size=(400, 28, 28), dtype=np.uint8),
        "y_train": np.arange(400, dtype=np.uint8) % 10,
        "x_test": rng.integers(0, 256, size=(300, 28, 28), dtype=np.uint8),
        "y_test": np.arange(300, dtype=np.uint8) % 10,
    }


@pytest.fixture
def npz_dir(tmp_path, tiny_mnist):
    np.savez_compressed(tmp_path / "mnist.npz", **tiny_mnist)
    return tmp_path


def idx_bytes(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def write_idx():
    def write(folder, arrays, *, packed=False):
        folder.mkdir(parents=True, exist_ok=True)
        for key, name in IDX_NAMES.items():
            content = idx_bytes(arrays[key])
            path = folder / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content, 1) if packed else content)

    return write


@pytest.fixture
def write_table():
    def write(root, header, *rows):
        with (root / "data.csv").open("w", newline="") as lines:
            csv.writer(lines).writerows([header, *rows])
        return root

    return write


@pytest.fixture
def save_image():
    return save


@pytest.fixture
def pets(tmp_path, save_image, write_table):
    """Twelve images of cats and dogs; two of three have a mask, the top left quarter."""
    rng = np.random.default_rng(3)
    rows = []
    for number in range(12):
        save_image(tmp_path / f"images/{number}.png", rng.integers(0, 256, size=(8, 10, 3)))
        mask = ""
        if number % 3:
            mask = f"masks/{number}.png"
            pixels = np.zeros((8, 10))
            pixels[:4, :5] = 255
            save_image(tmp_path / mask, pixels)
        split = ("train", "train", "val", "test")[number // 3]
        label, group = ("cat", "dog")[number % 2], ("indoors", "outdoors")[number // 6]
        rows.append([f"images/{number}.png", label, split, group, mask])
    return write_table(tmp_path, ["file", "label", "split", "group", "mask"], *rows)
