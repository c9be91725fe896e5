"""Tables of real data: split by seed, and standardised by their training rows."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from implementations.tasks.task import Data, Points

if TYPE_CHECKING:
    import pandas as pd

#: The test rows are the same for every seed, and chosen at random: files are sorted by something.
TEST_SEED = 0


def split_rows(num_rows: int, seed: int, num_train: int, num_test: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices of the training, validation and test rows; the seed moves the split into the first two."""
    rest, test = np.split(np.random.default_rng(TEST_SEED).permutation(num_rows), [num_rows - num_test])
    train, validation = np.split(np.random.default_rng(seed).permutation(rest), [num_train])
    return train, validation, test


def split_table(
    inputs: np.ndarray,
    targets: np.ndarray,
    seed: int,
    *,
    num_train: int,
    num_test: int,
    is_regression: bool = False,
    num_scaled: int | None = None,
) -> Data:
    """A table of inputs (n, d) and targets (n,) as data; the targets of a regression are standardised too.

    Of the inputs the first ``num_scaled`` columns are standardised, or all. Indicators are best left at 0 and 1: one
    that is rare would become a number of fifty sd, and a prior of sd 1 on its weight hardly a prior.
    """
    parts = split_rows(len(inputs), seed, num_train, num_test)
    numbers = _standardised(inputs[:, :num_scaled], parts[0])
    scaled = np.column_stack([numbers, inputs[:, numbers.shape[1] :].astype(np.float32)])
    values = _standardised(targets, parts[0]) if is_regression else targets.astype(np.int32)
    return Data(*(Points(scaled[rows], values[rows]) for rows in parts))


def _standardised(values: np.ndarray, train: np.ndarray) -> np.ndarray:
    """With mean 0 and sd 1 over the training rows; a column that is constant there becomes 0 there."""
    mean, sd = values[train].mean(axis=0), values[train].std(axis=0)
    return ((values - mean) / np.where(sd > 0, sd, 1)).astype(np.float32)


def one_hot(column: "pd.Series", values: Sequence[str]) -> np.ndarray:
    """An indicator (n, values - 1) of every value but the first; raises ValueError where there are others."""
    codes = ranks(column, values)
    return np.eye(len(values))[codes][:, 1:]


def ranks(column: "pd.Series", values: Sequence[str]) -> np.ndarray:
    """The number of each entry in the order of ``values``; raises ValueError where there are others."""
    codes = {value: number for number, value in enumerate(values)}
    strange = set(column) - codes.keys()
    if strange:
        raise ValueError(f"the column {column.name!r} has {sorted(strange)[0]!r}; expected: {', '.join(values)}")
    return np.array([codes[value] for value in column])


def read_parquet(content: bytes) -> "pd.DataFrame":
    # Half a second that only the tables of real data need.
    import pandas as pd

    return pd.read_parquet(io.BytesIO(content))
