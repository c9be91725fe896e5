"""Draws that any program made, scored against the right answer of a task.

    python -m workflows.score draws.npz --task mnist --seed 0 --weight data

``draws.npz`` holds one array, ``draws`` (chains, draws, P), real numbers. A draw is the parameter vector of
``implementations.tasks.problem``: the matrices (inputs + 1, outputs) of the stochastic layers, biases first, row by
row, one after the other. ``--problem problem.npz`` writes the data they are to be drawn for: features (leading column
1), targets, likelihood, prior and its scale, all by name; the target is

    U_w(theta) = -log p(theta) + (w / N) sum_j l_j(theta)

Metrics are those of a study's runs, by the names of ``records.columns``, but for costs and decisions, which draws alone
do not tell. They go to standard output as JSON, and the answer in one sentence to standard error. With
``--board leaderboard.csv``, a table of a report, that table goes to standard output instead, with one more row:
``--name``, ranked by the evaluations of single points that the draws took (``--evaluations``).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.files import Damaged, read_npz
from implementations.settings import WEIGHT
from implementations.tasks import prepare
from implementations.tasks.problem import Problem
from implementations.tasks.references.closed_form import has_closed_form
from records.failures import load_reference
from records.reference import Reference, reference
from reports.leaderboard import CRITERION, answer_of, with_entrant
from workflows.evaluation import Metrics, metrics_of_draws

#: Deviations of the mean, in sd of the reference, that no slow chain explains.
FAR_OFF = 2.0
#: How the command is called; the front door has another name for it.
PROGRAM = "python -m workflows.score"


def score(problem: Problem, draws: np.ndarray, weight: float, answer: Reference | None = None) -> Metrics:
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
    if bad := int((~np.isfinite(draws)).any(axis=(0, 2)).sum()):
        raise SettingError(f"{bad} of {draws.shape[1]} draws are not finite; leave them out, in every chain")
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


def load_draws(path: Path) -> np.ndarray:
    """The array ``draws`` of a file. Raises SettingError."""
    try:
        arrays = read_npz(path)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    except Damaged as error:
        raise SettingError(f"{error}; expected what numpy.savez(path, draws=array) writes") from None
    if "draws" not in arrays:
        names = ", ".join(map(repr, arrays)) or "nothing"
        raise SettingError(f"{path} holds {names}; expected an array 'draws'")
    return arrays["draws"]


def _read_reference(path: Path) -> Reference:
    """Raises SettingError."""
    try:
        found = load_reference(path)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror}") from None
    except Damaged as error:
        raise SettingError(f"{path} is no reference: {error}") from None
    if isinstance(found, str):
        raise SettingError(f"{path} is no reference: {found}")
    return found


def _read_board(path: Path) -> pd.DataFrame:
    """Raises SettingError."""
    try:
        board = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise SettingError(f"{path}: {error}") from None
    if absent := {"method", "rank", "reason", CRITERION} - set(board):
        raise SettingError(f"{path} is no leaderboard: it has no column {sorted(absent)[0]!r}")
    return board


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Score draws of any program against the reference of a task."
    )
    parser.add_argument("draws", type=Path, nargs="?", help="a file with the array 'draws' (chains, draws, P)")
    add = parser.add_argument
    add("--task", required=True, metavar="NAME", help="a task (`list tasks`), or a file of yours: path/to/file.py:TASK")
    add("--seed", type=int, default=0, help="seed of the task's data and network (default: %(default)s)")
    add(
        "--num-points",
        type=int,
        metavar="N",
        help="number of training points, if the task can have another one (default: the task's own)",
    )
    add(
        "--stochastic",
        default="last",
        metavar="LAYERS",
        help="layers that were sampled: last or all (default: %(default)s)",
    )
    add("--weight", default="data", help="w of the target: data, or a number (default: %(default)s)")
    add(
        "--data",
        type=Path,
        default=Path("data"),
        metavar="DIR",
        help="folder of downloaded data (default: %(default)s)",
    )
    add(
        "--reference",
        type=Path,
        metavar="FILE",
        help="a reference kept by a study: results/STUDY/references/…/reference.npz (default: compute it)",
    )
    add("--problem", type=Path, metavar="FILE", help="write the data and the network here, so that you can make draws")
    add("--board", type=Path, metavar="FILE", help="add the draws to this leaderboard of a report, a CSV file")
    add("--name", default="yours", help="name of the draws on the leaderboard (default: %(default)s)")
    add(
        "--evaluations",
        type=float,
        metavar="NUMBER",
        help="losses and gradients of single points that the draws took, for their rank",
    )
    return parser


def main(argv: Sequence[str] | None = None, program: str = PROGRAM) -> int:
    given = _parser(program).parse_args(argv)
    try:
        problem = prepare(
            given.task,
            given.seed,
            num_points=given.num_points,
            stochastic=given.stochastic,
            data_dir=given.data,
            progress=False,
        )
        if given.problem:
            problem.save(given.problem)
        if given.draws is None:
            if not given.problem:
                raise SettingError("nothing to do: give a file of draws, or --problem to write the data they are for")
            print(f"problem: {given.problem}")
            return 0
        named = WEIGHT.parse(given.weight)
        if named == "batch":
            raise SettingError("weight = 'batch' needs a batch_size, which draws do not have; give a number")
        weight = float(problem.num_points if named == "data" else named)
        draws = checked(load_draws(given.draws), problem)
        answer = _read_reference(given.reference) if given.reference else None
        if answer is None and not has_closed_form(problem):
            print("finding the reference: seconds for one layer, minutes for a whole network", file=sys.stderr)
        found: dict[str, Any] = score(problem, draws, weight, answer)
        board = _read_board(given.board) if given.board else None
    except SettingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if board is not None:
        print(with_entrant(board, given.name, found, given.evaluations).to_csv(index=False), end="")
    else:
        print(json.dumps({"task": problem.task, "seed": problem.seed, "target_weight": weight, **found}, indent=2))
    print(f"{given.name}: {answer_of(found)}", file=sys.stderr)
    if text := hint(draws, found):
        print(f"note: {text}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
