"""Three million flights within the United States, January to June 2001: late by more than 15 minutes or not?

Real tall data for a logistic regression (vega-datasets; U.S. Bureau of Transportation Statistics). Sixteen features:

- the time of day as a curve of period 24 hours: sine and cosine of its first three harmonics;
- the day of the week, but for Monday;
- the distance, and its logarithm;
- the log odds of delay at the airports of origin and of destination, from the training flights alone.

All are standardised by the training flights.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from implementations.tasks.data.download import fetch_files
from implementations.tasks.data.tables import split_rows
from implementations.tasks.task import Data, Points, Task

NUM_POINTS = 2_900_000
NUM_TEST = 50_000
FILE = "flights-3m.parquet"
FILES = {FILE: "dbeb920c90f59b6ccaff823dcc3d08f25a97fa1ce128d93f40be4e931f5900b0"}
MIRRORS = (
    "https://cdn.jsdelivr.net/npm/vega-datasets@3.2.1/data/",
    "https://vega.github.io/vega-datasets/data/",
)
NPM_PACKAGE = "vega-datasets@3.2.1"

#: Minutes; a flight with a larger delay is late.
LATE = 15
NUM_HARMONICS = 3
NUM_FEATURES = 2 * NUM_HARMONICS + 6 + 2 + 2
#: An airport's rate of delay is that of its flights and of so many more at the overall rate: some have a handful only.
PSEUDO_FLIGHTS = 50
#: Flights read, and flights whose features are worked out, at once.
CHUNK = 2**17


class Flights(NamedTuple):
    """One entry per flight, ten bytes in all."""

    minute: np.ndarray  # int16, of the day
    weekday: np.ndarray  # int8, 0 for Monday
    distance: np.ndarray  # int16, miles
    origin: np.ndarray  # int16, number of the airport
    destination: np.ndarray  # int16
    is_late: np.ndarray  # int8


def fetch(data_dir: Path) -> dict[str, bytes]:
    """The file, checked; it is downloaded into ``data_dir/flights`` if it is not there yet."""
    # The mirrors have it unpacked: parquet is compressed already.
    return fetch_files(data_dir / "flights", FILES, mirrors=MIRRORS, mirror_suffix="", npm_package=NPM_PACKAGE)


def load(seed: int, data_dir: Path) -> Data:
    """The seed moves the split of all but the test flights into training and validation."""
    flights = read_flights(fetch(data_dir)[FILE])
    parts = split_rows(len(flights.minute), seed, NUM_POINTS, NUM_TEST)
    train = parts[0]
    rates = [_log_odds(airports[train], flights.is_late[train]) for airports in (flights.origin, flights.destination)]
    inputs = [_features(flights, rows, *rates) for rows in parts]
    # Column by column: the training features alone are 190 MB, and copies of them in double precision twice that.
    for column in range(NUM_FEATURES):
        values = inputs[0][:, column]
        mean, sd = values.mean(dtype=np.float64), values.std(dtype=np.float64)
        for part in inputs:
            part[:, column] = (part[:, column] - mean) / sd
    targets = (flights.is_late[rows].astype(np.int32) for rows in parts)
    return Data(*map(Points, inputs, targets))


def read_flights(content: bytes) -> Flights:
    """The columns of a parquet file, CHUNK rows at a time."""
    # A third of a second that only this task needs.
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(content))
    num_rows = file.metadata.num_rows
    flights = Flights(*(np.empty(num_rows, kind) for kind in ("i2", "i1", "i2", "i2", "i2", "i1")))
    airports: dict[str, int] = {}
    start = 0
    for batch in file.iter_batches(CHUNK, columns=["date", "delay", "distance", "origin", "destination"]):
        rows = slice(start, start + batch.num_rows)
        minutes = batch["date"].to_numpy().astype("datetime64[m]").astype(np.int64)
        flights.minute[rows] = minutes % (24 * 60)
        # Day 0, the first of January 1970, was a Thursday.
        flights.weekday[rows] = (minutes // (24 * 60) + 3) % 7
        flights.distance[rows] = batch["distance"].to_numpy()
        flights.is_late[rows] = batch["delay"].to_numpy() > LATE
        for name in ("origin", "destination"):
            column = batch[name].dictionary_encode()
            numbers = [airports.setdefault(airport, len(airports)) for airport in column.dictionary.to_pylist()]
            getattr(flights, name)[rows] = np.array(numbers, np.int16)[column.indices.to_numpy()]
        start += batch.num_rows
    return flights


def _log_odds(airports: np.ndarray, is_late: np.ndarray) -> np.ndarray:
    """By airport number; an airport without flights here has the overall rate, and so has one beyond the last."""
    overall = is_late.mean()
    size = np.iinfo(airports.dtype).max + 1
    late = np.bincount(airports, weights=is_late, minlength=size) + PSEUDO_FLIGHTS * overall
    rate = late / (np.bincount(airports, minlength=size) + PSEUDO_FLIGHTS)
    return np.log(rate / (1 - rate))


def _features(
    flights: Flights, rows: np.ndarray, origin_log_odds: np.ndarray, destination_log_odds: np.ndarray
) -> np.ndarray:
    """The features (rows, NUM_FEATURES) float32, not yet standardised."""
    features = np.empty((len(rows), NUM_FEATURES), np.float32)
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        angles = 2 * np.pi / (24 * 60) * flights.minute[chunk, None] * np.arange(1, NUM_HARMONICS + 1)
        distance = flights.distance[chunk].astype(np.float64)
        features[start : start + CHUNK] = np.column_stack(
            [
                np.sin(angles),
                np.cos(angles),
                flights.weekday[chunk, None] == np.arange(1, 7),
                distance,
                np.log(distance),
                origin_log_odds[flights.origin[chunk]],
                destination_log_odds[flights.destination[chunk]],
            ]
        )
    return features


TASK = Task(
    name="flights",
    summary="three million flights, late by more than 15 minutes or not: logistic regression on 16 features",
    num_points=NUM_POINTS,
    layers=((NUM_FEATURES + 1, 1),),
    likelihood="bernoulli",
    load=load,
    fetch=fetch,
    fetched_bytes=13_500_000,
)
