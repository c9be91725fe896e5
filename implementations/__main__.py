"""One run from the shell: ``python -m implementations --task regression --method pbnn --out out``."""

import argparse
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from implementations.backends import BACKENDS
from implementations.methods import METHODS, SETTINGS, Setting, resolve
from implementations.names import SettingError, unknown
from implementations.tasks import TASKS, find_task, prepare
from implementations.tasks.download import DataError
from implementations.tasks.problem import Problem
from implementations.tasks.task import PRIORS, STOCHASTIC


def parser() -> argparse.ArgumentParser:
    width = max(map(len, (*METHODS, *SETTINGS, *TASKS))) + 2
    tables = [
        (title, [f"  {name:{width}}{text}" for name, text in rows])
        for title, rows in (
            ("tasks", [(name, task.summary) for name, task in TASKS.items()]),
            ("methods", [(name, method.summary) for name, method in METHODS.items()]),
            ("settings (not every method has all of them)", [(name, _help(item)) for name, item in SETTINGS.items()]),
        )
    ]
    result = argparse.ArgumentParser(
        prog="python -m implementations",
        description="One method on one task: writes run.json, draws.npz and problem.npz into a folder.",
        epilog="\n\n".join(f"{title}:\n" + "\n".join(rows) for title, rows in tables),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument("--task", required=True, metavar="NAME")
    result.add_argument("--method", required=True, metavar="NAME")
    result.add_argument(
        "--set", action="append", default=[], dest="settings", metavar="NAME=VALUE", help="a setting; may be repeated"
    )
    result.add_argument(
        "--backend", default="jax-cpu", metavar="NAME", help=f"{', '.join(BACKENDS)} (default: %(default)s)"
    )
    result.add_argument(
        "--seed", type=int, default=0, help="of data, network, start points and chains (default: %(default)s)"
    )
    result.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="the folder to write to; an interrupted run in it is continued",
    )
    result.add_argument(
        "--stochastic", default="last", metavar="LAYERS", help=f"{' or '.join(STOCHASTIC)} (default: %(default)s)"
    )
    result.add_argument(
        "--prior", default="gaussian", metavar="NAME", help=f"{' or '.join(PRIORS)} (default: %(default)s)"
    )
    result.add_argument(
        "--prior-scale",
        type=float,
        default=1.0,
        metavar="NUMBER",
        help="its sd, or the Laplace b (default: %(default)s)",
    )
    result.add_argument(
        "--num-points",
        type=int,
        metavar="N",
        help="training points, where the data are drawn (default: the task's own)",
    )
    result.add_argument(
        "--data",
        type=Path,
        default=Path("data"),
        metavar="DIR",
        help="folder of downloaded data (default: %(default)s)",
    )
    result.add_argument("--no-audit", action="store_true", help="leave out the audit of decisions against all the data")
    result.add_argument(
        "--checkpoint-seconds", type=float, default=30.0, metavar="S", help="between checkpoints (default: %(default)s)"
    )
    result.add_argument("--overwrite", action="store_true", help="replace a finished run in --out")
    return result


def _help(setting: Setting) -> str:
    return setting.help + (f" ({', '.join(setting.choices)})" if setting.choices and setting.kind is str else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run, and say in a line what came of it; a run that diverged or was skipped is a result too."""
    arguments = parser().parse_args(argv)
    try:
        _main(arguments)
    except (SettingError, DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _main(arguments: argparse.Namespace) -> None:
    if arguments.backend not in BACKENDS:
        raise SettingError(unknown("backend", arguments.backend, BACKENDS))
    task = find_task(arguments.task, arguments.num_points)
    pairs = [_pair(text) for text in arguments.settings]
    given = dict(pairs)
    if len(given) < len(pairs):
        raise SettingError("--set gives a setting twice; drop one")
    settings = resolve(
        arguments.method,
        given,
        task=task.name,
        num_points=task.num_points,
        num_parameters=task.num_parameters(arguments.stochastic),
    )
    wanted = {
        "task": task.name,
        "seed": arguments.seed,
        "stochastic": arguments.stochastic,
        "prior": arguments.prior,
        "prior_scale": arguments.prior_scale,
        "num_points": task.num_points,
    }
    names = {"method": arguments.method, "backend": arguments.backend, "settings": settings.as_dict()}
    finished = _finished(arguments.out / "run.json")
    is_same = finished and all(finished.get(name) == value for name, value in (wanted | names).items())
    # A skipped run may find its device the next time.
    if finished and is_same and finished["status"] != "skipped" and not arguments.overwrite:
        print(f"{arguments.out} already holds this run: {finished['status']}")
        return
    if finished and not is_same and not arguments.overwrite:
        raise SettingError(
            f"{arguments.out} holds another finished run ({finished.get('method')} on {finished.get('task')}, "
            f"{finished.get('backend')}, seed {finished.get('seed')}); choose another --out, or --overwrite"
        )
    problem = _problem(arguments.out / "problem.npz", wanted, arguments.data)
    # Only now, with everything checked, the libraries that take seconds to import.
    from implementations.run import Job, run

    job = Job(problem, arguments.method, settings, arguments.backend, arguments.seed)
    record = run(job, arguments.out, is_audited=not arguments.no_audit, checkpoint_seconds=arguments.checkpoint_seconds)
    if record["status"] == "ok":
        print(
            f"ok: {record['num_draws']} draws × {settings.chains} chains, acceptance {record['acceptance_rate']:.3f}, "
            f"{record['wall_clock_s']:.2f} s (compile {record['compile_s']:.2f} s), in {arguments.out}"
        )
    else:
        print(f"{record['status']}: {record['reason']}; see {arguments.out / 'run.json'}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"--set {text}: expected NAME=VALUE, as in --set batch_size=5")
    return name, value


def _problem(path: Path, wanted: dict[str, Any], data_dir: Path) -> Problem:
    """The problem in the folder, if it is this one, or else a new one, saved there."""
    if path.exists():
        try:
            problem = Problem.load(path)
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise SettingError(f"{path} is damaged ({error}); remove it, or choose another --out") from error
        if all(getattr(problem, name) == value for name, value in wanted.items()):
            return problem
    options = {name: value for name, value in wanted.items() if name not in ("task", "seed")}
    problem = prepare(wanted["task"], wanted["seed"], data_dir=data_dir, **options)
    problem.save(path)
    return problem


def _finished(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise SettingError(f"{path} is not a run's record ({error}); choose another --out") from error
    return record


if __name__ == "__main__":
    sys.exit(main())
