"""``pbnn-bench references``: right answers for whole networks, to list, verify, export and score against."""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from implementations.infrastructure.artefact import read_npz
from implementations.infrastructure.errors import SettingError, unknown
from implementations.infrastructure.files import Damaged
from implementations.networks.baselines import Predictions
from implementations.networks.tasks import find_network_task
from pbnn_bench.cli import ACTIONS
from records.network_references import FOLDER, QUANTILES, NetworkReference, data_digest
from records.network_scores import score


def main(arguments: argparse.Namespace) -> int:
    if arguments.action not in ACTIONS:
        raise SettingError(unknown("action", arguments.action, ACTIONS))
    folder = arguments.folder or FOLDER
    paths = list(_found(folder, arguments.names))
    if arguments.action == "list":
        return _list(paths, folder)
    if arguments.action == "verify":
        return _verify(paths, arguments.data)
    if len(paths) != 1:
        raise SettingError(f"{arguments.action} takes one reference; {len(paths)} match: add /weight…/split…")
    return (_export if arguments.action == "export" else _score)(NetworkReference.load(paths[0]), arguments)


def _found(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """The JSON files of all references whose names begin as asked."""
    known = {str(path.relative_to(folder).with_suffix("")): path for path in sorted(folder.glob("*/*/split*.json"))}
    if not known:
        raise SettingError(f"no references in {folder}; make some: python -m records.network_references --help")
    for name in names or [""]:
        matching = [path for one, path in known.items() if not name or one == name or one.startswith(f"{name}/")]
        if not matching:
            raise SettingError(unknown("reference", name, sorted({one.partition("/")[0] for one in known} | {*known})))
        yield from matching


def _list(paths: Sequence[Path], folder: Path) -> int:
    """One line per task and weight."""
    groups: dict[Path, list[NetworkReference]] = {}
    for path in paths:
        groups.setdefault(path.parent.relative_to(folder), []).append(NetworkReference.load(path))
    rows = [("reference", "rows", "P", "splits", "usable", "R-hat", "ESS", "log likelihood")]
    for name, group in groups.items():
        first = group[0].record
        likelihood = np.mean([one.record["scores"]["log_likelihood"] for one in group])
        usable = sum(one.is_usable for one in group)
        r_hat, ess = max(one.gate.r_hat for one in group), min(one.gate.min_ess for one in group)
        counts = (f"{first['num_rows']:,}", f"{first['num_parameters']:,}", str(len(group)), str(usable))
        rows.append((str(name), *counts, f"{r_hat:.3f}", f"{ess:,.0f}", f"{likelihood:.3f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]))
    return 0


def _verify(paths: Sequence[Path], data_dir: Path | None) -> int:
    """One line per reference that is damaged, failed its gate, or is of other rows; 1 where one is damaged."""
    num_damaged = num_failed = 0
    for path in paths:
        try:
            reference = NetworkReference.load(path)
        except (Damaged, OSError) as error:
            num_damaged += 1
            print(error)
            continue
        if data_dir is not None:
            data = find_network_task(reference.task).load(reference.split, data_dir)
            if data_digest(data) != reference.record["data_sha256"]:
                num_damaged += 1
                print(f"{path} was made from other rows than those in {data_dir}")
        if not reference.is_usable:
            num_failed += 1
            print(f"{path} failed its gate: {'; '.join(reference.gate.faults)}")
    print(f"{len(paths)} references: {num_damaged} damaged, {num_failed} failed their gate and judge nothing")
    return int(num_damaged > 0)


def _export(reference: NetworkReference, arguments: argparse.Namespace) -> int:
    """A row per test point and output."""
    mean, sd = (array.reshape(len(array), -1) for array in (reference.mean, reference.sd))
    quantiles = reference.arrays.get("quantiles")
    header = ["point", "output", "mean", "sd"] + ([] if quantiles is None else [f"q{level:g}" for level in QUANTILES])
    with arguments.out.open("w", newline="", encoding="utf-8") if arguments.out else sys.stdout as file:
        writer = csv.writer(file)
        writer.writerow(header)
        for point, output in np.ndindex(mean.shape):
            row = [point, output, f"{mean[point, output]:.6g}", f"{sd[point, output]:.6g}"]
            writer.writerow(row + ([] if quantiles is None else [f"{value:.4g}" for value in quantiles[:, point]]))
    return 0


def _score(reference: NetworkReference, arguments: argparse.Namespace) -> int:
    if arguments.predictions is None:
        raise SettingError("score needs --predictions FILE.npz with the array 'outputs'")
    given = read_npz(arguments.predictions)
    if "outputs" not in given:
        raise SettingError(f"{arguments.predictions} has no array 'outputs', but {', '.join(given) or 'nothing'}")
    outputs = given["outputs"]
    if outputs.shape[1:] != reference.mean.shape or not np.isfinite(outputs).all():
        wanted = ", ".join(map(str, reference.mean.shape))
        raise SettingError(f"outputs of shape {outputs.shape}: expected (draws, {wanted}), all of them finite")
    data = find_network_task(reference.task).load(reference.split, arguments.data or Path("data"))
    noise_sd = None
    if reference.mean.ndim == 1:
        noise = arguments.noise_sd or given.get("noise_sd")
        if noise is None:
            raise SettingError("a regression needs --noise-sd, or an array 'noise_sd' with one number per draw")
        noise_sd = np.broadcast_to(np.asarray(noise, float), len(outputs))
    try:
        found = score(Predictions(outputs, noise_sd, np.nan, np.nan), reference, data)
    except ValueError as error:
        raise SettingError(f"nothing is scored against it: {error}") from None
    print(json.dumps({name: value for name, value in vars(found).items() if value is not None}, indent=2))
    is_resolved = found.mean_error > 2 * found.floor
    print(
        f"mean error {found.mean_error:.3f} sd, {'' if is_resolved else 'not '}resolved: the reference itself is known "
        f"to {found.floor:.3f} sd"
    )
    return 0
