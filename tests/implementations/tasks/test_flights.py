"""The flights task, on a small file of the same form; on the real one where it has been downloaded."""

from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from implementations.tasks.data import flights

NUM_FLIGHTS, NUM_TEST, NUM_TRAIN = 4_000, 300, 3_000


def _table(random: np.random.Generator) -> pd.DataFrame:
    """Sorted by date like the real one; the last rows meet airports that no other has."""
    minutes = np.sort(random.integers(0, 180 * 24 * 60, NUM_FLIGHTS))
    origins = random.choice(["ATL", "ORD", "LAX", "SFO"], NUM_FLIGHTS).astype(object)
    origins[-3:] = "XYZ"
    is_late = random.random(NUM_FLIGHTS) < 0.1 + 0.2 * (origins == "ORD") + 0.2 * (minutes % 1440 > 1000)
    return pd.DataFrame(
        {
            "date": [datetime(2001, 1, 1) + timedelta(minutes=int(minute)) for minute in minutes],
            # On time is up to 15 minutes, and 15 itself is not late.
            "delay": np.where(is_late, random.integers(16, 300, NUM_FLIGHTS), random.integers(-60, 16, NUM_FLIGHTS)),
            "distance": random.integers(50, 4_962, NUM_FLIGHTS),
            "origin": origins,
            "destination": random.choice(["JFK", "BOS", "ATL"], NUM_FLIGHTS),
        }
    )


def _write(table: pd.DataFrame, folder: Path, monkeypatch) -> Path:
    """The table as a file of the real one's types, in several row groups, and a checksum to match."""
    types = [("date", pa.timestamp("us")), ("delay", pa.int64()), ("distance", pa.int64())]
    schema = pa.schema([*types, ("origin", pa.large_string()), ("destination", pa.large_string())])
    path = folder / "flights" / flights.FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pandas(table, schema, preserve_index=False), path, row_group_size=700)
    monkeypatch.setattr(flights, "FILES", {flights.FILE: sha256(path.read_bytes()).hexdigest()})
    return folder


@pytest.fixture
def table(monkeypatch) -> pd.DataFrame:
    monkeypatch.setattr(flights, "NUM_POINTS", NUM_TRAIN)
    monkeypatch.setattr(flights, "NUM_TEST", NUM_TEST)
    # Neither divides the row groups nor the parts.
    monkeypatch.setattr(flights, "CHUNK", 511)
    return _table(np.random.default_rng(0))


def _rows(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which rows are which part's."""
    order = np.random.default_rng(0).permutation(NUM_FLIGHTS)
    rest = np.random.default_rng(seed).permutation(order[: NUM_FLIGHTS - NUM_TEST])
    return rest[:NUM_TRAIN], rest[NUM_TRAIN:], order[NUM_FLIGHTS - NUM_TEST :]


def _expected(table: pd.DataFrame, train: np.ndarray) -> pd.DataFrame:
    """The features of all rows by pandas, from what the module's docstring says."""
    late = (table["delay"] > 15).astype(float)
    hours = table["date"].dt.hour + table["date"].dt.minute / 60
    columns = {f"{wave.__name__}{k}": wave(2 * np.pi * k * hours / 24) for wave in (np.sin, np.cos) for k in (1, 2, 3)}
    for day in ("Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"):
        columns[day] = (table["date"].dt.day_name() == day).astype(float)
    columns |= {"distance": table["distance"].astype(float), "log": np.log(table["distance"])}
    overall = late.iloc[train].mean()
    for name in ("origin", "destination"):
        groups = late.iloc[train].groupby(table[name].iloc[train])
        rates = (groups.sum() + 50 * overall) / (groups.count() + 50)
        rate = table[name].map(rates).astype(float).fillna(overall)
        columns[name] = np.log(rate / (1 - rate))
    features = pd.DataFrame(columns)
    return (features - features.iloc[train].mean()) / features.iloc[train].std(ddof=0)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_features_are_what_the_docstring_says(table, tmp_path, monkeypatch, seed) -> None:
    data = flights.load(seed, _write(table, tmp_path, monkeypatch))
    parts = _rows(seed)
    expected = _expected(table, parts[0]).to_numpy()
    for points, rows in zip((data.train, data.validation, data.test), parts, strict=True):
        assert points.inputs.dtype == np.float32 and points.targets.dtype == np.int32
        np.testing.assert_allclose(points.inputs, expected[rows], rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(points.targets, table["delay"].to_numpy()[rows] > 15)
    np.testing.assert_allclose(data.train.inputs.std(axis=0), 1, atol=1e-4)


def test_no_delay_outside_the_training_flights_is_seen_by_any_feature(table, tmp_path, monkeypatch) -> None:
    before = flights.load(0, _write(table, tmp_path, monkeypatch))
    _, validation, test = _rows(0)
    table.loc[np.concatenate([validation, test]), "delay"] = 1_000
    after = flights.load(0, _write(table, tmp_path, monkeypatch))
    assert after.test.targets.all() and after.validation.targets.all()
    for part in ("train", "validation", "test"):
        np.testing.assert_array_equal(getattr(after, part).inputs, getattr(before, part).inputs)
