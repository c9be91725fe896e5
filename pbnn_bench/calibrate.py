"""``pbnn-bench calibrate``: a user's own features and targets in, a table and a page out; or the choice of a study."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.provenance import machine, versions
from implementations.tasks.likelihoods import SUPERVISED, find_likelihood
from pbnn_bench.choice import CRITERIA, METHOD, Choice, choose_batch_size, default_sizes
from pbnn_bench.own_data import OwnData, read_own_data
from pbnn_bench.problem import Problem


def main(argv: Sequence[str], program: str) -> int:
    if any(word.split("=")[0] == "--study" for word in argv):
        from reports import calibrate

        return calibrate.main(argv, program)
    arguments = _parser(program).parse_args(argv)
    _check_writable(arguments.out)
    data = read_own_data(arguments.features, arguments.target, arguments.split, arguments.seed)
    notices = _notices(data, arguments.features)
    if arguments.components is not None:
        data = data.projected(arguments.components)
        notices.append(f"the features are the first {arguments.components} principal components of the training rows")
    try:
        problem = _problem(data, arguments, notices)
    except SettingError as error:
        raise SettingError(f"{arguments.features}: {error}") from None
    notices.append(_described(problem))
    print("\n".join(notices), file=sys.stderr)
    choice = choose_batch_size(
        problem,
        arguments.sizes,
        method=arguments.method,
        criterion=arguments.criterion,
        settings=dict(arguments.settings),
        backend=arguments.backend,
        seed=arguments.seed,
        tell=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(choice.table())
    _write(choice, arguments, notices)
    return 0


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Find the mini-batch size n that calibrates your network: make its last layer Bayesian, sample it "
        "tempered to several n, and choose the n that predicts the validation points best.",
    )
    add = parser.add_argument
    add(
        "--features",
        type=Path,
        required=True,
        metavar="FILE",
        help="what goes into the last layer, with the targets: .npz, .csv or .parquet",
    )
    add("--target", default="target", metavar="NAME", help="column of the targets in a table (default: %(default)s)")
    add(
        "--split",
        default="split",
        metavar="NAME",
        help="column of a table that says train, validation or test (default: %(default)s; if there is none, rows are "
        "split at random)",
    )
    add("--likelihood", metavar="NAME", help=f"{', '.join(SUPERVISED)} (default: guessed from the targets)")
    add("--noise-sd", type=float, metavar="NUMBER", help="noise of a regression (default: that of a least-squares fit)")
    add(
        "--prior-scale",
        type=float,
        default=1.0,
        metavar="NUMBER",
        help="prior sd of every weight (default: %(default)s)",
    )
    add("--components", type=int, metavar="K", help="replace the features by their first K principal components")
    add(
        "--sizes",
        type=_sizes,
        metavar="N,N,…",
        help=f"the n to try (default: {', '.join(map(str, default_sizes(1000)[:-1]))}, … and all)",
    )
    add(
        "--method", default=METHOD, metavar="NAME", help="the sampler: a method, or file.py:CARD (default: %(default)s)"
    )
    add(
        "--set",
        action="append",
        default=[],
        type=_pair,
        dest="settings",
        metavar="NAME=VALUE",
        help="a setting of the method; may be repeated",
    )
    add("--criterion", default="nll", metavar="NAME", help=f"choose by {' or '.join(CRITERIA)} (default: %(default)s)")
    add("--backend", default="jax-cpu", metavar="NAME", help="see `list backends` (default: %(default)s)")
    add("--seed", type=int, default=0, help="seed of a random split and of the chains (default: %(default)s)")
    add(
        "--out",
        type=Path,
        default=Path("calibration.html"),
        metavar="FILE",
        help="where to write the report, an HTML page (default: %(default)s)",
    )
    return parser


def _sizes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 10,30,100") from None


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, as in num_steps=20000")
    return name, value


def _check_writable(path: Path) -> None:
    """Before the chains are run, not after."""
    if path.is_dir():
        raise SettingError(f"--out {path} is a folder; name a file in it, such as {path / 'calibration.html'}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SettingError(f"--out {path} cannot be written: {error.strerror}") from None


def _notices(data: OwnData, path: Path) -> list[str]:
    sizes = ", ".join(f"{(data.splits == part).sum():,} {part}" for part in ("train", "validation", "test"))
    how = "split at random" if data.is_split_here else "as the file splits them"
    return [f"{path.name}: {len(data.targets):,} rows of {data.features.shape[1]} features; {sizes}, {how}"]


def _problem(data: OwnData, arguments: argparse.Namespace, notices: list[str]) -> Problem:
    return Problem.from_features(
        *data.part("train"),
        validation=data.part("validation"),
        test=data.part("test"),
        likelihood=arguments.likelihood,
        noise_sd=arguments.noise_sd,
        prior_scale=arguments.prior_scale,
        name=arguments.features.stem,
        tell=notices.append,
    )


def _described(problem: Problem) -> str:
    likelihood = find_likelihood(problem.likelihood)
    if likelihood.has_classes:
        return f"{len(problem.classes)} classes, {problem.num_parameters} parameters"
    noise = f", noise sd {problem.noise_sd * problem.target_scale:.3g}" if likelihood.is_quadratic else ""
    return f"a regression, {problem.num_parameters} parameters{noise}"


def _write(choice: Choice, arguments: argparse.Namespace, notices: Sequence[str]) -> None:
    # Drawing imports what takes seconds.
    from pbnn_bench.calibration_page import write_page

    found = versions()
    origin = {
        "method": arguments.method,
        "settings": ", ".join(f"{name} = {value}" for name, value in arguments.settings) or "the defaults",
        "backend, seed": f"{arguments.backend}, {arguments.seed}",
        "prior": f"N(0, {arguments.prior_scale:g}²) on every weight of the standardised features",
        "versions": ", ".join(f"{name} {version}" for name, version in found.items()),
        "machine": machine()["cpu"],
    }
    write_page(choice, arguments.out, arguments.features.name, notices, origin)
    print(f"report: {arguments.out}")
