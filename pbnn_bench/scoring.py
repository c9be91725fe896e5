"""Scores of draws from any program: how well they predict, and how near they are to the right answer of a task.

``pbnn-bench score draws.npz --task mnist --weight data`` reads one array, ``draws`` (chains, draws, P). A draw is the
parameter vector of ``implementations.tasks.problem``: the matrices (inputs + 1, outputs) of the stochastic layers,
biases first, row by row, one after the other. ``--problem problem.npz`` writes the data they are to be drawn for:
features (leading column 1), targets, likelihood, prior and its scale, all by name; the target is

    U_w(theta) = -log p(theta) + (w / N) sum_j l_j(theta)

Metrics are those of a study's runs, by the names of ``records.columns``, without costs and decisions, which draws do
not tell. They go to standard output as JSON, and the answer in one sentence to standard error. With ``--board``, a
table of a report, that table goes to standard output instead, with one more row.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from implementations.infrastructure.artefact import read_npz
from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged
from implementations.settings import WEIGHT
from implementations.tasks import prepare
from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import has_closed_form
from metrics import calibration, prediction
from pbnn_bench.results import check_output
from records.evaluation import Metrics, metrics_of_draws, predictive_of, reliability_of
from records.reference import Reference, reference
from reports.leaderboard import CRITERION, answer_of, with_entrant

#: Deviations of the mean, in sd of the reference, that no slow chain explains.
FAR_OFF = 2.0
#: Draws whose squares are no numbers would give metrics that are none.
LARGEST = 1e100


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
    """The score of ``draws`` (chains, draws, P) at the ``test`` or ``validation`` points."""
    draws = checked(draws, problem)
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


def against_reference(problem: Problem, draws: np.ndarray, weight: float, answer: Reference | None = None) -> Metrics:
    """Metrics of ``draws`` (chains, draws, P) as draws from the target of weight w; ``answer`` is found if not given.

    Raises SettingError where the arrays cannot be such draws, or the answer is that of another problem.
    """
    draws = checked(draws, problem)
    if answer is None:
        answer = reference(problem, weight)
    if answer.draws.shape[1] != problem.num_parameters or len(answer.predictive_mean) != len(problem.test_targets):
        raise SettingError(f"the reference is that of another problem than {problem.task!r} as it is given")
    if (answer.task, answer.task_seed, answer.weight) != (problem.task, problem.seed, weight):
        raise SettingError(
            f"the reference is that of {answer.task!r}, seed {answer.task_seed}, weight {answer.weight:g}; expected "
            f"{problem.task!r}, seed {problem.seed}, weight {weight:g}"
        )
    return metrics_of_draws(problem, draws, answer)[0]


def checked(draws: np.ndarray, problem: Problem) -> np.ndarray:
    """Draws as a run of the suite would have them. Raises SettingError."""
    expected = f"expected (chains, draws, {problem.num_parameters}) for the parameters of {problem.task!r}"
    if draws.dtype.kind not in "fiu":
        raise SettingError(f"draws of type {draws.dtype}: expected real numbers")
    if draws.ndim == 2:
        raise SettingError(f"draws of shape {draws.shape}: {expected}; one chain is draws[None]")
    if draws.ndim != 3 or draws.shape[2] != problem.num_parameters:
        raise SettingError(f"draws of shape {draws.shape}: {expected}")
    if not draws.size:
        raise SettingError(f"draws of shape {draws.shape} are empty: {expected}")
    if bad := int((~(np.abs(draws) < np.float64(LARGEST))).any(axis=(0, 2)).sum()):
        raise SettingError(
            f"{bad} of {draws.shape[1]} draws are not finite, or beyond {LARGEST:g}; leave them out, in every chain"
        )
    return draws


def hint(draws: np.ndarray, found: Metrics) -> str | None:
    """What may be wrong with draws that are not right: the usual mistakes."""
    if draws.shape[0] > draws.shape[1]:
        return (
            f"these are {draws.shape[0]} chains of {draws.shape[1]} draws each; were the first two axes exchanged? "
            "The order is (chains, draws, P)"
        )
    if (found.get("mean_error") or 0) > FAR_OFF:
        return (
            "draws so far off are often in another order: matrices (inputs + 1, outputs), biases first, row by row; or "
            "of another target: another weight, prior or seed, or inputs that were scaled again"
        )
    return None


def main(given: argparse.Namespace) -> None:
    """``pbnn-bench score``."""
    if given.problem:
        check_output(given.problem)
    options = {"num_points": given.num_points, "stochastic": given.stochastic, "data_dir": given.data}
    problem = prepare(given.task, given.seed, progress=False, **options)
    if given.problem:
        problem.save(given.problem)
    if given.draws is None:
        if not given.problem:
            raise SettingError("nothing to do: give a file of draws, or --problem to write the data they are for")
        print(f"problem: {given.problem}")
        return
    named = WEIGHT.parse(given.weight)
    if named == "batch":
        raise SettingError("weight = 'batch' needs a batch_size, which draws do not have; give a number")
    weight = float(problem.num_points if named == "data" else named)
    draws = checked(_read_draws(given.draws), problem)
    board = _read_board(given.board) if given.board else None
    answer = _read_reference(given.reference) if given.reference else None
    if answer is None and not has_closed_form(problem):
        print("finding the reference: seconds for one layer, minutes for a whole network", file=sys.stderr)
    found: dict[str, Any] = against_reference(problem, draws, weight, answer)
    if board is not None:
        print(with_entrant(board, given.name, found, given.evaluations).to_csv(index=False), end="")
    else:
        print(json.dumps({"task": problem.task, "seed": problem.seed, "target_weight": weight, **found}, indent=2))
    print(f"{given.name}: {answer_of(found)}", file=sys.stderr)
    if text := hint(draws, found):
        print(f"note: {text}", file=sys.stderr)


def _read_draws(path: Path) -> np.ndarray:
    try:
        arrays = read_npz(path)
    except Damaged as error:
        raise SettingError(f"{error}; expected what numpy.savez(path, draws=array) writes") from None
    if "draws" not in arrays:
        names = ", ".join(map(repr, arrays)) or "nothing"
        raise SettingError(f"{path} holds {names}; expected an array 'draws'")
    return arrays["draws"]


def _read_reference(path: Path) -> Reference:
    try:
        found = Reference.load(path, moves=False)
    except Damaged as error:
        raise SettingError(f"{path} is no reference: {error}") from None
    if isinstance(found, str):
        raise SettingError(f"{path} is no reference: {found}")
    return found


def _read_board(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise SettingError(f"{path} is not there, or is no file")
    try:
        board = pd.read_csv(path)
    except ValueError as error:
        raise SettingError(f"{path}: {error}") from None
    if absent := {"method", "rank", "reason", CRITERION} - set(board):
        raise SettingError(f"{path} is no leaderboard: it has no column {sorted(absent)[0]!r}")
    return board
