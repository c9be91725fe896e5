"""Prices of 53,940 round diamonds (ggplot2): the logarithm of the price, in sd.

Six inputs: the logarithm of the weight, depth, table, and the grades of cut, colour and clarity from worst to best. The
lengths of the stones are left out: they follow from the weight, and some are 0 or 59 mm by mistake.
"""

import io
from pathlib import Path

import numpy as np

from implementations.tasks.data.download import fetch_files
from implementations.tasks.data.tables import ranks, split_table
from implementations.tasks.task import Data, Task, Training

NUM_POINTS, NUM_TEST = 40_000, 10_000
FILE = "diamonds.csv"
FILES = {FILE: "9574730b03aba241d899c4a97511c5061b19358fab89510774fb6c24168345c4"}
PIP_PACKAGE = "plotnine==0.15.8"

#: From worst to best.
GRADES = {
    "cut": ("Fair", "Good", "Very Good", "Premium", "Ideal"),
    "color": ("J", "I", "H", "G", "F", "E", "D"),
    "clarity": ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"),
}
#: In sd of the log prices: what the network leaves of them on the validation points, to one digit.
NOISE_SD = 0.1


def fetch(data_dir: Path) -> dict[str, bytes]:
    """The file, checked; it is downloaded into ``data_dir/diamonds`` if it is not there yet."""
    return fetch_files(data_dir / "diamonds", FILES, pip_package=PIP_PACKAGE)


def load(seed: int, data_dir: Path) -> Data:
    # Half a second that only the tables of real data need.
    import pandas as pd

    table = pd.read_csv(io.BytesIO(fetch(data_dir)[FILE]))
    grades = [ranks(table[name], values) for name, values in GRADES.items()]
    inputs = np.column_stack([np.log(table["carat"]), table["depth"], table["table"], *grades])
    prices = np.log(table["price"].to_numpy(np.float64))
    return split_table(inputs, prices, seed, num_train=NUM_POINTS, num_test=NUM_TEST, is_regression=True)


TASK = Task(
    name="diamonds",
    summary="log prices of 53,940 diamonds, 6-20-1, Gaussian likelihood",
    num_points=NUM_POINTS,
    layers=((7, 20), (21, 1)),
    likelihood="gaussian",
    noise_sd=NOISE_SD,
    load=load,
    fetch=fetch,
    fetched_bytes=2_800_000,
    training=Training(weight_sd=6**-0.5, bias_sd=0.5, learning_rate=5e-3, num_epochs=10, batch_size=100),
)
