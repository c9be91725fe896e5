"""Tasks on real data, from small files of the same form: their inputs, their targets, and what a strange file says."""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from implementations.tasks.data import adult, california, diamonds, fashion, tables

NUM_ROWS, NUM_TRAIN, NUM_TEST = 60, 40, 12


def _california(random: np.random.Generator) -> pd.DataFrame:
    columns = (*california.PLAIN, *california.LONG_TAILED, "MedHouseVal")
    return pd.DataFrame({name: random.lognormal(size=NUM_ROWS) for name in columns})


def _diamonds(random: np.random.Generator) -> pd.DataFrame:
    numbers = {name: random.uniform(1, 9, NUM_ROWS).round(2) for name in ("carat", "depth", "table", "x", "y", "z")}
    grades = {name: random.choice(values, NUM_ROWS) for name, values in diamonds.GRADES.items()}
    return pd.DataFrame({**numbers, **grades, "price": random.integers(300, 9000, NUM_ROWS)})


def _adult(random: np.random.Generator) -> pd.DataFrame:
    names = (*adult.NUMBERS, *adult.LONG_TAILED, "fnlwgt")
    numbers = {name: random.integers(0, 90, NUM_ROWS) for name in names}
    words = {name: random.choice(values, NUM_ROWS) for name, values in adult.VALUES.items()}
    return pd.DataFrame({**numbers, **words, "native-country": random.choice(["United-States", "?"], NUM_ROWS)})


TABLES = {california: _california, diamonds: _diamonds, adult: _adult}
real = pytest.mark.parametrize("module", TABLES, ids=lambda module: module.TASK.name)


def _keep(module, content: bytes, folder: Path, monkeypatch) -> None:
    """The file where it would be downloaded to, and its checksum where the real one's stands."""
    path = folder / module.TASK.name / module.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    monkeypatch.setattr(module, "FILES", {module.FILE: sha256(content).hexdigest()})
    monkeypatch.setattr(module, "NUM_POINTS", NUM_TRAIN)
    monkeypatch.setattr(module, "NUM_TEST", NUM_TEST)


def _loaded(module, table: pd.DataFrame, folder: Path, monkeypatch, seed: int = 0):
    is_csv = module.FILE.endswith(".csv")
    content = table.to_csv(index=False).encode() if is_csv else table.to_parquet(compression="brotli")
    _keep(module, content, folder, monkeypatch)
    return module.load(seed, folder)


def _rows(seed: int) -> list[np.ndarray]:
    """The split, worked out again: test rows by a fixed seed, the others by the task's."""
    order = np.random.default_rng(0).permutation(NUM_ROWS)
    rest, test = order[:-NUM_TEST], order[-NUM_TEST:]
    shuffled = np.random.default_rng(seed).permutation(rest)
    return [shuffled[:NUM_TRAIN], shuffled[NUM_TRAIN:], test]


@real
def test_training_inputs_have_mean_0_and_sd_1_and_the_width_of_the_layer(module, tmp_path, monkeypatch) -> None:
    data = _loaded(module, TABLES[module](np.random.default_rng(1)), tmp_path, monkeypatch)
    parts = [data.train, data.validation, data.test]
    assert [len(part.inputs) for part in parts] == [NUM_TRAIN, NUM_ROWS - NUM_TRAIN - NUM_TEST, NUM_TEST]
    assert {part.inputs.shape[1] for part in parts} == {module.TASK.layers[0][0] - 1}
    # Three numbers, the square of one, and two logarithms; the others are indicators.
    numbers = slice(6 if module is adult else None)
    np.testing.assert_allclose(data.train.inputs[:, numbers].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(data.train.inputs[:, numbers].std(axis=0), 1, atol=1e-5)
    # Not by all rows: those of the test are not looked at.
    assert np.abs(data.test.inputs[:, numbers].mean(axis=0)).max() > 0.01
    if module is adult:
        assert set(np.unique(data.train.inputs[:, 6:])) == {0.0, 1.0}


@real
def test_the_seed_moves_all_but_the_test_rows(module, tmp_path, monkeypatch) -> None:
    table = TABLES[module](np.random.default_rng(1))
    first, other = (_loaded(module, table, tmp_path, monkeypatch, seed) for seed in (0, 1))
    if module is adult:
        np.testing.assert_array_equal(first.test.targets, other.test.targets)
    order = [np.argsort(part.inputs[:, 0]) for part in (first.test, other.test)]
    np.testing.assert_array_equal(*order)
    assert not np.array_equal(first.train.targets, other.train.targets)


def test_values_and_prices_are_in_sd_of_the_training_rows(tmp_path, monkeypatch) -> None:
    for module, values in (
        (california, lambda table: table["MedHouseVal"]),
        (diamonds, lambda table: np.log(table.price)),
    ):
        table = TABLES[module](np.random.default_rng(1))
        data = _loaded(module, table, tmp_path, monkeypatch)
        raw = values(table).to_numpy()
        train, _, test = _rows(0)
        expected = (raw[test] - raw[train].mean()) / raw[train].std()
        np.testing.assert_allclose(data.test.targets, expected, rtol=1e-5, atol=1e-6)


def test_a_column_that_is_constant_in_the_training_rows_is_0_and_not_nan() -> None:
    inputs = np.stack([np.ones(20), np.arange(20.0)], axis=1)
    data = tables.split_table(inputs, np.arange(20.0), 0, num_train=10, num_test=5, is_regression=True)
    assert (data.train.inputs[:, 0] == 0).all() and np.isfinite(data.test.inputs).all()


@pytest.fixture
def pictures(tmp_path, monkeypatch) -> np.ndarray:
    """Six pictures of each of two classes, in files of the package's form, empty rows included."""
    made = np.random.default_rng(2).integers(0, 256, (2, 6, 784))
    folder = tmp_path / "fashion"
    folder.mkdir()
    checksums = {}
    for number, rows in enumerate(made.tolist()):
        content = json.dumps({"data": [*rows[:2], [], *rows[2:], []]}).encode()
        (folder / f"{number}.json").write_bytes(content)
        checksums[f"{number}.json"] = sha256(content).hexdigest()
    monkeypatch.setattr(fashion, "FILES", checksums)
    monkeypatch.setattr(fashion, "NUM_POINTS", 6)
    monkeypatch.setattr(fashion, "NUM_TEST", 3)
    return made


def test_pictures_keep_their_class_and_empty_rows_are_none(pictures, tmp_path) -> None:
    data = fashion.load(0, tmp_path)
    parts = (data.train, data.validation, data.test)
    assert [len(part.targets) for part in parts] == [6, 3, 3]
    found = {
        tuple(np.rint(255 * row).astype(int)): y
        for part in parts
        for row, y in zip(part.inputs, part.targets, strict=True)
    }
    assert found == {tuple(row): number for number, rows in enumerate(pictures.tolist()) for row in rows}
