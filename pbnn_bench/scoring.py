"""How good draws are at predicting: on the test or the validation points of a problem."""

from dataclasses import dataclass

import numpy as np

from implementations.infrastructure.errors import SettingError
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem
from metrics import calibration, prediction
from workflows.evaluation import predictive_of, reliability_of


@dataclass(frozen=True, eq=False)
class Score:
    """A predictive distribution against what happened at some points."""

    nll: float
    #: Expected calibration error, and confidence minus accuracy or nominal minus observed coverage: + is too sure. A
    #: density has neither: NaN.
    ece: float
    gap: float
    #: The share of classes that are right; None in a regression.
    accuracy: float | None
    #: Of the predictive mean, in the problem's units; None for classes and densities.
    rmse: float | None
    #: log p(y | x) of each point (n,), to compare two of them pair by pair.
    log_density: np.ndarray
    #: The reliability diagram; None of a density.
    curve: calibration.Reliability | None
    #: (chains, draws, quantities): predictions draw by draw, on which convergence is judged.
    traces: np.ndarray


def score(problem: Problem, draws: np.ndarray, part: str = "test") -> Score:
    """The score of ``draws`` (chains, draws, P), made here or anywhere, at the ``test`` or ``validation`` points."""
    if draws.ndim != 3 or draws.shape[2] != problem.num_parameters:
        raise SettingError(f"draws of shape {draws.shape}: expected (chains, draws, {problem.num_parameters})")
    features, targets = getattr(problem, f"{part}_features"), getattr(problem, f"{part}_targets")
    if not len(targets):
        raise SettingError(f"{problem.task!r} has no {part} points")
    found = predictive_of(problem, draws, features, targets)
    curve = reliability_of(problem, found, targets)
    has_classes = find_likelihood(problem.likelihood).has_classes
    return Score(
        nll=prediction.negative_log_likelihood(found.log_density),
        ece=np.nan if curve is None else calibration.ece(curve),
        gap=np.nan if curve is None else calibration.confidence_gap(curve),
        accuracy=prediction.accuracy(found.mean, targets) if has_classes else None,
        rmse=None if has_classes or problem.is_normalised else prediction.rmse(found.mean, targets),
        log_density=found.log_density,
        curve=curve,
        traces=found.traces,
    )
