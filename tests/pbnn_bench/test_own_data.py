"""Files of a user's own: what they may look like, and the one line that each mistake gets."""

import io
import os
import re
import resource
import zipfile

import numpy as np
import pandas as pd
import pytest

from pbnn_bench import own_data
from pbnn_bench.cli import main
from pbnn_bench.own_data import read_own_data
from tests.browser import opened_browser
from tests.reports.page_checks import assert_page_works

SHORT = ["--sizes", "120", "--set", "num_steps=1000", "--set", "num_warmup=100"]


def good(num_rows: int = 200, num_columns: int = 3) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(num_rows, num_columns))
    targets = (features[:, 0] + generator.logistic(size=num_rows) > 0).astype(int)
    return {
        "features": features,
        "targets": targets,
        "splits": np.repeat(["train", "validation", "test"], [120, 40, 40]),
    }


def table(**columns: object) -> pd.DataFrame:
    data = good()
    named = {f"x{number}": column for number, column in enumerate(data["features"].T)}
    return pd.DataFrame(named | {"target": data["targets"], "split": data["splits"]} | columns)


def refusal(path, capsys, *words: str) -> str:
    assert main(["calibrate", "--features", str(path), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1, captured.err
    return captured.err


def without(name: str) -> dict[str, np.ndarray]:
    return {key: array for key, array in good().items() if key != name}


def changed(name: str, index: object, value: object) -> dict[str, np.ndarray]:
    arrays = good()
    arrays[name] = arrays[name].astype(float) if isinstance(value, float) else arrays[name].copy()
    arrays[name][index] = value
    return arrays


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        (without("features"), r"no array 'features', only 'targets', 'splits'; save it with np\.savez"),
        (changed("features", (17, 2), np.nan), r"in 1 of 200 rows, .* row 17 .counted from 0., column 2;"),
        (changed("features", (130, 0), np.inf), r"in 1 of 200 rows, .* row 130 .counted from 0., column 0;"),
        (changed("targets", 3, np.nan), r"training targets have NaN or infinity in 1 of 120 rows, the first in row 3"),
        (good() | {"features": np.zeros(200)}, r"features have shape \(200,\); expected \(rows, columns\)"),
        (good() | {"targets": np.zeros(199, int)}, r"features have 200 rows and targets have shape \(199,\)"),
        (good() | {"targets": np.ones((200, 2))}, r"targets have shape \(200, 2\); expected one number per row"),
        (good() | {"features": np.zeros((200, 2))}, r"all 2 feature columns are constant over the training points"),
        (good() | {"targets": np.zeros(200, int)}, r"all training targets are 0: there is nothing to predict"),
        (changed("targets", 199, 7), r"the class 7 is in the test points \(1 of them\) and not in the tr"),
        (changed("splits", 0, "tra"), r".* has the split 'tra'; expected train, validation or test"),
        (good() | {"splits": np.repeat(["train", "test"], 100)}, r"no row has the split 'validation'"),
        (good() | {"features": np.full((200, 2), "a")}, r"training features are not numbers"),
        (good() | {"targets": np.arange(200) // 3}, r"the class 40 is in the .* numbers and not classes, give the"),
        (good() | {"targets": np.arange(200)}, r"120 classes in 120 points; if the targets are numbers"),
        (good(5), r"features have 5 rows and splits have shape \(200,\)"),
        ({"features": good(4)["features"], "targets": np.arange(4) % 2}, r"4 rows are too few to be split"),
        (good() | {"features": good()["features"] * 5e-324}, r"feature columns have an sd of .* too small or"),
        (good() | {"features": good()["features"] * 1e200}, r"feature columns have an sd of .* too small or"),
        (good() | {"targets": good()["features"][:, 0] * 1e-300}, r"training targets have an sd of .* too small or"),
        (good() | {"splits": np.full(200, np.nan)}, r"row 0 .* has the split 'nan'; expected train"),
        (good() | {"splits": np.full(200, np.inf)}, r"row 0 .* has the split 'inf'; expected train"),
    ],
)  # fmt: skip
def test_an_archive_that_is_wrong_gets_one_clear_line(arrays, expected, tmp_path, capsys):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    assert re.search(rf"^error: {re.escape(str(path))}: .*{expected}", refusal(path, capsys))


@pytest.mark.parametrize("name", ["mine.npz", "mine.parquet"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not really", b"PAR1 neither"])
def test_what_cannot_be_read_is_named(name, content, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(content)
    assert str(path) in refusal(path, capsys)


def npz_of(path, features: bytes, num_megabytes: int = 0) -> None:
    """Targets that are right, and features with so many zeros after the bytes given."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("targets.npy", npy((3,), bytes(24)))
        with archive.open("features.npy", "w") as member:
            member.write(features)
            for _ in range(num_megabytes):
                member.write(bytes(2**20))


def npy(shape: tuple[int, ...], data: bytes = b"") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return file.getvalue() + data


@pytest.mark.parametrize("name", ["header", "no array", "bomb", "pickle"])
def test_an_archive_made_to_do_harm_is_refused_in_bounded_memory(name, tmp_path, capsys):
    path = tmp_path / "mine.npz"
    if name == "header":
        npz_of(path, npy((10**15,)))
    if name == "no array":
        npz_of(path, b"no array")
    if name == "bomb":
        npz_of(path, npy((9 * 2**24,)), 9 * 2**7)
    if name == "pickle":
        np.savez(path, features=np.array([{}], dtype=object), targets=np.zeros(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert str(path) in refusal(path, capsys)
    # Kilobytes: a quarter of what the bomb unpacks to.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**19


def test_only_a_regular_file_of_some_size_is_read(tmp_path, capsys, monkeypatch):
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.npz", "zero.csv"):
        assert "is a device or a pipe" in refusal(tmp_path / name, capsys)
    table(target=[b"yes", b"no"] * 100).to_parquet(tmp_path / "bytes.parquet")
    assert "the column 'target' holds bytes" in refusal(tmp_path / "bytes.parquet", capsys)
    pd.DataFrame(np.zeros((20_000, 5))).to_parquet(tmp_path / "large.parquet")
    table().to_csv(tmp_path / "large.csv")
    monkeypatch.setattr(own_data, "MOST_BYTES", 10_000)
    assert "20,000 rows of 5 columns; save fewer of them" in refusal(tmp_path / "large.parquet", capsys)
    assert "save fewer rows or columns" in refusal(tmp_path / "large.csv", capsys)


def test_the_row_numbers_that_pandas_writes_are_no_feature(tmp_path):
    table().to_csv(tmp_path / "mine.csv")
    found = read_own_data(tmp_path / "mine.csv")
    assert found.features.shape == (200, 3)
    assert "the first column has no name and counts the rows; it is left out" in found.notices


def test_a_table_that_is_wrong_gets_one_clear_line(tmp_path, capsys):
    one_column = table()[["x0"]].rename(columns={"x0": "x0;x1;target"})
    empty_cell = table(x1=[np.nan] + [1.0, 2.0] * 99 + [1.0])
    for frame, expected in (
        (table().rename(columns={"target": "targt"}), "no column 'target'; did you mean 'targt'? (--target names"),
        (table()[["target"]], "no column but the targets 'target', so there are no features"),
        (one_column, "only one column, 'x0;x1;target': columns must be"),
        (table(city="Rome"), "the column 'city' is not numeric: it has 'Rome' in its first row; drop it, or"),
        (table(target=[None] + [1] * 199), "the column 'target' is empty in 1 of 200 rows"),
        (empty_cell, "NaN or infinity in 1 of 200 rows, the first in row 0 (counted from 0), column 'x1'; drop"),
        (table().iloc[:0], "no rows, or no columns"),
    ):
        frame.to_csv(tmp_path / "mine.csv", index=False)
        assert expected in refusal(tmp_path / "mine.csv", capsys)


def test_mistakes_in_the_words_are_found_before_any_chain_is_run(tmp_path, capsys):
    (tmp_path / "mine.txt").touch()
    for name, expected in (("none.npz", "no file"), ("", "is a folder"), ("mine.txt", "expected .npz, .csv or")):
        assert expected in refusal(tmp_path / name, capsys)
    path = tmp_path / "mine.npz"
    np.savez(path, **good())
    for words, expected in (
        ("--components 4", "expected a whole number from 1 to 3"),
        ("--likelihood poison", "no likelihood 'poison'"),
        ("--prior-scale -1", "prior_scale = -1.0 must be"),
        (f"--out {tmp_path}", "is a folder"),
        (f"--out {path}/page.html", "cannot be written: "),
        ("--method pbn", "no method 'pbn'; did you mean 'pbnn'?"),
        ("--set num_step=3", "no setting 'num_step'; did you mean 'num_steps'?"),
        ("--backend gpu", "no backend 'gpu'; valid: jax-cpu"),
        ("--sizes 0", "n = 0 must be a whole number from 1 to the 120 training points"),
        ("--criterion mse", "no criterion 'mse'; valid: nll, ece"),
    ):
        assert main(["calibrate", "--features", str(path), *words.split()]) == 2
        *notices, error = capsys.readouterr().err.splitlines()
        assert error.startswith("error: ") and expected in error
        assert not any(line.endswith(" s") for line in notices), "a candidate was run"


@pytest.mark.parametrize("kind", ["npz", "csv", "parquet"])
def test_every_kind_of_file_is_the_same_data(kind, tmp_path):
    path = tmp_path / f"mine.{kind}"
    if kind == "npz":
        np.savez(path, **good())
    else:
        getattr(table(), f"to_{kind}")(path, index=False)
    # Extensions in capitals are common on some systems.
    path = path.rename(path.with_suffix(path.suffix.upper()))
    found = read_own_data(path)
    np.testing.assert_allclose(found.features, good()["features"], rtol=1e-12)
    np.testing.assert_array_equal(found.targets, good()["targets"])
    assert [len(found.part(name)[1]) for name in ("train", "validation", "test")] == [120, 40, 40]


def test_splits_may_be_numbers_and_are_made_where_there_are_none(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **good() | {"splits": np.repeat([0.0, 1.0, 2.0], [120, 40, 40])})
    assert read_own_data(path).notices[0].endswith("120 train, 40 validation, 40 test, as the file splits them")
    np.savez(path, **without("splits") | {"targets": good()["targets"][:, None]})
    found, again = read_own_data(path, seed=1), read_own_data(path, seed=1)
    assert "split at random" in found.notices[0]
    np.testing.assert_array_equal(found.splits, again.splits)
    assert {part: int((found.splits == part).sum()) for part in set(found.splits)} == {
        "train": 120, "validation": 40, "test": 40,
    }  # fmt: skip
    assert (read_own_data(path, seed=2).splits != found.splits).any()


def test_principal_components_are_those_of_a_library(tmp_path):
    from sklearn.decomposition import PCA

    path = tmp_path / "mine.npz"
    np.savez(path, **good(num_columns=5))
    data = read_own_data(path)
    train = data.part("train")[0]
    scaled = (data.features - train.mean(axis=0)) / train.std(axis=0)
    expected = PCA(2, svd_solver="full").fit(scaled[:120]).transform(scaled)
    np.testing.assert_allclose(np.abs(data.projected(2).features), np.abs(expected), atol=1e-9)


def test_calibrate_prints_a_table_and_writes_a_page_that_stands_alone(tmp_path, capsys):
    """Names of classes, a column that says nothing, and a name that has to be escaped."""
    path, page = tmp_path / "a <b> file.csv", tmp_path / "page.html"
    frame = table(same=1.0)
    frame["target"] = np.where(frame["target"] == 1, "yes", "no")
    frame.to_csv(path, index=False)
    assert main(["calibrate", "--features", str(path), "--out", str(page), *SHORT]) == 0
    captured = capsys.readouterr()
    assert "constant over the training points are left out: 3" in captured.err
    assert "2 classes, 4 parameters" in captured.err
    assert "temperature scaling" in captured.out and "all the data (n = 120) are chosen" in captured.out
    text = page.read_text()
    assert "a &lt;b&gt; file.csv" in text and "<b>" not in text
    with opened_browser() as browser:
        assert_page_works(browser, page)
    assert text.count('<th scope="row"') == 4 and text.count('<tr class="chosen">') == 1
    assert text.count("<figcaption>") == 3
