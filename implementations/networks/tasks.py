"""The tasks of whole networks: a data set with its split, a network, a prior, and the noise.

The UCI sets have the splits of the standard benchmark (Hernandez-Lobato and Adams 2015; Gal and Ghahramani 2016) and
the gap splits of Foong et al. (2019). Inputs and targets are standardised by the training rows.

``boston`` is here for comparison with the literature alone: the set has a variable built on the racial composition of
towns and is deprecated (scikit-learn removed it in 1.2).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from implementations.infrastructure.errors import SettingError, unknown
from implementations.networks.network import Network
from implementations.tasks.data import california, fashion, mnist
from implementations.tasks.data.download import fetch_files
from implementations.tasks.data.tables import read_parquet

UCI_SETS = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine", "yacht")
UCI_COMMIT = "4fc85182f911d48c0de8b71f901866f42f7955e4"
UCI_MIRROR = f"https://raw.githubusercontent.com/cambridge-mlg/DUN/{UCI_COMMIT}/experiments/data/UCI_for_sharing/"
#: SHA-256 of every file of the nine sets and their splits.
UCI_CHECKSUMS = Path(__file__).with_name("uci.sha256")
#: Test points that a set without a split of its own keeps.
NUM_TEST = 1_000


@dataclass(frozen=True)
class NetworkData:
    """Standardised rows of one split."""

    inputs: np.ndarray  # (N, D)
    targets: np.ndarray  # (N,) numbers in sds of the training targets, or classes
    test_inputs: np.ndarray
    test_targets: np.ndarray
    #: The sd of the training targets: a log density in the units of the data is less by its logarithm.
    target_sd: float = 1.0


@dataclass(frozen=True)
class NetworkTask:
    """A network on a data set, with as many of its training rows as it says."""

    name: str
    dataset: str
    hidden: tuple[int, ...] = (50,)
    activation: str = "tanh"
    prior: str = "scaled"
    #: In sds of the training targets; None learns it.
    noise_sd: float | None = None
    #: None for all of the split's training rows.
    num_rows: int | None = None
    #: ``standard`` or ``gap``: which splits of a UCI set.
    splits: str = "standard"

    def load(self, split: int, data_dir: Path) -> NetworkData:
        inputs, targets, train, test = _table(self.dataset, self.splits, split, data_dir)
        if self.num_rows is not None:
            if self.num_rows > len(train):
                raise SettingError(f"{self.name}: num_rows = {self.num_rows} of {len(train)} training rows")
            train = np.random.default_rng(1000 + split).permutation(train)[: self.num_rows]
        return _standardised(inputs, targets, train, test)

    def network(self, data: NetworkData) -> Network:
        is_class = data.targets.dtype.kind == "i"
        num_outputs = int(data.targets.max()) + 1 if is_class else 1
        widths = (data.inputs.shape[1], *self.hidden, num_outputs)
        return Network(widths, self.activation, self.prior, "softmax" if is_class else "gaussian", self.noise_sd)


NETWORK_TASKS = {
    task.name: task
    for task in (
        NetworkTask("boston-tanh", "boston"),
        NetworkTask("boston-relu", "boston", activation="relu"),
        NetworkTask("concrete", "concrete"),
        NetworkTask("wine", "wine"),
        # A learned noise does not mix on these two; one fixed number per set, never one per split.
        NetworkTask("yacht", "yacht", noise_sd=0.05),
        NetworkTask("energy", "energy", noise_sd=0.07),
        NetworkTask("kin8nm-1000", "kin8nm", num_rows=1_000),
        NetworkTask("kin8nm-2000", "kin8nm", num_rows=2_000),
        NetworkTask("kin8nm", "kin8nm"),
        NetworkTask("power-2000", "power", num_rows=2_000),
        NetworkTask("power-4000", "power", num_rows=4_000),
        NetworkTask("california-1000", "california", noise_sd=0.5, num_rows=1_000),
        NetworkTask("california-4000", "california", noise_sd=0.5, num_rows=4_000),
        NetworkTask("digits", "digits", hidden=(20,)),
        NetworkTask("naval", "naval"),
        NetworkTask("protein", "protein"),
        NetworkTask("mnist-4000", "mnist", num_rows=4_000),
        NetworkTask("mnist14-10000", "mnist14", hidden=(100,), num_rows=10_000),
        NetworkTask("fashion-4000", "fashion", num_rows=4_000),
        NetworkTask("fashion14-10000", "fashion14", hidden=(100,), num_rows=10_000),
    )
}


def find_network_task(name: str) -> NetworkTask:
    if name not in NETWORK_TASKS:
        raise SettingError(unknown("network task", name, NETWORK_TASKS))
    return NETWORK_TASKS[name]


def _standardised(inputs: np.ndarray, targets: np.ndarray, train: np.ndarray, test: np.ndarray) -> NetworkData:
    """Rows of a split; a column that never changes stays 0. Pictures keep their contrast: one sd for all pixels."""
    is_picture = inputs.shape[1] >= 64
    centre, spread = inputs[train].mean(axis=0), inputs[train].std(axis=0)
    spread = np.full_like(centre, inputs[train].std()) if is_picture else np.where(spread < 1e-8, 1.0, spread)
    scaled = [((inputs[rows] - centre) / spread).astype(np.float32) for rows in (train, test)]
    if targets.dtype.kind == "i":
        return NetworkData(scaled[0], targets[train], scaled[1], targets[test])
    mean, sd = targets[train].mean(), float(targets[train].std())
    numbers = [((targets[rows] - mean) / sd).astype(np.float32) for rows in (train, test)]
    return NetworkData(scaled[0], numbers[0], scaled[1], numbers[1], sd)


def _table(dataset: str, splits: str, split: int, data_dir: Path) -> tuple[np.ndarray, ...]:
    """Inputs and targets of all rows, and which rows train and test."""
    if dataset in UCI_SETS:
        return _uci(dataset, splits, split, data_dir)
    if splits != "standard":
        raise SettingError(f"{dataset} has no {splits} splits")
    generator = np.random.default_rng(1000 + split)
    if dataset == "digits":
        from sklearn.datasets import load_digits

        digits = load_digits()
        order = generator.permutation(len(digits.target))
        return digits.data / 16.0, digits.target.astype(np.int32), order[180:], order[:180]
    if dataset == "california":
        table = read_parquet(california.fetch(data_dir)[california.FILE])
        inputs = np.column_stack([table[list(california.PLAIN)], np.log(table[list(california.LONG_TAILED)])])
        order = generator.permutation(len(table))
        return inputs, table["MedHouseVal"].to_numpy(), order[NUM_TEST:], order[:NUM_TEST]
    pictures = {"mnist": mnist, "fashion": fashion}[dataset.removesuffix("14")]
    # The task's own test pictures stay test pictures; those that trained nothing are drawn per split.
    data = pictures.load(split, data_dir)
    pixels = np.concatenate([data.train.inputs, data.test.inputs])
    if dataset.endswith("14"):
        pixels = pixels.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    classes = np.concatenate([data.train.targets, data.test.targets]).astype(np.int32)
    train = generator.permutation(len(data.train.targets))
    test = len(train) + generator.permutation(len(data.test.targets))[:NUM_TEST]
    return pixels, classes, train, test


def _uci(dataset: str, splits: str, split: int, data_dir: Path) -> tuple[np.ndarray, ...]:
    shared = {part: f"standard/{dataset}/{part}.txt" for part in ("data", "index_features", "index_target")}
    rows = {part: f"{splits}/{dataset}/index_{part}_{split}.txt" for part in ("train", "test")}
    names = shared | rows
    known = _uci_checksums()
    if missing := [name for name in names.values() if name not in known]:
        raise SettingError(f"{dataset} has no {missing[-1]}: its {splits} splits count from 0")
    files = fetch_files(
        data_dir / "uci", {name: known[name] for name in names.values()}, mirrors=(UCI_MIRROR,), mirror_suffix=""
    )
    read = {part: np.loadtxt(files[name].decode("ascii").splitlines()) for part, name in names.items()}
    columns, target = read["index_features"].astype(int), int(read["index_target"])
    return read["data"][:, columns], read["data"][:, target], read["train"].astype(int), read["test"].astype(int)


@cache
def _uci_checksums() -> dict[str, str]:
    lines = UCI_CHECKSUMS.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
