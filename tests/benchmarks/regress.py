"""The regression gate: has a change made a sampler wrong or slow?  ``make regress``, or this module with --help.

Three tiers, each against its file in results/baselines, and an exit code for each:

2  exact        evaluations a step makes, and the decisions of both backends fed with numpy's random numbers. In double
                precision and for 200 steps, where the closest decision is far wider than rounding: processors differ
                in the last bits and must not differ here. The backends' own random numbers play no part.
3  statistical  acceptance, bias and calibration on ``linear``, whose answer is known, over 128 independent chains.
                Their spread is the Monte Carlo error; a value may leave its baseline, or the exact answer where the
                method is exact, by five errors. A change that only draws other random numbers passes.
4  timing       ratios of work timed by turns in one process, so that they carry over between machines of a kind. What
                exceeds its threshold, set from repeated runs of unchanged code, is measured again before it counts.
5  nothing was measured, or a baseline is missing, or the command makes no sense

The first tier that fails decides.
"""

import argparse
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[2]
BASELINES = ROOT / "results" / "baselines"
CODES = {"exact": 2, "statistical": 3, "timing": 4}
NOTHING = 5

#: Monte Carlo errors that a statistic may be off by. Some 70 are compared, of 128 chains each.
NUM_ERRORS = 5.0
#: Spreads of repeated runs, as logarithms, that a ratio may exceed its baseline by; and the least that is worth a word.
NUM_SPREADS, LEAST_SLOWDOWN = 4.0, 1.3
#: Repeated runs that a baseline's spread is taken from, and those of base and head.
NUM_REPEATS, NUM_TURNS = 5, 2

Rows = dict[str, dict[str, Any]]

#: Every method on ``linear``, where noise matters: a lost penalty doubles the variance.
LIVELY: dict[str, dict[str, Any]] = {
    "full_mh": {},
    "tempered": {"batch_size": 20},
    "naive": {"batch_size": 5, "step_size": 0.1},
    "pbnn": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 20},
    "pbnn_corrected": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 20},
    "sgld": {"batch_size": 5, "step_size": 0.3},
    "ula": {"step_size": 0.3},
    "mala": {"step_size": 0.5},
    "pbnn_mala": {"batch_size": 5, "num_batches": 5, "step_size": 0.3, "weight": 20},
}
#: Independent chains, so that their spread is the error.
CHAINS = {"chains": 128, "num_steps": 1000, "num_warmup": 300, "thin": 10}


def measure_exact() -> Rows:
    """Evaluations a step, and decisions and last positions on explicit noise."""
    from implementations.methods import METHODS, evaluations_per_step
    from implementations.tasks import prepare
    from implementations.tasks.geometry import preconditioner_factor, start_points
    from tests.benchmarks.work import synthetic
    from tests.implementations.test_parity import make_settings, run_jax, run_torch

    rows = {}
    for problem in (prepare("linear", 0, progress=False), synthetic("regression")):
        for method in METHODS:
            settings = make_settings(problem, method)
            weight = problem.target_weight(settings.weight, settings.batch_size)
            factor = preconditioner_factor(problem, weight, settings.preconditioner)
            start = start_points(problem, weight, settings.chains, 0).astype(float)
            likelihoods, gradients = evaluations_per_step(METHODS[method], settings, problem.num_points)
            for backend, run in (("jax-cpu", run_jax), ("torch-cpu", run_torch)):
                trail, accepted = run(problem, method, settings, start, factor)
                rows[f"{problem.task} {method} {backend}"] = {
                    "likelihoods": likelihoods,
                    "gradients": gradients,
                    "decisions": ["".join("-+"[int(decision)] for decision in chain) for chain in accepted.T],
                    "position": [float(f"{number:.12g}") for number in trail[-1, :, 0]],
                }
    return rows


def judge_exact(rows: Rows, baseline: Rows) -> list[str]:
    complaints = []
    for name, row in rows.items():
        for key, expected in baseline[name].items():
            is_same = (
                np.allclose(row[key], expected, rtol=1e-6, atol=1e-9) if key == "position" else row[key] == expected
            )
            if not is_same:
                complaints.append(f"{name}: {key} {row[key]}, baseline {expected}")
    return complaints


def measure_statistical(
    methods: Sequence[str] = tuple(LIVELY), backends: Sequence[str] = ("jax-cpu", "torch-cpu")
) -> Rows:
    """Acceptance, bias and calibration: value and Monte Carlo error of each."""
    from implementations.methods import resolve
    from implementations.run import Job, run
    from implementations.tasks import prepare

    problem = prepare("linear", 0, progress=False)
    rows = {}
    for method in methods:
        settings = resolve(
            method,
            CHAINS | LIVELY[method],
            task=problem.task,
            num_points=problem.num_points,
            num_parameters=problem.num_parameters,
        )
        for backend in backends:
            job = Job(problem, method, settings, backend, seed=0)
            with tempfile.TemporaryDirectory() as folder:
                run(job, Path(folder), is_audited=False, stream=io.StringIO())
                with np.load(Path(folder, "draws.npz")) as arrays:
                    rows[f"linear {method} {backend}"] = _statistics(job, arrays["draws"], arrays["acceptance"])
    return rows


def _statistics(job: Any, draws: np.ndarray, acceptance: np.ndarray) -> dict[str, list[float]]:
    from scipy.special import ndtr

    from implementations.tasks.exact import gaussian_posterior
    from metrics.calibration import confidence_gap, coverage_reliability

    problem = job.problem
    exact = gaussian_posterior(problem, job.target_weight)
    features = problem.test_features[:200].astype(float)
    scale = math.sqrt(np.einsum("nf,fg,ng->n", features, exact.covariance, features).mean())
    outputs = draws.astype(float) @ features.T
    deviations = (outputs - features @ exact.mean) / scale
    pits = ndtr((problem.test_targets[:200] - outputs) / problem.noise_sd).mean(axis=1)
    by_chain = {
        "acceptance": acceptance.mean(axis=1),
        "shift": deviations.mean(axis=(1, 2)),
        "variance": (deviations**2).mean(axis=(1, 2)),
        "confidence_gap": np.array([confidence_gap(coverage_reliability(pit)) for pit in pits]),
    }
    return {
        name: [float(f"{number:.5g}") for number in (values.mean(), values.std(ddof=1) / math.sqrt(len(values)))]
        for name, values in by_chain.items()
    }


def judge_statistical(rows: Rows, baseline: Rows) -> list[str]:
    from implementations.methods import METHODS

    complaints = []
    for name, row in rows.items():
        for key, (value, error) in row.items():
            expected, expected_error = baseline[name][key]
            # A rate of exactly 1 has no spread, and none is allowed.
            allowed = NUM_ERRORS * math.hypot(error, expected_error) + 1e-6
            if not abs(value - expected) <= allowed:
                complaints.append(f"{name}: {key} {value:.4g}, baseline {expected:.4g} ± {allowed:.2g}")
        is_exact = METHODS[name.split()[1]].target == "exact"
        for key, truth in (("variance", 1.0), ("shift", 0.0)) if is_exact else ():
            value, error = row[key]
            if not abs(value - truth) <= NUM_ERRORS * error:
                complaints.append(f"{name}: {key} {value:.4g}, exactly {truth} ± {NUM_ERRORS * error:.2g}")
    return complaints


def measure_timing(names: Sequence[str] | None = None) -> Rows:
    """Ratios of short work, timed by turns; all that compiles in seconds."""
    from tests.benchmarks.timing import Work, alternate
    from tests.benchmarks.work import bare_work, steps, synthetic

    mnist, regression = synthetic("mnist"), synthetic("regression")

    def to_bare(method: str) -> tuple[Work, Work]:
        return steps("jax-cpu", mnist, method), bare_work("jax-cpu", mnist, method)

    def to_full(backend: str, **given: Any) -> tuple[Work, Work]:
        return (
            steps(backend, regression, "pbnn", chains=4, **given),
            steps(backend, regression, "full_mh", chains=4, **given),
        )

    timed: dict[str, Callable[[], tuple[Work, Work]]] = {
        "jax-cpu pbnn mnist to bare": lambda: to_bare("pbnn"),
        "jax-cpu sgld mnist to bare": lambda: to_bare("sgld"),
        "jax-cpu full_mh mnist to bare": lambda: to_bare("full_mh"),
        "jax-cpu pbnn regression to full_mh": lambda: to_full("jax-cpu"),
        # Few enough steps that they are not compiled, which would take a minute.
        "torch-cpu pbnn regression to full_mh, eager": lambda: to_full("torch-cpu", num_steps=1000),
    }
    return {name: alternate(*timed[name](), rounds=11) for name in names or timed}


def judge_timing(rows: Rows, baseline: Rows) -> list[str]:
    complaints = []
    for name, row in rows.items():
        allowed = baseline[name]["ratio"] * max(LEAST_SLOWDOWN, math.exp(NUM_SPREADS * baseline[name]["spread"]))
        if not row["ratio"] <= allowed:
            complaints.append(
                f"{name}: ratio {row['ratio']:.3g}, baseline {baseline[name]['ratio']:.3g}, allowed {allowed:.3g}"
            )
    return complaints


MEASURE: dict[str, Callable[[], Rows]] = {
    "exact": measure_exact,
    "statistical": measure_statistical,
    "timing": measure_timing,
}
JUDGE = {"exact": judge_exact, "statistical": judge_statistical, "timing": judge_timing}


def in_fresh_process(tier: str, root: Path) -> Rows:
    """A tier's rows from the code in ``root``: compiled anew, with the settings of a process of its own."""
    settings = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # Repeated runs compile once.
    settings |= {
        "JAX_COMPILATION_CACHE_DIR": str(ROOT / "results" / ".cache" / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.json")
        command = [sys.executable, "-m", "tests.benchmarks.regress", "--tiers", tier, "--write", str(path)]
        environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "PYTHONPATH")}
        subprocess.run(command, cwd=root, env=environment | settings, check=True)
        rows: Rows = json.loads(path.read_text(encoding="utf-8"))
    return rows


def together(runs: Sequence[Rows]) -> Rows:
    """The median ratio of repeated runs, and the spread of its logarithm."""
    rows = {}
    for name in runs[0]:
        ratios = [run[name]["ratio"] for run in runs]
        spread = float(np.std(np.log(ratios), ddof=1)) if len(runs) > 1 else 0.0
        rows[name] = runs[0][name] | {"ratio": float(np.median(ratios)), "spread": float(f"{spread:.3g}")}
    return rows


def timed_at(commit: str) -> tuple[Rows, Rows]:
    """Timing rows of a base commit and of the working tree, measured by turns with the working tree's benchmarks."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
        if archive.returncode:
            raise LookupError(f"--base {commit}: {archive.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(base, filter="data")
        shutil.copytree(ROOT / "tests" / "benchmarks", base / "tests" / "benchmarks", dirs_exist_ok=True)
        runs = [(in_fresh_process("timing", base), in_fresh_process("timing", ROOT)) for _ in range(NUM_TURNS)]
    before, after = (together(side) for side in zip(*runs, strict=True))
    return before, after


def check(tier: str, base: str | None) -> tuple[int, list[str]]:
    """Measure and judge one tier: how many rows, and what is wrong with them."""
    path = BASELINES / f"{tier}.json"
    if not path.exists():
        raise LookupError(f"no {path.relative_to(ROOT)}; make it with --refresh")
    baseline: Rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
    if tier == "timing" and base:
        before, rows = timed_at(base)
        # The spread of unchanged code is the baseline's, the ratios are the base commit's.
        baseline = {name: row | {"spread": baseline.get(name, row)["spread"]} for name, row in before.items()}
    else:
        rows = in_fresh_process(tier, ROOT)
    if not rows or rows.keys() != baseline.keys():
        odd = sorted(rows.keys() ^ baseline.keys())
        raise LookupError(f"{tier}: measured {len(rows)} rows, the baseline has {len(baseline)}; not in both: {odd}")
    complaints = JUDGE[tier](rows, baseline)
    if tier == "timing" and complaints and not base:
        # Another program can spoil one run; a slower sampler is slower in the next as well.
        again = JUDGE[tier](in_fresh_process(tier, ROOT), baseline)
        slow = {complaint.split(":")[0] for complaint in again}
        complaints = [complaint for complaint in complaints if complaint.split(":")[0] in slow]
    return len(rows), complaints


def refresh(tier: str) -> None:
    """Make the baseline of a tier from the code as it is."""
    from implementations.files import write_json
    from implementations.provenance import git_state, machine, versions

    runs = [in_fresh_process(tier, ROOT) for _ in range(NUM_REPEATS if tier == "timing" else 1)]
    rows = together(runs) if tier == "timing" else runs[0]
    write_json(BASELINES / f"{tier}.json", {"rows": rows, "versions": versions(), **git_state(), **machine()})
    print(f"{tier}: {len(rows)} rows written to {BASELINES / f'{tier}.json'}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m tests.benchmarks.regress", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tiers", nargs="+", choices=list(CODES), default=list(CODES), help="default: all three")
    parser.add_argument(
        "--base", metavar="COMMIT", help="time that commit and the working tree by turns, and compare them"
    )
    parser.add_argument("--refresh", action="store_true", help="make the baselines anew; the README says when one may")
    parser.add_argument("--write", type=Path, metavar="FILE", help="measure one tier, write its rows, judge nothing")
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:
        # argparse would leave with 2, which means something else here.
        return NOTHING if end.code else 0
    if arguments.write:
        (tier,) = arguments.tiers
        arguments.write.write_text(json.dumps(MEASURE[tier]()), encoding="utf-8")
        return 0
    code = 0
    for tier in arguments.tiers:
        if arguments.refresh:
            refresh(tier)
            continue
        try:
            count, complaints = check(tier, arguments.base)
        except (LookupError, subprocess.CalledProcessError) as error:
            print(f"{tier}: nothing measured: {error}", file=sys.stderr)
            return NOTHING
        print(f"{tier}: {count} rows, {len(complaints)} of their values off")
        for complaint in complaints:
            print(f"  {complaint}", file=sys.stderr)
        if complaints:
            code = code or CODES[tier]
    return code


if __name__ == "__main__":
    sys.exit(main())
