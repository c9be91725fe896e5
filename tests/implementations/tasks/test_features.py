"""Tasks out of somebody's file, with a network that is not the suite's: its features are made once, and checked."""

from pathlib import Path

import numpy as np
import pytest

from implementations.infrastructure.errors import SettingError
from implementations.tasks import prepare
from implementations.tasks.data import digits, mnist_conv
from implementations.tasks.task import Points

#: A network of random cosines on digits, which notes every call in a file.
OWN = """
from pathlib import Path
import numpy as np
from implementations.tasks.data import digits
from implementations.tasks.task import Task

HERE = Path(__file__).parent

def features(train, seed):
    with (HERE / "calls").open("a") as file:
        file.write("fit ")
    weights = np.loadtxt(HERE / "weights.txt") * np.random.default_rng(seed).normal(size=(64, 6))
    return lambda inputs: np.cos(inputs @ weights)

TASK = Task(
    name="own_digits", summary="x", num_points=1200, layers=((7, 10),), likelihood="categorical",
    load=digits.load, features=features, files=(HERE / "weights.txt",),
)
"""


@pytest.fixture
def own(tmp_path):
    """The reference to a task in a file of its own."""
    folder = tmp_path / "somewhere"
    folder.mkdir()
    (folder / "weights.txt").write_text("0.5\n")
    (folder / "own.py").write_text(OWN)
    return folder / "own.py"


def calls(own: Path) -> int:
    return (own.parent / "calls").read_text().count("fit")


def test_the_problem_has_the_features_of_the_network(own, tmp_path):
    found = prepare(f"{own}:TASK", 3, data_dir=tmp_path, progress=False)
    data = digits.load(3, tmp_path)
    weights = 0.5 * np.random.default_rng(3).normal(size=(64, 6))
    for features, part in (
        (found.features, data.train),
        (found.validation_features, data.validation),
        (found.test_features, data.test),
    ):
        np.testing.assert_allclose(features[:, 1:], np.cos(part.inputs @ weights), atol=1e-6)
        np.testing.assert_array_equal(features[:, 0], 1)
    assert (found.task, found.layers, found.body) == ("own_digits", ((7, 10),), ())
    np.testing.assert_array_equal(found.test_targets, data.test.targets)


def test_features_are_made_once_for_each_content(own, tmp_path):
    def made(seed: int = 0, **options: object) -> np.ndarray:
        return prepare(f"{own}:TASK", seed, data_dir=tmp_path / "data", progress=False, **options).features

    first = made()
    np.testing.assert_array_equal(made(), first)
    np.testing.assert_array_equal(made(prior_scale=2.0), first)
    assert calls(own) == 1
    made(seed=1)
    assert calls(own) == 2
    # Other weights, then other code.
    (own.parent / "weights.txt").write_text("0.7\n")
    assert (made() != first).any() and calls(own) == 3
    own.write_text(OWN.replace("np.cos", "np.sin"))
    assert (made() != first).any() and calls(own) == 4


def test_damaged_features_are_named_and_made_again(own, tmp_path, capsys):
    first = prepare(f"{own}:TASK", 0, data_dir=tmp_path, progress=False).features
    (kept,) = (tmp_path / "features").glob("own_digits-*.npz")
    kept.write_bytes(kept.read_bytes()[:100])
    np.testing.assert_array_equal(prepare(f"{own}:TASK", 0, data_dir=tmp_path, progress=False).features, first)
    assert f"{kept} is damaged" in capsys.readouterr().err
    assert calls(own) == 2


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("np.cos(inputs @ weights)", "np.cos(inputs @ weights)[:, :5]", r"train features have shape \(1200, 5\); exp"),
        ("np.cos(inputs @ weights)", "np.log(inputs @ weights)", "train features are not finite in row 0, column"),
        ("np.cos(inputs @ weights)", "['a'] * len(inputs)", "train features are not numbers"),
        ("((7, 10),)", "((65, 20), (21, 10))", r"own.py, line 15: with features there is one layer"),
        ("categorical", "categoric", r"own.py, line 15: no likelihood 'categoric'; did you mean 'categorical'\?"),
        ("own_digits", "digits", "the suite has a task 'digits' of its own; choose another name"),
        ("own_digits", "Own digits", "name = 'Own digits' must be small letters"),
        ("TASK = ", "CARD = ", "no Task 'TASK'; .*CARD"),
        ("weights.txt\",)", "gone.txt\",)", "no file .*gone.txt, which its features are made from"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value encountered in log")
def test_a_task_that_cannot_be_right_is_refused_in_a_line(own, tmp_path, old, new, expected):
    own.write_text(OWN.replace(old, new))
    with pytest.raises(SettingError, match=expected):
        prepare(f"{own}:TASK", 0, data_dir=tmp_path, progress=False)


def test_the_convolutions_of_mnist_learn(monkeypatch):
    """On 8 x 8 digits, enlarged to 28 x 28: no download. The features then tell the classes of other images apart."""
    monkeypatch.setattr(mnist_conv, "NUM_EPOCHS", 6)
    monkeypatch.setattr(mnist_conv, "LEARNING_RATE", 5e-3)
    data = digits.load(0, Path())

    def enlarged(points: Points) -> np.ndarray:
        images = points.inputs.reshape(-1, 8, 8).repeat(3, axis=1).repeat(3, axis=2)
        return np.pad(images, ((0, 0), (2, 2), (2, 2))).reshape(len(images), 784)

    body = mnist_conv.features(Points(enlarged(data.train), data.train.targets), 0)
    train, test = body(enlarged(data.train)), body(enlarged(data.test))
    assert test.shape == (300, 20) and np.abs(test).max() <= 1
    # By the nearest mean of a class, which random features get right in two of three images.
    means = np.stack([train[data.train.targets == number].mean(axis=0) for number in range(10)])
    nearest = np.linalg.norm(test[:, None] - means, axis=2).argmin(axis=1)
    assert (nearest == data.test.targets).mean() > 0.9
