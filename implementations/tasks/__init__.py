"""The tasks, and ``prepare``: from a task's name and a seed to the problem that every method works on."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from implementations.infrastructure.errors import SettingError, unknown
from implementations.kernels.permutation import LARGEST_DOMAIN
from implementations.plugins import absolute, checksum, is_plugin, load
from implementations.tasks.data import (
    adult,
    california,
    counts,
    density,
    diamonds,
    digits,
    fashion,
    flights,
    linear,
    logistic,
    mnist,
    mnist_conv,
    regression,
)
from implementations.tasks.data.features import with_features
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.likelihoods.density import midpoints
from implementations.tasks.networks import Network
from implementations.tasks.problem import Problem, body_features
from implementations.tasks.task import PRIOR_SCALE, PRIORS, Data, Points, Task

P = TypeVar("P", bound=Problem)

TASKS: dict[str, Task] = {
    module.TASK.name: module.TASK
    for module in (
        *(linear, regression, california, diamonds),
        *(digits, mnist, mnist_conv, fashion),
        *(logistic, flights, adult),
        *(counts, density),
    )
}


def find_task(
    name: str, num_points: int | None = None, num_epochs: int | None = None, fresh_points: int | None = None
) -> Task:
    """The task of a name, or of ``path/to/file.py:TASK`` or ``package.module:TASK``. Raises SettingError.

    Or a variant of it, where its data and its network allow. ``mnist-conv`` is ``mnist_conv``.

    ``num_points`` is another number of training points, and ``num_epochs`` of passes over them that train the network.
    With ``fresh_points`` the network is as ever, but what chains read are so many newly drawn points: a stand-in for a
    stream of data, in which no point comes twice.
    """
    found = _from_file(name) if is_plugin(name) else TASKS.get(name.replace("-", "_"))
    if found is None:
        raise SettingError(unknown("task", name, TASKS))
    task = _resized(found, num_points)
    if num_epochs is not None:
        if task.training is None:
            raise SettingError(f"num_epochs = {num_epochs}: {name!r} has no network to train")
        task = replace(task, training=replace(task.training, num_epochs=num_epochs))
    if fresh_points is None:
        return task
    if task.draw is None:
        others = ", ".join(other for other in TASKS if TASKS[other].draw)
        raise SettingError(
            f"fresh_points = {fresh_points}: no distribution is known for the data of {name!r}; tasks that have one: "
            f"{others}"
        )
    _check_count("fresh_points", fresh_points)
    return replace(task, num_points=fresh_points, is_fresh=True)


def _resized(task: Task, num_points: int | None) -> Task:
    name = task.name
    if num_points in (None, task.num_points):
        return task
    if task.resize is None:
        others = ", ".join(other for other in TASKS if TASKS[other].resize)
        raise SettingError(
            f"num_points = {num_points}: {name!r} always has {task.num_points}; tasks that can have others: {others}"
        )
    _check_count("num_points", num_points)
    return task.resize(num_points)


def _check_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= LARGEST_DOMAIN:
        raise SettingError(f"{name} = {count!r} must be a whole number from 2 to {LARGEST_DOMAIN}")


def _from_file(path: str) -> Task:
    task = load(path, Task)
    if task.name in TASKS:
        raise SettingError(f"{path}: the suite has a task {task.name!r} of its own; choose another name")
    return task


def prepare(
    name: str,
    seed: int,
    *,
    num_points: int | None = None,
    num_epochs: int | None = None,
    fresh_points: int | None = None,
    stochastic: str = "last",
    prior: str = "gaussian",
    prior_scale: float = 1.0,
    data_dir: Path = Path("data"),
    progress: bool = True,
) -> Problem:
    """The problem of a task and seed: data, trained network cut where the stochastic part begins, MAP and curvature."""
    task = find_task(name, num_points, num_epochs, fresh_points)
    check_options(task, seed, stochastic, prior, prior_scale)
    data = task.load(seed, data_dir)
    _check_targets(task, data)
    if task.features is not None:
        data = with_features(task, data, seed, data_dir / "features", progress)
    trained = _train(task, data.train, seed, prior, prior_scale, progress)
    if task.is_fresh and task.draw:
        data = replace(data, train=task.draw(seed, task.num_points))
    layers = task.stochastic_layers(stochastic)
    body = trained[: len(task.layers) - len(layers)]
    weights = trained[len(body) :] or (np.zeros(layers[0], np.float32),)
    problem = Problem(
        task=task.name,
        seed=seed,
        stochastic=stochastic,
        likelihood=task.likelihood,
        noise_sd=task.noise_sd,
        prior=prior,
        prior_scale=float(prior_scale),
        layers=layers,
        features=body_features(body, data.train.inputs, task.activation),
        targets=data.train.targets,
        validation_features=body_features(body, data.validation.inputs, task.activation),
        validation_targets=data.validation.targets,
        test_features=body_features(body, data.test.inputs, task.activation),
        test_targets=data.test.targets,
        map=np.concatenate([weight.ravel() for weight in weights]),
        curvature=np.zeros(0),
        inputs=_plottable(data.train),
        test_inputs=_plottable(data.test),
        body=body,
        activation=task.activation,
        network=own_network(task, name),
        **_grid(task, body),
    )
    # The raw inputs of millions of points take as much memory as their features.
    del data
    return at_mode(problem, progress)


def at_mode(problem: P, progress: bool = False) -> P:
    """The problem with its mode, where it has one stochastic layer, and the curvature there."""
    # The study checker imports this module for its table alone, which should not cost it scipy.
    from implementations.tasks.geometry import mean_curvature
    from implementations.tasks.references.mode import find_mode

    if problem.is_linear:
        # Training stops near the mode; what is compared with chains has to be at it.
        problem = replace(problem, map=find_mode(problem, problem.num_points, progress).astype(np.float32))
    return replace(problem, curvature=mean_curvature(problem, problem.map))


def check_options(task: Task, seed: int, stochastic: str, prior: str, prior_scale: float) -> None:
    """Can a problem of the task be prepared so? Raises SettingError."""
    task.check_stochastic(stochastic)
    if prior not in PRIORS:
        raise SettingError(unknown("prior", prior, PRIORS))
    PRIOR_SCALE.parse(prior_scale)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise SettingError(f"seed = {seed!r} must be a whole number from 0 to {2**31 - 1}")


def _check_targets(task: Task, data: Data) -> None:
    likelihood = find_likelihood(task.likelihood)
    for part, points in vars(data).items():
        try:
            likelihood.check_targets(points.targets, task.num_outputs)
        except SettingError as error:
            raise SettingError(f"{task.name}, the {part} points: {error}") from None


def _train(
    task: Task, points: Points, seed: int, prior: str, prior_scale: float, progress: bool
) -> tuple[np.ndarray, ...]:
    if task.training is None:
        return ()
    # torch takes two seconds to import, which a task without a network does not need.
    from implementations.tasks.training import train_network

    return train_network(task, points, seed, prior=prior, prior_scale=prior_scale, progress=progress)


def own_network(task: Task, path: str) -> Network | None:
    """The network of a task's own, if it has one, with where it is found again."""
    if task.network is None:
        return None
    named = path if is_plugin(path) else f"{__name__}.{path}:TASK"
    source = absolute(named, Path())
    return replace(task.network, source=source, checksum=checksum(source) or "")


def _grid(task: Task, body: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
    """Of a density: the features on its grid, and the truth there where it is known."""
    if task.support is None:
        return {}
    inputs = midpoints(task.support)
    truth = {} if task.truth is None else {"truth": task.truth(inputs)}
    return {"grid": body_features(body, inputs, task.activation), "grid_inputs": inputs, **truth}


def _plottable(points: Points) -> np.ndarray:
    """The raw inputs, or no columns of them where they are images."""
    # A copy: a view of no columns would keep all of them in memory.
    return points.inputs if points.inputs.shape[1] == 1 else points.inputs[:, :0].copy()
