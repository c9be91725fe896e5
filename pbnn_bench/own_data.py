"""Features and targets out of a user's file: .npz, .csv or .parquet.

An .npz file has the arrays ``features`` (N, d) and ``targets`` (N,), and may have ``splits`` (N,). A table has a column
of targets, may have one of splits, and every other column is a feature. Splits are the words train, validation and
test, or 0, 1 and 2; without them the rows are split at random. Messages count rows and columns from 0, as numpy does.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from implementations.infrastructure.artefact import read_npz
from implementations.infrastructure.errors import SettingError, unknown
from implementations.infrastructure.files import Damaged

if TYPE_CHECKING:
    import pandas as pd

PARTS = ("train", "validation", "test")
#: How people write them, in small letters.
WORDS = {
    "train": ("train", "training", "0"),
    "validation": ("validation", "valid", "val", "1"),
    "test": ("test", "testing", "2"),
}
#: Shares of the rows, where the file does not say.
SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}
#: A larger table would not fit into the memory of most machines, and neither would its features as numbers.
MOST_BYTES = 2**32


@dataclass(frozen=True, eq=False)
class OwnData:
    """The rows of a file, and the part of the data that each belongs to."""

    features: np.ndarray
    targets: np.ndarray
    #: (N,) of PARTS.
    splits: np.ndarray
    #: What its owner should know about how the file was read.
    notices: tuple[str, ...] = ()

    def part(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        chosen = self.splits == name
        return self.features[chosen], self.targets[chosen]

    def projected(self, num_components: int) -> "OwnData":
        """The first principal components of the features, as the training rows have them."""
        is_train = self.splits == "train"
        most = min(int(is_train.sum()), self.features.shape[1])
        if not 1 <= num_components <= most:
            raise SettingError(f"--components {num_components}: expected a whole number from 1 to {most}")
        train = self.features[is_train]
        spread = train.std(axis=0)
        scaled = (self.features - train.mean(axis=0)) / np.where(spread > 0, spread, 1)
        axes = np.linalg.svd(scaled[is_train], full_matrices=False)[2][:num_components]
        return OwnData(scaled @ axes.T, self.targets, self.splits, self.notices)


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds."""

    features: np.ndarray
    targets: np.ndarray
    splits: np.ndarray | None
    #: Of the features' columns.
    names: list[str]
    left_out: str = ""


def read_own_data(path: Path, target: str = "target", split: str = "split", seed: int = 0) -> OwnData:
    """The data in a file; SettingError with what is wrong with it."""
    readers = {".npz": _from_npz, ".csv": _from_table, ".parquet": _from_table}
    if not path.exists():
        raise SettingError(f"no file {path}")
    if not path.is_file():
        what = "a folder" if path.is_dir() else "a device or a pipe"
        raise SettingError(f"{path} is {what}; expected a file ending in .npz, .csv or .parquet")
    kind = path.suffix.lower()
    if kind not in readers:
        raise SettingError(f"{path}: cannot read files ending in {kind!r}; expected .npz, .csv or .parquet")
    try:
        if path.stat().st_size > MOST_BYTES:
            raise SettingError(f"larger than {MOST_BYTES / 2**30:g} GB; save fewer rows or columns")
        found = readers[kind](path, target, split)
        # A column vector is what many libraries make of targets.
        is_column = found.targets.ndim == 2 and found.targets.shape[1] == 1
        targets = found.targets[:, 0] if is_column else found.targets
        _check_shapes(found.features, targets, found.splits)
        _check_finite(found.features, found.names)
        parts = _random_splits(len(targets), seed) if found.splits is None else _named_splits(found.splits)
    except (SettingError, Damaged) as error:
        raise SettingError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None
    sizes = ", ".join(f"{(parts == part).sum():,} {part}" for part in PARTS)
    how = "split at random" if found.splits is None else "as the file splits them"
    summary = f"{path.name}: {len(targets):,} rows of {found.features.shape[1]} features; {sizes}, {how}"
    return OwnData(found.features, targets, parts, (summary, *filter(None, [found.left_out])))


def _from_npz(path: Path, target: str, split: str) -> Contents:
    arrays = read_npz(path)
    for name in ("features", "targets"):
        if name not in arrays:
            raise SettingError(
                f"no array {name!r}, only {', '.join(map(repr, arrays)) or 'nothing'}; save it with "
                "np.savez(path, features=…, targets=…)"
            )
    features = arrays["features"]
    names = [str(number) for number in range(features.shape[1])] if features.ndim == 2 else []
    return Contents(features, arrays["targets"], arrays.get("splits"), names)


def _from_table(path: Path, target: str, split: str) -> Contents:
    table = _table(path)
    if target not in table:
        if len(table.columns) == 1:
            raise SettingError(
                f"only one column, {str(table.columns[0])!r}: columns must be separated by commas, and named in the "
                "first line"
            )
        raise SettingError(
            f"{unknown('column', target, map(str, table.columns))} (--target names the column of targets)"
        )
    features = table.drop(columns=[name for name in (target, split) if name in table])
    left_out = ""
    if _is_index(features):
        left_out = "the first column has no name and counts the rows; it is left out"
        features = features.iloc[:, 1:]
    if not len(features.columns):
        raise SettingError(f"there is no column but the targets {target!r}, so there are no features")
    for name in features:
        if features[name].dtype.kind not in "biuf":
            raise SettingError(
                f"the column {str(name)!r} is not numeric: it has {str(features[name].iloc[0])!r} in its first row; "
                "drop it, or encode it as numbers"
            )
    targets = table[target]
    if targets.isna().any():
        raise SettingError(f"the column {target!r} is empty in {targets.isna().sum()} of {len(table)} rows; drop them")
    values = targets.to_numpy()
    if values.dtype.kind not in "biuf":
        if any(isinstance(value, bytes) for value in values):
            raise SettingError(f"the column {target!r} holds bytes; save numbers, or names of classes as text")
        values = targets.astype(str).to_numpy(np.str_)
    splits = table[split].astype(str).to_numpy(np.str_) if split in table else None
    numbers = features.to_numpy(np.float64, na_value=np.nan)
    return Contents(numbers, values, splits, [repr(str(name)) for name in features], left_out)


def _is_index(features: "pd.DataFrame") -> bool:
    """Is the first column the row numbers that pandas writes without a name into a .csv file?"""
    if not len(features.columns) or features.columns[0] != "Unnamed: 0":
        return False
    values = features.iloc[:, 0]
    return values.dtype.kind in "iu" and bool(values.is_unique)


def _table(path: Path) -> "pd.DataFrame":
    import pandas as pd

    try:
        if path.suffix.lower() == ".csv":
            table: pd.DataFrame = pd.read_csv(path)
        else:
            _check_parquet(path)
            table = pd.read_parquet(path)
    # Errors of the parsers, and of Parquet's library, are of all these kinds.
    except (ValueError, TypeError, LookupError, OSError) as error:
        line = str(error).partition("\n")[0]
        raise SettingError(f"{path} cannot be read: {line}") from None
    if table.empty:
        raise SettingError("no rows, or no columns")
    return table


def _check_parquet(path: Path) -> None:
    """A few bytes of Parquet can stand for any number of equal values."""
    from pyarrow.parquet import read_metadata

    found = read_metadata(path)
    if 8 * found.num_rows * found.num_columns > MOST_BYTES:
        raise SettingError(f"{found.num_rows:,} rows of {found.num_columns:,} columns; save fewer of them")


def _check_shapes(features: np.ndarray, targets: np.ndarray, splits: np.ndarray | None) -> None:
    if features.ndim != 2 or 0 in features.shape:
        raise SettingError(f"features have shape {features.shape}; expected (rows, columns), none of them 0")
    if targets.ndim == 2 and len(targets) == len(features):
        raise SettingError(f"targets have shape {targets.shape}; expected one number per row, such as a class number")
    for name, array in (("targets", targets), ("splits", splits)):
        if array is not None and array.shape != features.shape[:1]:
            raise SettingError(
                f"features have {len(features)} rows and {name} have shape {array.shape}; expected one per row"
            )


def _check_finite(features: np.ndarray, names: list[str]) -> None:
    """Here, where the rows and columns are still those of the file."""
    is_bad = ~np.isfinite(features) if features.dtype.kind == "f" else np.zeros(features.shape, bool)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        raise SettingError(
            f"NaN or infinity in {is_bad.any(axis=1).sum()} of {len(features)} rows, the first in row {row} "
            f"(counted from 0), column {names[column]}; drop these rows or fill them in"
        )


def _named_splits(splits: np.ndarray) -> np.ndarray:
    """The parts by their own names; a mistyped one, and a part without rows, is an error."""
    known = {word: part for part, words in WORDS.items() for word in words}
    found = np.array([known.get(_word(value), "") for value in splits])
    strange = np.flatnonzero(found == "")
    if len(strange):
        row = int(strange[0])
        raise SettingError(
            f"row {row} (counted from 0) has the split {_word(splits[row])!r}; expected train, validation or test"
        )
    for part in PARTS:
        if part not in found:
            raise SettingError(
                f"no row has the split {part!r}; validation rows are needed to choose n, and test rows to judge it"
            )
    return found


def _word(value: Any) -> str:
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if is_whole else value).strip().lower()


def _random_splits(num_rows: int, seed: int) -> np.ndarray:
    counts = {part: int(share * num_rows) for part, share in SHARES.items()}
    if min(counts.values()) < 1:
        raise SettingError(f"{num_rows} rows are too few to be split into train, validation and test")
    counts["train"] += num_rows - sum(counts.values())
    return np.random.default_rng(seed).permutation(np.repeat(list(counts), list(counts.values())))
