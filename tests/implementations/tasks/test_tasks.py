"""The table of tasks and the problems made from it."""

import struct
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

from implementations.infrastructure.errors import SettingError
from implementations.tasks import TASKS, prepare
from implementations.tasks.data import digits, linear, logistic, mnist, regression
from implementations.tasks.data.synthetic import on_curve
from implementations.tasks.problem import Problem, network_outputs
from implementations.tasks.task import Task
from implementations.tasks.training import Adam, train_network


def test_the_table_costs_no_heavy_import() -> None:
    heavy = ("torch", "jax", "sklearn", "scipy", "pandas")
    code = f"import sys, implementations.tasks; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("name", "stochastic"),
    [
        *((name, "last") for name in ("linear", "regression", "digits", "logistic")),
        *((name, "all") for name in ("regression", "digits")),
    ],
)
def test_a_problem_is_what_the_table_says(problem, name, stochastic) -> None:
    task, prepared = TASKS[name], problem(name, stochastic=stochastic)
    assert prepared.num_points == task.num_points
    assert prepared.num_parameters == task.num_parameters(stochastic) == len(prepared.map)
    assert prepared.layers == (task.layers[-1:] if stochastic == "last" else task.layers)
    for part in ("", "validation_", "test_"):
        features, targets = getattr(prepared, f"{part}features"), getattr(prepared, f"{part}targets")
        assert features.dtype == np.float32 and features.shape == (len(targets), prepared.layers[0][0])
        assert (features[:, 0] == 1).all()
        assert targets.dtype == (np.float32 if task.likelihood == "gaussian" else np.int32)
    assert prepared.map.dtype == np.float32
    assert prepared.inputs.shape == (task.num_points, 1 if name in ("linear", "regression") else 0)


def test_a_problem_file_needs_numpy_alone_and_comes_back_the_same(problem, tmp_path) -> None:
    prepared = problem("regression")
    prepared.save(tmp_path / "problem.npz")
    with np.load(tmp_path / "problem.npz", allow_pickle=False) as archive:
        arrays = dict(archive)
    assert {"features", "targets", "test_features", "test_targets", "map"} <= set(arrays)
    again = Problem.load(tmp_path / "problem.npz")
    for name in Problem.__dataclass_fields__:
        before, after = getattr(prepared, name), getattr(again, name)
        assert type(before) is type(after)
        np.testing.assert_array_equal(before, after)


def test_the_same_seed_gives_the_same_problem_and_another_seed_another(problem) -> None:
    first, again, other = problem("digits"), prepare("digits", 0, progress=False), prepare("digits", 1, progress=False)
    for name in ("features", "targets", "validation_features", "test_features", "map", "curvature"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        assert not np.array_equal(getattr(first, name), getattr(other, name))


def test_the_seed_moves_all_synthetic_data_but_never_the_test_images() -> None:
    first, other = linear.TASK.load(0, Path()), linear.TASK.load(1, Path())
    for part in ("train", "validation", "test"):
        assert not np.isin(getattr(first, part).inputs, getattr(other, part).inputs).any()
    first, other = digits.load(0, Path()), digits.load(1, Path())
    np.testing.assert_array_equal(first.test.inputs, other.test.inputs)
    assert not np.array_equal(first.train.inputs, other.train.inputs)


def test_a_task_of_another_size_is_the_same_task_with_more_points() -> None:
    problem = prepare("linear", 0, num_points=100_000)
    assert problem.num_points == 100_000
    # With so many points the mode is the line itself, to three posterior standard deviations 0.5 / sqrt(N (1, 1/3)).
    np.testing.assert_allclose(problem.map, [0.3, 0.8], atol=3 * 0.5 / np.sqrt(100_000 / 3))
    usual = prepare("linear", 0)
    np.testing.assert_array_equal(problem.test_targets, usual.test_targets)
    with pytest.raises(SettingError, match="num_points = 2000000000 must be a whole number"):
        prepare("linear", 0, num_points=2_000_000_000)


def test_fresh_points_are_of_the_same_law_and_leave_the_rest_alone() -> None:
    usual, fresh = prepare("linear", 0), prepare("linear", 0, fresh_points=100_000)
    assert fresh.num_points == 100_000
    assert not np.isin(usual.features[:, 1], fresh.features[:, 1]).any()
    np.testing.assert_array_equal(usual.test_features, fresh.test_features)
    np.testing.assert_allclose(fresh.map, [0.3, 0.8], atol=3 * 0.5 / np.sqrt(100_000 / 3))
    with pytest.raises(SettingError, match="no distribution is known for the data of 'digits'"):
        prepare("digits", 0, fresh_points=100)


def test_logistic_data_follow_their_parameters_across_the_chunks_they_are_drawn_in() -> None:
    num_points = 3 * logistic.CHUNK + 5
    tall = prepare("logistic", 0, num_points=num_points, progress=False)
    covariance = np.linalg.inv(num_points * tall.curvature)
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), tall.map - logistic.PARAMETERS)
    # The squared length of eight standard normals stays below 26 in 999 of 1,000 cases.
    assert whitened @ whitened < 26
    assert np.unique(tall.targets).tolist() == [0, 1]
    inputs = tall.features[:, 1:]
    assert np.abs(inputs.mean(axis=0)).max() < 5 / np.sqrt(num_points)
    np.testing.assert_allclose(np.cov(inputs, rowvar=False), np.eye(7), atol=5 * np.sqrt(2 / num_points))
    assert len(np.unique(inputs[:: logistic.CHUNK])) == 4 * 7, "every chunk has random numbers of its own"
    usual = prepare("logistic", 0, progress=False)
    np.testing.assert_array_equal(tall.test_features, usual.test_features)


def test_synthetic_points_follow_their_curve_with_their_noise() -> None:
    points = on_curve(np.sin, 0.3)(np.random.default_rng(0), 20_000)
    noise = points.targets - np.sin(points.inputs[:, 0])
    assert abs(noise.mean()) < 4 * 0.3 / np.sqrt(20_000)
    assert abs(noise.std() / 0.3 - 1) < 4 / np.sqrt(2 * 20_000)
    assert abs(points.inputs.mean()) < 4 / np.sqrt(3 * 20_000) and np.abs(points.inputs).max() <= 1


@pytest.mark.parametrize("name", ["regression", "digits"])
@pytest.mark.parametrize("stochastic", ["last", "all"])
def test_the_cut_network_gives_the_outputs_of_the_whole_one(problem, name, stochastic) -> None:
    prepared, inputs = problem(name, stochastic=stochastic), torch.from_numpy(TASKS[name].load(0, Path()).test.inputs)
    weights = [*prepared.body, *_matrices(prepared)]
    whole = torch.nn.Sequential(_linear(weights[0]), torch.nn.Tanh(), _linear(weights[1]))
    cut = network_outputs(prepared.map, prepared.test_features, prepared.layers)
    np.testing.assert_allclose(cut, whole(inputs).detach().numpy(), rtol=1e-4, atol=1e-4)


def _matrices(problem: Problem) -> list[np.ndarray]:
    sizes = [rows * columns for rows, columns in problem.layers]
    pieces = np.split(problem.map, np.cumsum(sizes)[:-1])
    return [piece.reshape(shape) for piece, shape in zip(pieces, problem.layers, strict=True)]


def _linear(matrix: np.ndarray) -> torch.nn.Linear:
    layer = torch.nn.Linear(matrix.shape[0] - 1, matrix.shape[1])
    layer.load_state_dict({"weight": torch.from_numpy(matrix[1:].T.copy()), "bias": torch.from_numpy(matrix[0].copy())})
    return layer


def _short(num_epochs: int) -> Task:
    return replace(regression.TASK, training=replace(regression.TASK.training, num_epochs=num_epochs))


def test_training_minimises_the_negative_log_posterior_of_its_own_prior() -> None:
    points = regression.TASK.load(0, Path()).train
    trained = {
        prior: train_network(_short(1000), points, 0, prior=prior, prior_scale=0.02, progress=False)
        for prior in ("gaussian", "laplace")
    }

    def negative_log_posterior(weights: tuple[np.ndarray, ...], prior: str) -> float:
        first, last = weights
        errors = (last[0] + np.tanh(first[0] + points.inputs @ first[1:]) @ last[1:])[:, 0] - points.targets
        values = np.concatenate([first.ravel(), last.ravel()]) / 0.02
        penalty = np.abs(values).sum() if prior == "laplace" else (values**2).sum() / 2
        return float((errors**2).sum() / (2 * 0.05**2) + penalty)

    for own, other in (("gaussian", "laplace"), ("laplace", "gaussian")):
        # 0.19 and 0.84; squares in the place of |theta| give 0.93.
        assert negative_log_posterior(trained[own], own) < 0.88 * negative_log_posterior(trained[other], own)


def test_adam_is_that_of_torch_bit_for_bit_without_the_import_of_its_compiler() -> None:
    random = torch.Generator().manual_seed(0)
    start = [torch.randn(shape, generator=random) for shape in ((2, 7), (8, 1))]
    # Sizes from tiny to huge, and a gradient of zeros.
    gradients = [
        [scale * torch.randn(weight.shape, generator=random) for weight in start] for scale in (1e-9, 0, 1, 1e6)
    ]
    ours, theirs = ([weight.clone().requires_grad_() for weight in start] for _ in range(2))
    adam, of_torch = Adam(ours, 0.01), torch.optim.Adam(theirs, 0.01)
    for step in 25 * gradients:
        adam.step(step)
        for weight, gradient in zip(theirs, step, strict=True):
            weight.grad = gradient
        of_torch.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))

    code = (
        "import sys; from pathlib import Path; from implementations.tasks import find_task;"
        "from implementations.tasks.training import Adam, train_network; task = find_task('regression', 10, 2);"
        "train_network(task, task.load(0, Path()).train, 0, prior='gaussian', prior_scale=1, progress=False);"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[3]).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "regresion"}, "no task 'regresion'; did you mean 'regression'?"),
        ({"name": "cifar"}, f"no task 'cifar'; valid: {', '.join(TASKS)}"),
        ({"stochastic": "lats"}, "no stochastic part 'lats'; did you mean 'last'?"),
        ({"prior": "gausian"}, "no prior 'gausian'; did you mean 'gaussian'?"),
        ({"prior_scale": 0.0}, "prior_scale = 0.0 must be positive"),
        ({"prior_scale": float("nan")}, "prior_scale = nan is not a number"),
        ({"seed": -1}, "seed = -1 must be a whole number from 0 to 2147483647"),
        ({"seed": 1.5}, "seed = 1.5 must be a whole number from 0 to 2147483647"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected(arguments, message) -> None:
    with pytest.raises(SettingError) as error:
        prepare(**({"name": "linear", "seed": 0} | arguments))
    assert str(error.value) == message


@pytest.fixture
def made_up_mnist(tmp_path, monkeypatch) -> Path:
    """A data folder with 120 and 30 images of noise in MNIST's format, and the table's entry to match."""
    random = np.random.default_rng(0)
    checksums = {}
    for name in mnist.FILES:
        number = 120 if name.startswith("train") else 30
        if "images" in name:
            content = struct.pack(">4i", 0x803, number, 28, 28) + random.bytes(number * 784)
        else:
            content = struct.pack(">2i", 0x801, number) + bytes(index % 10 for index in range(number))
        path = tmp_path / "mnist" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        checksums[name] = sha256(content).hexdigest()
    monkeypatch.setattr(mnist, "FILES", checksums)
    monkeypatch.setattr(mnist, "NUM_POINTS", 100)
    return tmp_path


def test_mnist_is_read_scaled_and_split_by_the_seed(made_up_mnist) -> None:
    data, other = mnist.load(0, made_up_mnist), mnist.load(1, made_up_mnist)
    assert data.train.inputs.shape == (100, 784) and data.validation.inputs.shape == (20, 784)
    content = (made_up_mnist / "mnist" / "t10k-images-idx3-ubyte").read_bytes()
    pixels = np.array([content[16 + 784 * 7 + pixel] for pixel in range(784)]) / 255
    np.testing.assert_allclose(data.test.inputs[7], pixels, rtol=1e-6)
    np.testing.assert_array_equal(data.test.targets, np.arange(30) % 10)
    np.testing.assert_array_equal(data.test.inputs, other.test.inputs)
    assert not np.array_equal(data.train.targets, other.train.targets)
    # Images keep their labels through the shuffle.
    images = np.frombuffer((made_up_mnist / "mnist" / "train-images-idx3-ubyte").read_bytes()[16:], np.uint8)
    where = [np.flatnonzero((images.reshape(120, 784) == np.rint(row * 255)).all(axis=1)) for row in data.train.inputs]
    np.testing.assert_array_equal(np.concatenate(where) % 10, data.train.targets)
