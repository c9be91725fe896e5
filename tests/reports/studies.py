"""Made-up studies, summaries whose numbers a test chooses, with figures and claims of its own; and benchmarks."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from implementations.methods import METHODS
from implementations.settings import SETTINGS
from implementations.tasks import TASKS
from records.columns import COLUMNS
from records.study import StudyResults
from records.summary import table_of
from reports.claim_file import Claim
from reports.drawing import Axis, Dots, Drawing, Look, Panel, Point
from reports.types import FigureSpec
from workflows.steps.summary import rows_of
from workflows.study import load_study

#: A run that ended well, has converged and is right.
GOOD = {
    "status": "ok",
    "target_weight": 100.0,
    "num_points": 100,
    "r_hat": 1.01,
    "ess_bulk_min": 1000.0,
    "acceptance_rate": 0.4,
    "ece": 0.05,
    "confidence_gap": 0.02,
    "nll": 0.7,
    "rmse": 0.5,
    "reference_kind": "closed_form",
    "reference_usable": True,
    "mean_error": 0.02,
    "mean_error_mc": 0.03,
    "mean_error_resolved": False,
    "sd_ratio": 1.01,
    "sd_ratio_mc": 0.02,
    "sd_ratio_resolved": False,
    "wall_clock_s": 2.0,
    "likelihood_evaluations": 1_000_000,
    "gradient_evaluations": 0,
    "ess_per_second": 500.0,
    "started_at": "2026-01-02T03:04:05+00:00",
    "ended_at": "2026-01-02T03:04:09+00:00",
    "git_commit": "0123456789abcdef0123456789abcdef01234567",
    "git_is_dirty": False,
    "cpu": "Some Processor",
    "num_cpus": 2,
    "system": "Linux x86_64",
    "version_python": "3.11.7",
}


def row(label: str, seed: int = 0, backend: str = "jax-cpu", task: str = "linear", **values: object) -> dict:
    """A good run of ``label`` (the method, then its settings), but for ``values``; other states have no numbers."""
    usual = GOOD | ({"num_points": TASKS[task].num_points} if task in TASKS else {})
    values = (usual if values.get("status", "ok") == "ok" else {}) | values
    run = f"{task}/{label}/{backend}/seed{seed}"
    names = {"study": "made_up", "run": run, "variant": task, "label": label, "task": task}
    names |= _settings_of(label, values.get("target_weight"))
    return names | {"backend": backend, "seed": seed} | values


def _settings_of(label: str, weight: object) -> dict:
    """The method of a label, and the defaults of its settings with those of the label in their place."""
    method, *words = label.split("+")
    own = dict(word.split("=") for word in words if word.partition("=")[0] in SETTINGS)
    settings = {name: setting.default_for(100) for name, setting in METHODS[method].settings.items()}
    settings |= {name: SETTINGS[name].parse(own[name]) for name in own}
    settings["weight"] = "data" if weight in (None, 100.0) else str(weight)
    return {"method": method, "method_exactness": str(METHODS[method].exactness), "num_parameters": 100, **settings}


def study_of(rows: list[dict], folder: Path = Path("made_up"), description: str = "a made-up study") -> StudyResults:
    return StudyResults(folder, table_of(rows), description)


def figure(
    name: str, runs: tuple[str, ...] = (), section: str = "Beyond", num_points: int = 3, claims=(), marks=(), **texts
) -> FigureSpec:
    """A small drawing, of so many points, with ``marks`` that say what they stand for."""

    def draw(study: StudyResults) -> Drawing:
        panel = Panel(x=Axis("across"), y=Axis("up"))
        panel.add(Dots(*np.random.default_rng(0).normal(size=(2, num_points)), "#0072b2"))
        panel.add(*(Point(0.5, 0.5, Look("#d55e00"), size=20, mark=mark) for mark in marks))
        return Drawing([panel], texts.get("caption", f"What to see in {name}."), runs)

    return FigureSpec(name, texts.get("title", f"Title of {name}"), section, draw, texts.get("paper"), claims)


def failing_figure(name: str, error: Exception) -> FigureSpec:
    """One that raises ``error``, which may be a NothingToShow."""

    def draw(study: StudyResults) -> Drawing:
        raise error

    return FigureSpec(name, f"Title of {name}", "Beyond", draw)


def claim(number: int, below: float = 1.0, method: str | list[str] = "full_mh", **texts: Any) -> Claim:
    """A claim that the NLL of each setting of a method, 0.7 where a test says nothing else, is below a margin."""
    entry = {"runs": {"method": method}, "parts": [{"each": True, "ask": [{"column": "nll", "below": below}]}]}
    words = {"statement": f"Statement {number}.", "short": f"Statement {number}", "place": "Fig. 1", "rule": "a rule"}
    return Claim(
        **{"id": number, "studies": (), "seeds": 16, "num_looks": 1, "margins": {}, "rule_sha256": 64 * "0"},
        **{"entry": entry, **words, **texts},
    )


def every_outcome() -> list[dict]:
    """Good, skipped, diverged, failed and missing runs, on two backends and three seeds."""
    good = [
        row(label, seed, ess_per_second=speed + seed, ece=0.01 * (1 + seed) * ece)
        for label, speed, ece in (("full_mh", 100.0, 5), ("pbnn+batch_size=2", 300.0, 2), ("mala", 200.0, 4))
        for seed in range(3)
    ]
    return [
        *good,
        row("pbnn+batch_size=2", backend="jax-gpu", status="skipped", reason="no CUDA device"),
        row("sgld+batch_size=2", status="diverged", reason="chain 0 became non-finite", target_weight=2.0),
        row("naive+batch_size=2", status="failed", reason="MemoryError: no"),
        row("ula", status="missing", reason="not run yet"),
        row("tempered+batch_size=5", r_hat=1.4, target_weight=5.0),
    ]


#: Where no benchmarks are kept.
NO_BENCHMARKS = Path("nowhere", "benchmarks.json")
#: Of a made-up measurement, beside its rows.
MEASUREMENT = {
    "versions": {"python": "3.11.7", "jax": "7.8.9", "torch": "4.5.6"},
    "git_commit": "fedcba9876543210fedcba9876543210fedcba98",
    "git_is_dirty": False,
    "cpu": "Benched Processor",
    "num_cpus": 3,
    "system": "Linux x86_64",
}


def benchmark(kind: str, ratio: float, microseconds: float = 50.0, **values: object) -> dict:
    """A row of the benchmarks, with quartiles of a tenth."""
    times = {"microseconds": ratio * microseconds, "baseline_microseconds": microseconds}
    quartiles = {"ratio": ratio, "ratio_low": 0.9 * ratio, "ratio_high": 1.1 * ratio}
    names = {"kind": kind, "what": f"a {kind}", "baseline": "its bare likelihoods and gradients", "target": None}
    return names | {"method": "pbnn"} | times | quartiles | values


def step(method: str, shape: str, backend: str, chains: int, ratio: float, **values: object) -> dict:
    what = f"{method}, {shape}, {chains} chains, {backend}"
    where = {"method": method, "shape": shape, "backend": backend, "chains": chains}
    return benchmark("step", ratio, what=what, **where | values)


def points(method: str, num_points: int, ratio: float, **values: object) -> dict:
    names = {"what": f"{method}, N = {num_points:,}", "baseline": f"{method}, N = 10,000"}
    names |= {"baseline_size": 10_000}
    return benchmark("points", ratio, method=method, num_points=num_points, **names | values)


#: Some of every kind.
EVERY_KIND = [
    step("pbnn", "regression", "jax-cpu", 1, 5.0),
    step("pbnn", "mnist", "jax-cpu", 1, 1.3, target=1.4),
    step("pbnn", "mnist", "torch-cpu", 4, 2.3, target=1.8),
    step("full_mh", "mnist", "torch-cpu", 4, 1.1),
    step("pbnn", "regression", "jax-cpu", 4, 0.3, baseline="full_mh, regression, 4 chains, jax-cpu", target=0.6),
    benchmark("peer", 0.5, baseline="blackjax SGLD", method="sgld", backend="jax-cpu", target=0.8),
    points("pbnn", 1_000_000, 2.0, data_mb=88.0, other_mb=1.5),
    points("pbnn", 100_000, 1.2, data_mb=8.8, other_mb=1.5),
    points("full_mh", 1_000_000, 90.0, data_mb=88.0, other_mb=12.0),
    points("rows", 1_000_000, 3.0),
    benchmark("chains", 0.8, what="pbnn, 2 chains, a step of one", baseline="pbnn, 1 chain", chains=2, baseline_size=1),
    benchmark(
        "chains", 1.6, what="pbnn, 64 chains, a step of one", baseline="pbnn, 1 chain", chains=64, baseline_size=1
    ),
    benchmark("batch_size", 0.2, what="pbnn, n = 10", baseline="pbnn, n = 100", batch_size=10, baseline_size=100),
    benchmark("batch_size", 9.0, what="pbnn, n = 1000", baseline="pbnn, n = 100", batch_size=1000, baseline_size=100),
]


def benchmarks_in(folder: Path, rows: list[dict], **values: object) -> Path:
    """A file of benchmarks as they are kept."""
    path = folder / "benchmarks.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"rows": rows} | MEASUREMENT | values))
    return path


def planned(file: Path, like: Path) -> StudyResults:
    """Every run that a study file asks for, with the numbers of the nearest run of an earlier summary.

    So that figures are seen at the size of a study before it has run. Runs on a GPU are skipped.
    """
    study = load_study(file)
    known = pd.read_csv(like).query("status == 'ok'")
    numbers = [name for name in known if name in COLUMNS and name not in ("target_weight", "num_points")]
    rows = []
    for number, empty in enumerate(rows_of(study.runs, Path("nowhere", study.name))):
        if empty["backend"].endswith("gpu"):
            rows.append(empty | {"status": "skipped", "reason": "no CUDA device"})
            continue
        near = known.iloc[_distances(known, empty).argmin()]
        found = {name: near[name] for name in numbers if pd.notna(near[name]) and empty.get(name) is None}
        weight = {"data": empty["num_points"], "batch": empty.get("batch_size")}.get(empty["weight"], empty["weight"])
        # No two runs have the same numbers, and seeds have an interval.
        moved = {name: _moved(found[name], number) for name in MOVED if name in found}
        rows.append(empty | found | moved | {"status": "ok", "reason": None, "target_weight": float(weight)})
    return StudyResults(Path("nowhere", study.name), table_of(rows), study.description)


#: Columns that differ between made-up runs.
MOVED = ("acceptance_rate", "sd_ratio", "sliced_w2", "mean_variance", "wall_clock_s", "confidence_gap")


def _moved(value: float, number: int) -> float:
    return value * (1 + 0.1 * math.sin(number))


def _distances(known: pd.DataFrame, row: dict) -> np.ndarray:
    """Of earlier runs from a planned one: another method, task or variance is far, another number by its ratio."""
    far = 100.0 * (known["method"] != row["method"]) + 30.0 * (known["task"] != row["task"])
    far += 10.0 * (known["weight"] != row["weight"]) + 3.0 * (known["variance"] != row.get("variance"))
    for name in ("num_points", "batch_size", "num_batches", "step_size"):
        if row.get(name) is not None:
            far += np.abs(np.log(known[name].astype(float) / float(row[name]))).fillna(5.0)
    return far.to_numpy() + 0.01 * np.abs(known["seed"].to_numpy() - row["seed"])
