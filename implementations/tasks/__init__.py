"""The tasks, and ``prepare``: from a task's name and a seed to the problem that every method works on."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from implementations.names import SettingError, unknown
from implementations.permutation import LARGEST_DOMAIN
from implementations.tasks import digits, linear, mnist, regression
from implementations.tasks.problem import Problem, body_features
from implementations.tasks.task import PRIORS, STOCHASTIC, Points, Task

TASKS: dict[str, Task] = {module.TASK.name: module.TASK for module in (linear, regression, digits, mnist)}


def find_task(name: str, num_points: int | None = None) -> Task:
    """The task of a name; with another number of training points, where its data are drawn from a known law."""
    if name not in TASKS:
        raise SettingError(unknown("task", name, TASKS))
    task = TASKS[name]
    if num_points in (None, task.num_points):
        return task
    if task.resize is None:
        others = ", ".join(other for other in TASKS if TASKS[other].resize)
        raise SettingError(f"num_points = {num_points}: {name!r} has the {task.num_points} it has; others: {others}")
    if isinstance(num_points, bool) or not isinstance(num_points, int) or not 2 <= num_points <= LARGEST_DOMAIN:
        raise SettingError(f"num_points = {num_points!r} must be a whole number from 2 to {LARGEST_DOMAIN}")
    return task.resize(num_points)


def prepare(
    name: str,
    seed: int,
    *,
    num_points: int | None = None,
    stochastic: str = "last",
    prior: str = "gaussian",
    prior_scale: float = 1.0,
    data_dir: Path = Path("data"),
    progress: bool = True,
) -> Problem:
    """The problem of a task and seed: data, trained network cut where the stochastic part begins, MAP and curvature."""
    task = find_task(name, num_points)
    _check(seed, stochastic, prior, prior_scale)
    # The study checker imports this module for its table alone, which should not cost it scipy.
    from implementations.tasks.geometry import mean_curvature
    from implementations.tasks.mode import find_mode

    data = task.load(seed, data_dir)
    trained = _train(task, data.train, seed, prior, prior_scale, progress)
    layers = task.stochastic_layers(stochastic)
    body = trained[: len(task.layers) - len(layers)]
    weights = trained[len(body) :] or (np.zeros(layers[0], np.float32),)
    problem = Problem(
        task=name,
        seed=seed,
        stochastic=stochastic,
        likelihood=task.likelihood,
        noise_sd=task.noise_sd,
        prior=prior,
        prior_scale=float(prior_scale),
        layers=layers,
        features=body_features(body, data.train.inputs),
        targets=data.train.targets,
        validation_features=body_features(body, data.validation.inputs),
        validation_targets=data.validation.targets,
        test_features=body_features(body, data.test.inputs),
        test_targets=data.test.targets,
        map=np.concatenate([weight.ravel() for weight in weights]),
        curvature=np.zeros(0),
        inputs=_plottable(data.train),
        test_inputs=_plottable(data.test),
        body=body,
    )
    if len(layers) == 1:
        # Training stops near the mode; what is compared with chains has to be at it.
        problem = replace(problem, map=find_mode(problem, problem.num_points).astype(np.float32))
    return replace(problem, curvature=mean_curvature(problem, problem.map))


def _check(seed: int, stochastic: str, prior: str, prior_scale: float) -> None:
    if stochastic not in STOCHASTIC:
        raise SettingError(unknown("stochastic part", stochastic, STOCHASTIC))
    if prior not in PRIORS:
        raise SettingError(unknown("prior", prior, PRIORS))
    if not (prior_scale > 0 and math.isfinite(prior_scale)):
        raise SettingError(f"prior_scale = {prior_scale} must be positive and finite")
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise SettingError(f"seed = {seed!r} must be a whole number from 0 to {2**31 - 1}")


def _train(
    task: Task, points: Points, seed: int, prior: str, prior_scale: float, progress: bool
) -> tuple[np.ndarray, ...]:
    if task.training is None:
        return ()
    # torch takes two seconds to import, which a task without a network does not need.
    from implementations.tasks.network import train_network

    return train_network(task, points, seed, prior=prior, prior_scale=prior_scale, progress=progress)


def _plottable(points: Points) -> np.ndarray:
    """The raw inputs, or no columns of them where they are images."""
    return points.inputs if points.inputs.shape[1] == 1 else points.inputs[:, :0]
