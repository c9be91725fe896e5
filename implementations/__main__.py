"""One run from the shell: ``python -m implementations --task regression --method pbnn --out out``."""

import argparse
import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from implementations.backends import BACKENDS
from implementations.infrastructure.errors import SettingError, unknown
from implementations.infrastructure.files import Damaged
from implementations.methods import ALL_SETTINGS, METHODS, find_method
from implementations.plugins import absolute, checksum, is_plugin
from implementations.run_files import read_draws, read_run
from implementations.settings import Setting
from implementations.tasks import TASKS, check_options, find_task, prepare
from implementations.tasks.data.download import DataError
from implementations.tasks.problem import Problem
from implementations.tasks.task import PRIORS, STOCHASTIC

CHECKPOINT_SECONDS = Setting("checkpoint_seconds", "seconds between checkpoints", float, 30.0, minimum=0)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="python -m implementations",
        description="Run one method on one task, and write run.json, draws.npz and problem.npz into a folder.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(found)
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Give a parser the options of ``run_once``, and lists of the names that they take."""
    width = max(map(len, (*METHODS, *ALL_SETTINGS, *TASKS))) + 2
    settings = "settings (no method has all of them; `pbnn-bench info NAME` lists those of one)"
    tables = {
        "tasks": {name: task.summary for name, task in TASKS.items()},
        "methods": {name: method.summary for name, method in METHODS.items()},
        settings: {name: help_of(item) for name, item in ALL_SETTINGS.items()},
    }
    parser.epilog = "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name:{width}}{text}" for name, text in rows.items())
        for title, rows in tables.items()
    )
    option = parser.add_argument
    option("--task", required=True, metavar="NAME", help="a task below, or a file of yours: path/to/file.py:TASK")
    option("--method", required=True, metavar="NAME", help="a method below, or a file of yours: path/to/file.py:CARD")
    setting: dict[str, Any] = {"action": "append", "default": [], "dest": "settings", "metavar": "NAME=VALUE"}
    option("--set", help="a setting of the method; may be repeated", **setting)
    backends = f"library and device: {', '.join(BACKENDS)} (default: %(default)s)"
    option("--backend", default="jax-cpu", metavar="NAME", help=backends)
    seeds = "seed of data, network, start points and chains (default: %(default)s)"
    option("--seed", type=int, default=0, help=seeds)
    out = "folder to write to; an interrupted run there is continued"
    option("--out", type=folder_of, required=True, metavar="DIR", help=out)
    layers = f"layers to sample: {' or '.join(STOCHASTIC)} (default: %(default)s)"
    option("--stochastic", default="last", metavar="LAYERS", help=layers)
    priors = f"prior of every weight: {' or '.join(PRIORS)} (default: %(default)s)"
    option("--prior", default="gaussian", metavar="NAME", help=priors)
    scale = "sd of a Gaussian prior, b of a Laplace prior (default: %(default)s)"
    option("--prior-scale", type=float, default=1.0, metavar="NUMBER", help=scale)
    points = "number of training points, if the task can have another one (default: the task's own)"
    option("--num-points", type=int, metavar="N", help=points)
    data = "folder of downloaded data (default: %(default)s)"
    option("--data", type=folder_of, default=Path("data"), metavar="DIR", help=data)
    option("--no-audit", action="store_true", help="do not check the decisions against all the data afterwards")
    between = f"{CHECKPOINT_SECONDS.help} (default: %(default)s)"
    option("--checkpoint-seconds", type=float, default=CHECKPOINT_SECONDS.default, metavar="S", help=between)
    option("--overwrite", action="store_true", help="replace a finished run in --out")


def folder_of(text: str) -> Path:
    """The path of a folder. Nothing would be the current one, in which nobody wants a run's files by mistake."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder; the current one is .")
    return Path(text)


def help_of(setting: Setting) -> str:
    """Its line of help, and the names it takes."""
    return setting.help + (f" ({', '.join(setting.choices)})" if setting.choices and setting.kind is str else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Run; a mistake of the person who typed is one line."""
    arguments = parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # The name of a folder may be any bytes, as stderr knows by itself.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        run_once(arguments)
    except (SettingError, DataError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def run_once(arguments: argparse.Namespace) -> None:
    """Run, and say in a line what came of it; a run that diverged or was skipped is a result too."""
    try:
        _run_once(arguments)
    except (MemoryError, RuntimeError) as error:
        # torch has no kind of its own for it.
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        raise SettingError(f"not enough memory: {error}; lower chains or num_points, or raise thin") from None


def _run_once(arguments: argparse.Namespace) -> None:
    if arguments.backend not in BACKENDS:
        raise SettingError(unknown("backend", arguments.backend, BACKENDS))
    reference = absolute(arguments.task, Path()) if is_plugin(arguments.task) else arguments.task
    task = find_task(reference, arguments.num_points)
    check_options(task, arguments.seed, arguments.stochastic, arguments.prior, arguments.prior_scale)
    seconds = CHECKPOINT_SECONDS.parse(arguments.checkpoint_seconds)
    pairs = [_pair(text) for text in arguments.settings]
    given = dict(pairs)
    if len(given) < len(pairs):
        raise SettingError("--set gives a setting twice; drop one")
    method = absolute(arguments.method, Path()) if is_plugin(arguments.method) else arguments.method
    card = find_method(method)
    settings = card.resolve(given, task.size(arguments.stochastic))
    wanted = {
        "task": task.name,
        "seed": arguments.seed,
        "stochastic": arguments.stochastic,
        "prior": arguments.prior,
        "prior_scale": arguments.prior_scale,
        "num_points": task.num_points,
    }
    names = {
        "method": card.name,
        # A file that has changed is another method.
        "method_sha256": checksum(method) if is_plugin(method) else None,
        "backend": arguments.backend,
        "settings": settings.as_dict(),
    }
    problem = None
    if is_plugin(reference):
        # Its file may have changed since: the problem is what it gives now.
        problem = _prepared(reference, wanted, arguments.data)
        names["problem_sha256"] = problem.identity()["problem_sha256"]
    if not arguments.overwrite and _is_there(arguments.out, wanted | names):
        return
    if problem is None:
        problem = _problem(arguments.out / "problem.npz", wanted, arguments.data)
    else:
        problem.save(arguments.out / "problem.npz")
    # Only now, with everything checked, the libraries that take seconds to import.
    from implementations.run import Job, run

    job = Job(problem, method, settings, arguments.backend, arguments.seed)
    record = run(job, arguments.out, is_audited=not arguments.no_audit, checkpoint_seconds=seconds)
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
        raise SettingError(f"--set {text!r}: expected NAME=VALUE, as in --set batch_size=5")
    return name, value


def _problem(path: Path, wanted: dict[str, Any], data_dir: Path) -> Problem:
    """The problem in the folder, if it is this one, or else a new one, saved there."""
    with suppress(FileNotFoundError):
        try:
            problem = Problem.load(path)
        except Damaged as error:
            print(f"{error}; it is made again", file=sys.stderr)
        else:
            if all(getattr(problem, name) == value for name, value in wanted.items()):
                return problem
    problem = _prepared(wanted["task"], wanted, data_dir)
    problem.save(path)
    return problem


def _prepared(task: str, wanted: dict[str, Any], data_dir: Path) -> Problem:
    options = {name: value for name, value in wanted.items() if name not in ("task", "seed")}
    return prepare(task, wanted["seed"], data_dir=data_dir, **options)


def _is_there(out: Path, wanted: dict[str, Any]) -> bool:
    """Is this very run in the folder, and need not be made again? SettingError where the folder has another's."""
    try:
        record = read_run(out)
    except Damaged as error:
        print(f"{error}; the run is made again", file=sys.stderr)
        return False
    if record is None:
        return False
    if any(record.get(name) != value for name, value in wanted.items()):
        raise SettingError(
            f"{out} holds another finished run ({record.get('method')} on {record.get('task')}, "
            f"{record.get('backend')}, seed {record.get('seed')}); choose another --out, or --overwrite"
        )
    # A skipped run may find its device the next time.
    if record["status"] == "skipped":
        return False
    try:
        read_draws(out, record)
    except Damaged as error:
        print(f"{error}; the run is made again", file=sys.stderr)
        return False
    print(f"{out} already holds this run: {record['status']}")
    return True


if __name__ == "__main__":
    sys.exit(main())
