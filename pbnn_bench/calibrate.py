"""``pbnn-bench calibrate``: a user's own features and targets in, a table and a page out; or the choice of a study."""

import argparse
import sys
from collections.abc import Sequence

from implementations.infrastructure.errors import SettingError
from implementations.infrastructure.provenance import machine, versions
from implementations.tasks.likelihoods import find_likelihood
from pbnn_bench.choice import METHOD, Choice, choose_batch_size
from pbnn_bench.own_data import OwnData, read_own_data
from pbnn_bench.problem import Problem
from pbnn_bench.results import check_output


def main(arguments: argparse.Namespace) -> None:
    if arguments.study:
        # Reading studies imports what takes seconds.
        from reports.calibrate import choice_in_study

        if not arguments.task:
            raise SettingError("--study needs --task NAME: a task of the study, or a variant of one")
        lines = choice_in_study(arguments.results, arguments.study, arguments.task, arguments.method or "pbnn")
        print("\n".join(lines))
        return
    if not arguments.features:
        raise SettingError("give --features FILE, or --study NAME and --task NAME; see pbnn-bench calibrate --help")
    arguments.method = arguments.method or METHOD
    check_output(arguments.out)
    data = read_own_data(arguments.features, arguments.target, arguments.split, arguments.seed)
    notices = [*data.notices]
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
