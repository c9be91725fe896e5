"""The command `pbnn-bench references`, on a made-up library of references."""

import json

import numpy as np
import pytest

from pbnn_bench.cli import main
from records.network_references import make, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One short, and therefore unusable, reference of digits, and a copy of it that passes its gate."""
    folder = tmp_path_factory.mktemp("references")
    record, arrays = make("digits", 0, 100.0, folder, most_draws=100)
    write(folder, record, arrays)
    passing = {"r_hat": 1.001, "min_ess": 3000.0, "median_ess": 4000.0, "halves": 0.02, "expected_halves": 0.03}
    write(
        folder,
        {**record, "split": 1, "gate": {**record["gate"], **passing, "width_ratio": 1.0, "outlier": 3.0}},
        arrays,
    )
    return folder


def run(folder, *words):
    return main(["references", *words, "--folder", str(folder)])


def test_list_and_verify_say_what_passed(folder, capsys):
    assert run(folder, "list") == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == ["digits/weight100", "1,617", "1,510", "2", "1"]
    assert run(folder, "verify") == 0
    out = capsys.readouterr().out
    assert "split0.json failed its gate: R-hat" in out
    assert out.endswith("2 references: 0 damaged, 1 failed their gate and judge nothing\n")


def test_verify_notices_a_reference_of_other_rows(folder, capsys):
    """The copy says that it is of split 1, and its numbers are those of split 0."""
    assert run(folder, "verify", "--data", str(folder)) == 1
    assert "split1.json was made from other rows" in capsys.readouterr().out


def test_a_changed_number_is_damage(folder, tmp_path, capsys):
    copy = tmp_path / "digits" / "weight100"
    copy.mkdir(parents=True)
    for path in (folder / "digits" / "weight100").glob("split1.*"):
        content = bytearray(path.read_bytes())
        content[-30] ^= path.suffix == ".npz"
        (copy / path.name).write_bytes(content)
    assert run(tmp_path, "verify") == 1
    assert "split1.npz is damaged" in capsys.readouterr().out


def test_export_has_a_row_per_test_point_and_class(folder, tmp_path):
    out = tmp_path / "digits.csv"
    assert run(folder, "export", "digits/weight100/split1", "--out", str(out)) == 0
    table = np.genfromtxt(out, delimiter=",", names=True)
    assert len(table) == 180 * 10
    with np.load(folder / "digits" / "weight100" / "split1.npz") as arrays:
        np.testing.assert_allclose(table["mean"], arrays["mean"].ravel(), rtol=1e-5)


def test_the_reference_scores_itself_perfectly(folder, tmp_path, capsys):
    with np.load(folder / "digits" / "weight100" / "split1.npz") as arrays:
        mean, sd = arrays["mean"].astype(float), arrays["sd"].astype(float)
    np.savez(tmp_path / "mine.npz", outputs=np.stack([mean - sd, mean + sd]))
    assert run(folder, "score", "digits/weight100/split1", "--predictions", str(tmp_path / "mine.npz")) == 0
    numbers, _, line = capsys.readouterr().out.rpartition("mean error")
    found = json.loads(numbers)
    assert found["mean_error"] == pytest.approx(0, abs=1e-4)
    # float16 and float32 round near ties between classes.
    assert found["agreement"] > 0.98
    assert "not resolved" in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("score", "digits/weight100/split1"), "needs --predictions"),
        (("export", "digits"), "2 match"),
        (("list", "digit"), "did you mean 'digits'"),
        (("score", "digits/weight100/split0", "--predictions", "good"), "R-hat"),
        (("score", "digits/weight100/split1", "--predictions", "bad"), "expected (draws, 180, 10)"),
    ],
)
def test_mistakes_get_a_line(folder, tmp_path, capsys, words, told):
    np.savez(tmp_path / "good.npz", outputs=np.zeros((2, 180, 10)))
    np.savez(tmp_path / "bad.npz", outputs=np.zeros((2, 18)))
    words = [str(tmp_path / f"{word}.npz") if word in ("good", "bad") else word for word in words]
    assert run(folder, *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
