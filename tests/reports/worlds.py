"""Made-up summaries in which every claim is true: of the paper, of tall data, of networks on MNIST, and of rivals."""

import itertools
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from implementations.methods import METHODS
from records.study import StudyResults
from records.summary import table_of
from reports.evidence import CONTROLLED
from tests.reports.studies import row

Row = dict[str, Any]
SEEDS = (0, 1, 2)

#: What runs have unless they say otherwise: chains that have converged, on their target.
USUAL = {
    "study": "made-up",
    "stochastic": "last",
    "prior": "gaussian",
    "status": "ok",
    "preconditioner": "full",
    "num_steps": 1000,
    "chains": 4,
    "dtype": "float32",
    "r_hat": 1.01,
    "ess_bulk_min": 1000.0,
    "sd_ratio": 1.0,
    "sd_ratio_mc": 0.01,
    "mean_error": 0.02,
    "mean_error_mc": 0.01,
    "squared_bias": 1e-4,
    "sliced_w2": 0.03,
    "sliced_w2_mc": 0.02,
    "audit_num_steps": 500,
    "audit_exact_acceptance": 0.8,
    "audit_delta_skewness": 0.1,
    "audit_spread_variance": 0.8,
    "audit_spread_noise": 0.5,
    "audit_balance_residual": 0.001,
    "audit_balance_residual_mc": 0.0005,
    "wall_clock_s": 1.0,
    "cpu_s": 1.0,
    "step_by_turns_us": 2.0,
    "reading_by_turns_us": 0.0,
    "likelihood_evaluations": 800_000,
    "gradient_evaluations": 0,
}
#: Columns that differ between seeds, by as much as chains of some length do.
NOISY = {
    "sd_ratio": 0.004,
    "accuracy": 2e-4,
    "ece": 5e-4,
    "nll": 5e-4,
    "crps": 5e-4,
    "confidence_gap": 5e-4,
    "acceptance_rate": 1e-3,
    "squared_bias": 1e-4,
}
NUM_POINTS = {"linear": 100, "digits": 1200, "regression": 2000, "logistic": 10_000, "mnist": 55_000}
NUM_POINTS |= {"flights": 2_900_000}
OVERFITTED = "mnist-points10000-epochs60"
#: Standard deviations by which fresh points move the predictive mean in the made-up world.
SHIFT = 0.5


def paper_runs(variant: str, method: str, /, *, backend: str = "jax-cpu", **columns: Any) -> list[Row]:
    """The runs of one setting, one per seed."""
    task, _, size = variant.partition("-n")
    task = task.partition("-")[0]
    number = itertools.count(1)
    given = ("batch_size", "num_batches", "step_size", "variance", "weight", "preconditioner", "num_steps", "decay")
    label = "+".join([method, *(f"{name}={columns[name]}" for name in given if name in columns)])
    rows = []
    for seed in SEEDS:
        row = USUAL | {"task": task, "num_points": int(size or NUM_POINTS[task]), "step_size": 0.1, **columns}
        row["fresh_points"] = 400_000 if "-fresh" in variant else None
        row["num_epochs"] = 60 if "-epochs" in variant else None
        row |= {"method": method, "backend": backend, "seed": seed, "run": f"{variant}/{label}/{backend}/seed{seed}"}
        row |= {"variant": variant, "label": label}
        named = {"batch": row.get("batch_size"), "data": row["num_points"]}
        row["target_weight"] = named.get(row["weight"]) or float(row["weight"])
        if "acceptance_rate" in row:
            row.setdefault("audit_acceptance", row["acceptance_rate"])
        # In the same order in every process, which a set of names would not be.
        for name in (one for one in NOISY if row.get(one) is not None):
            # Different for every setting, or paired differences would have no spread at all.
            row[name] += min(NOISY[name], abs(row[name])) * math.sin(7.0 * next(number) + len(label) + seed)
        if "accuracy" in row:
            row["validation_accuracy"] = row["accuracy"] - 1e-4 * seed
        rows.append(row)
    return rows


def paper_world() -> list[Row]:
    """A summary in which everything is as the paper says."""
    linear = {"weight": "data", "step_size": 2e-4, "batch_size": 2, "preconditioner": "none"}
    batches = {"variance": "batches", "weight": "batch"}
    paper = batches | {"batch_size": 5, "num_batches": 5}
    noisy = paper | {"mean_variance": 0.6}
    scaling = batches | {"batch_size": 10, "num_batches": 10, "mean_variance": 0.2, "acceptance_rate": 0.5}
    gradient = {"weight": "batch", "batch_size": 5, "audit_exact_acceptance": 1e-4}
    images = batches | {"batch_size": 100, "num_batches": 10, "mean_variance": 0.2, "acceptance_rate": 0.3}
    overfitted = {"num_points": 10_000, "weight": "data"}
    return [
        *paper_runs("linear", "naive", **linear, num_batches=1, sd_ratio=1.8, acceptance_rate=0.67),
        *paper_runs(
            "linear", "pbnn", **linear, num_batches=1, variance="oracle", mean_variance=4.0, acceptance_rate=0.28
        ),
        *(
            row
            for n, m, variance, acceptance, skewness in [
                (2, 2, 2.0, 0.50, 0.3),
                (2, 5, 0.8, 0.58, 0.2),
                (2, 10, 0.4, 0.65, 0.1),
                (5, 2, 0.8, 0.60, 0.2),
                (10, 2, 0.4, 0.66, 0.1),
            ]
            for row in paper_runs(
                "linear",
                "pbnn",
                **linear | {"batch_size": n, "num_batches": m, "variance": "batches"},
                mean_variance=variance,
                acceptance_rate=acceptance,
                audit_delta_skewness=skewness,
                sd_ratio=1 + 0.02 * variance,
                # Where the correction is there too, it is needed.
                audit_balance_residual=0.1 if (n, m) == (2, 10) else 0.001,
            )
        ),
        *paper_runs("linear", "pbnn_corrected", **linear, num_batches=10, variance="batches", mean_variance=0.4),
        *paper_runs("regression", "full_mh", weight="data", ece=0.08, confidence_gap=0.08, nll=1.0, crps=0.5),
        *paper_runs("regression", "tempered", weight="batch", batch_size=5),
        *(
            row
            for n, ece, gap, nll in [(5, 0.03, -0.03, 0.9), (10, 0.01, 0.0, 0.85), (200, 0.07, 0.07, 0.95)]
            for scores in [{"ece": ece, "validation_ece": ece, "nll": nll, "crps": nll / 2, "confidence_gap": gap}]
            for row in paper_runs(
                "regression", "pbnn", **noisy | {"batch_size": n}, **scores, acceptance_rate=0.5, sd_ratio=1.3
            )
        ),
        *paper_runs(
            "regression", "pbnn", **paper, step_size=0.4, mean_variance=2.4, acceptance_rate=0.2, sd_ratio=1.33
        ),
        *(
            row
            for step in (0.05, 0.2)
            for row in paper_runs("regression", "pbnn", **paper, step_size=step, mean_variance=1.0, sd_ratio=1.31)
        ),
        *(
            row
            for step in (0.05, 0.1, 0.2, 0.4)
            for row in paper_runs("regression", "pbnn_mala", **noisy, step_size=step, ess_bulk_min=3000.0)
        ),
        *paper_runs("regression-fresh400000", "pbnn", **noisy | {"batch_size": 200, "num_points": 400_000}),
        *paper_runs("regression-laplace", "pbnn", **noisy, prior="laplace"),
        *paper_runs("regression-all", "pbnn", **noisy, stochastic="all"),
        *paper_runs("regression", "sgld", **gradient, step_size=1e-5, decay=0.0, sd_ratio=1.02),
        *paper_runs("regression", "sgld", **gradient, step_size=1e-4, decay=0.0, sd_ratio=2.0),
        *paper_runs("regression", "sgld", **gradient, step_size=1e-4, decay=0.5, sd_ratio=1.3),
        *paper_runs("mnist", "mala", weight="data", accuracy=0.936, ece=0.03, confidence_gap=0.03, nll=0.3),
        *paper_runs("mnist", "pbnn", **images, accuracy=0.932, ece=0.01, nll=0.25, confidence_gap=0.01),
        *paper_runs(OVERFITTED, "mala", **overfitted, ece=0.035, confidence_gap=0.035, nll=0.3),
        *(
            row
            for weight, ece in (("100", 0.02), ("1000", 0.008))
            for row in paper_runs(
                OVERFITTED, "mala", **overfitted | {"weight": weight}, ece=ece, validation_ece=ece, nll=0.24
            )
        ),
        *(row for n in (1000, 100_000) for row in paper_runs(f"linear-n{n}", "pbnn", **scaling)),
    ]


class MadeUp(StudyResults):
    """Results whose files are made up as well: right answers at 0, and chains on fresh points ``shift`` from there."""

    shift = SHIFT

    def curves(self, run: str) -> dict[str, np.ndarray]:
        if run.startswith("mnist"):
            # One point in a hundred that the one has right and the other wrong.
            return {"is_right": np.arange(10_000) % 100 > ("pbnn" in run)}
        means = self.shift + 0.01 * np.sin(np.arange(12.0) + int(run[-1])).reshape(4, 3)
        return {"chain_means": means, "predictive_sd": np.ones(3)}

    def reference(self, row: Mapping[Any, Any]) -> Any:
        assert row["variant"] == "regression"
        zeros, ones = np.zeros((3, 1)), np.ones((3, 1))
        return SimpleNamespace(predictive_mean=zeros, predictive_sd=ones, predictive_mcse=zeros)


class WithoutShift(MadeUp):
    """Fresh points make no difference."""

    shift = 0.0


# Tall data


def tall_runs(task: str, method: str, num_points: int | None = None, **columns: Any) -> list[Row]:
    """The runs of one setting at w = N, one per seed, with a little noise."""
    points = num_points or NUM_POINTS[task]
    shared = {"weight": "data", "num_points": points, "mean_error": 0.015, "squared_bias": None, "sd_ratio_mc": 0.005}
    shared |= {"point_error": 0.015, "point_error_mc": 0.01, "cpu_s": 0.1, "warmup_cpu_s": 0.01, "anchor_cpu_s": 3.0}
    shared |= {"ess_per_second": 40_000.0, "likelihood_evaluations": 4_000_000}
    variant = task if points == NUM_POINTS[task] else f"{task}-n{points}"
    rows = paper_runs(variant, method, **shared | {"ess_bulk_min": 4000.0} | columns)
    for one in rows:
        wobble = 1 + 0.01 * math.sin(7.0 * (one["seed"] + len(method)) + points)
        one |= {name: one[name] * wobble for name in ("ess_bulk_min", "mean_error", "point_error", "cpu_s")}
        one["sd_ratio"] = columns.get("sd_ratio", 1 + 0.1 * (wobble - 1))
    return rows


def tall_world() -> list[Row]:
    """A summary in which every question is answered with yes."""
    sizes = (10_000, 1_000_000, 10_000_000)
    slow = {"cpu_s": 80.0, "warmup_cpu_s": 1.0}
    return [
        *(row for method in CONTROLLED for size in sizes for row in tall_runs("logistic", method, size)),
        *tall_runs("logistic", "laplace", sizes[-1], likelihood_evaluations=0),
        *(row for task in ("digits", "mnist", "flights") for row in tall_runs(task, "pbnn_cn")),
        *tall_runs("mnist", "mala", **slow),
        *tall_runs("mnist", "blackjax_hmc", **slow | {"cpu_s": 70.0}),
        *tall_runs("flights", "mala", **slow | {"cpu_s": 1000.0}),
        *tall_runs("digits", "laplace", point_error=1.7),
        *tall_runs("mnist", "laplace", point_error=0.19),
        *tall_runs("flights", "laplace", point_error=0.01),
    ]


# Networks on MNIST

NARROW_PRIOR, WIDE_PRIOR = 1.0, 10.0


def network(gaps, nll, prior=NARROW_PRIOR, is_longer=True, temperature=0.3, spread=0.001, **changed) -> list[dict]:
    """The runs of a network: a confidence gap and an NLL for n = 100, n = 1,000 and all data."""
    points, epochs = (10_000, 60) if is_longer else (55_000, None)
    variant = "mnist" + (f"-scale{prior:g}" if prior != 1 else "") + ("-points10000-epochs60" if is_longer else "")
    rows = []
    for place, seed in enumerate((40, 41, 42)):
        shared = {"variant": variant, "num_points": points, "num_epochs": epochs, "prior_scale": prior}
        noise = spread * (place - 1)
        for weight, gap, loss in zip((100.0, 1000.0, float(points)), gaps, nll, strict=True):
            label = f"blackjax_hmc+weight={'data' if weight == points else f'{weight:g}'}"
            numbers = {"confidence_gap": gap + noise, "ece": abs(gap) + 0.002 + noise, "nll": loss + noise}
            numbers |= {"validation_ece": abs(gap) + 0.003 + noise, "target_weight": weight}
            run = row(label, seed, task="mnist", **(numbers | changed)) | shared
            rows.append(run | {"run": f"{variant}/{run['label']}/jax-cpu/seed{seed}"} | _weight(weight, points))
        scaled = row(
            "temperature", seed, task="mnist", nll=temperature + noise, ece=0.01, r_hat=None, ess_bulk_min=None
        )
        rows.append(scaled | shared | {"run": f"{variant}/temperature/jax-cpu/seed{seed}"} | _weight(points, points))
    return rows


def _weight(weight: float, points: int) -> dict:
    return {"target_weight": float(weight), "weight": "data" if weight == points else f"{weight:g}"}


#: As on MNIST: overfitted networks are overconfident, the more so the wider the prior; the well-trained are not.
NETWORKS = {
    "overfitted": lambda **more: network((-0.13, 0.002, 0.035), (0.34, 0.24, 0.30), temperature=0.26, **more),
    "overfitted, wide prior": lambda **more: network(
        (0.004, 0.037, 0.055), (0.28, 0.52, 0.92), prior=WIDE_PRIOR, temperature=0.26, **more
    ),
    "well trained": lambda **more: network((-0.126, -0.025, 0.004), (0.33, 0.22, 0.215), is_longer=False, **more),
    "well trained, wide prior": lambda **more: network(
        (-0.018, -0.006, -0.003), (0.229, 0.217, 0.216), prior=WIDE_PRIOR, is_longer=False, **more
    ),
}


def networks_world(**replaced: list[dict]) -> list[dict]:
    """The usual networks, but for those that are given, by their names with underscores."""
    names = {name: name.replace(", ", "_").replace(" ", "_") for name in NETWORKS}
    return [run for name, make in NETWORKS.items() for run in replaced.get(names[name]) or make()]


# Rivals


def rival(label: str, evaluations: int, **values: Any) -> list[Row]:
    """The runs of a method on a target, one per seed, at so many evaluations."""
    exactness = METHODS[label.partition("+")[0]].exactness.value
    return [
        row(label, seed, likelihood_evaluations=round(evaluations * (1 + 1e-4 * seed)), **values)
        | {"method_exactness": exactness}
        for seed in SEEDS
    ]


def rivals_world() -> list[Row]:
    """A chain on mini-batches that takes a quarter of the evaluations, and an exact one whose decisions are audited."""
    audited = {"audit_balance_residual": 0.003, "audit_balance_residual_mc": 0.004}
    return [*rival("pbnn+batch_size=2", 500_000), *rival("full_mh", 2_000_000), *rival("tunamh", 10**7, **audited)]


# Changes


def study(rows: list[Row], kind: type[StudyResults] = MadeUp) -> StudyResults:
    return kind(Path("made-up"), table_of(rows))


def changed(rows: list[Row], where: Mapping[str, Any], **columns: Any) -> list[Row]:
    """The rows with other numbers in some; a function makes the new value of a row."""
    hits = [one for one in rows if all(one.get(name) == value for name, value in where.items())]
    assert hits, f"no row of the world has {where}"
    for hit in hits:
        hit |= {name: value(hit) if callable(value) else value for name, value in columns.items()}
    return rows


def by_seed(*values: float) -> Callable[[Row], float]:
    return lambda row: values[row["seed"] % 10]
