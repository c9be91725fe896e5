"""The regression gate: has a change made a sampler wrong or slow?  ``make regress``, or this module with --help.

Three tiers, each against its file in results/baselines, and an exit code for each:

2  exact        evaluations a step makes, and the decisions of both backends fed with numpy's random numbers. In double
                precision and for 200 steps, where the closest decision is far wider than rounding: processors differ
                in the last bits and must not differ here. The backends' own random numbers play no part.
3  statistical  acceptance, bias and calibration over 128 independent chains on two problems with a known answer:
                ``linear``, and ``two_classes`` for softmax. The chains' spread is the Monte Carlo error; how many of
                them a value may be off its baseline, or the exact answer where the method is exact, follows from a
                rate of false alarms: of a thousand changes that only draw other random numbers, one is stopped.
4  timing       ratios of work timed by turns in one process, so that they carry over between machines of a kind; one
                baseline a processor model, and for another model the most lenient of them. The threshold follows
                from repeated runs of unchanged code: one further run in a hundred exceeds it, and what does is
                measured again before it counts.
5  nothing was measured, or a baseline is missing or broken, or the command makes no sense

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from implementations.run import Job
    from implementations.tasks.problem import Problem

ROOT = Path(__file__).parents[2]
BASELINES = ROOT / "results" / "baselines"
CODES = {"exact": 2, "statistical": 3, "timing": 4}
NOTHING = 5

#: Runs of unchanged code that a tier may stop, all its values together.
FALSE_ALARMS = {"statistical": 1e-3, "timing": 1e-2}
#: The least slow-down that is worth a word.
LEAST_SLOWDOWN = 1.3
#: Repeated runs that a baseline's spread is taken from, and those of base and head.
NUM_REPEATS, NUM_TURNS = 10, 2

Rows = dict[str, dict[str, Any]]

#: Every method on ``linear``, every kind of part on ``two_classes``, where noise matters: a lost penalty doubles the
#: variance.
LIVELY: dict[str, dict[str, dict[str, Any]]] = {
    "linear": {
        "full_mh": {},
        "tempered": {"batch_size": 20},
        "naive": {"batch_size": 5, "step_size": 0.1},
        "pbnn": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 20},
        "pbnn_corrected": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 20},
        "sgld": {"batch_size": 5, "step_size": 0.3},
        "ula": {"step_size": 0.3},
        "mala": {"step_size": 0.5},
        "pbnn_mala": {"batch_size": 5, "num_batches": 5, "step_size": 0.3, "weight": 20},
    },
    "two_classes": {
        "full_mh": {},
        "pbnn": {"batch_size": 5, "num_batches": 5, "step_size": 0.5, "weight": 40},
        "sgld": {"batch_size": 50, "step_size": 0.3},
        "mala": {"step_size": 0.5},
        "pbnn_mala": {"batch_size": 5, "num_batches": 5, "step_size": 0.3, "weight": 40},
    },
}
#: Independent chains, so that their spread is the error.
CHAINS = {"chains": 128, "num_steps": 1000, "num_warmup": 300, "thin": 10}
#: Test points at which a draw is looked at.
NUM_PROBES = 200
#: What a method with an exact target has to find, in units of the exact answer.
TRUTHS = {"shift": 0.0, "variance": 1.0, "prior_variance": 1.0}


class NothingMeasured(Exception):
    """Why there is nothing to judge."""


@cache
def known_problem(name: str) -> "Problem":
    """``linear``; or ``two_classes``: its inputs with classes of log odds 0.5 + 2 x, as a softmax of two outputs."""
    from implementations.tasks import prepare
    from implementations.tasks.geometry import mean_curvature
    from implementations.tasks.mode import find_mode

    if name == "linear":
        return prepare("linear", 0, progress=False)
    problem = prepare("linear", 0, num_points=200, progress=False)
    random = np.random.default_rng(0)

    def classes(features: np.ndarray) -> np.ndarray:
        return (random.logistic(size=len(features)) < features @ [0.5, 2.0]).astype(np.int32)

    problem = replace(
        problem,
        task=name,
        likelihood="categorical",
        layers=((2, 2),),
        targets=classes(problem.features),
        test_targets=classes(problem.test_features),
        validation_targets=classes(problem.validation_features),
        map=np.zeros(4, np.float32),
    )
    problem = replace(problem, map=find_mode(problem, problem.num_points).astype(np.float32))
    return replace(problem, curvature=mean_curvature(problem, problem.map))


def log_odds_posterior(problem: "Problem", weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the log odds' intercept and slope in ``two_classes``, by sums over a grid.

    Two outputs with weights u and v enter the likelihood by b = v - u alone, whose prior is N(0, 2 prior_scale^2):

        log p(b) = -|b|^2 / (4 prior_scale^2) + (w / N) sum_j log expit(±b^T x_j)

    Equal steps are exact but for rounding once they are shorter than the posterior's sd: the third grid's are.
    """
    from scipy.special import log_expit

    signed = problem.features.astype(float) * (2.0 * problem.targets[:, None] - 1)
    mean, covariance = np.zeros(2), 2 * problem.prior_scale**2 * np.eye(2)
    for _ in range(3):
        axes = mean[:, None] + np.sqrt(covariance.diagonal())[:, None] * np.linspace(-8, 8, 65)
        grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        log_density = weight / problem.num_points * log_expit(grid @ signed.T).sum(axis=1)
        log_density -= np.square(grid).sum(axis=1) / (4 * problem.prior_scale**2)
        shares = np.exp(log_density - log_density.max())
        shares /= shares.sum()
        mean = shares @ grid
        covariance = (grid - mean).T @ (shares[:, None] * (grid - mean))
    return mean, covariance


def measure_exact() -> Rows:
    """Evaluations of single points in a step, counted, and decisions and last positions on explicit noise."""
    from implementations.jax_backend import chain as jax_chain
    from implementations.methods import METHODS
    from implementations.tasks.geometry import preconditioner_factor, start_points
    from implementations.torch_backend import chain as torch_chain
    from tests.benchmarks.work import synthetic
    from tests.implementations.chains import counted
    from tests.implementations.test_parity import make_settings, run_jax, run_torch

    rows = {}
    for problem in (known_problem("linear"), known_problem("two_classes"), synthetic("regression")):
        # Two classes have no mini-batches of their own.
        like = replace(problem, task="linear") if problem.task == "two_classes" else problem
        for method in METHODS:
            settings = make_settings(like, method)
            weight = problem.target_weight(settings.weight, settings.batch_size)
            factor = preconditioner_factor(problem, weight, settings.preconditioner)
            start = start_points(problem, weight, settings.chains, 0).astype(float)
            for backend, run, chain in (("jax-cpu", run_jax, jax_chain), ("torch-cpu", run_torch, torch_chain)):
                with counted(chain) as counts:
                    trail, accepted = run(problem, method, settings, start, factor)
                rows[f"{problem.task} {method} {backend}"] = {
                    "losses": counts["losses"] // settings.chains,
                    "gradients": counts["gradients"] // settings.chains,
                    "decisions": ["".join("-+"[int(decision)] for decision in chain) for chain in accepted.T],
                    "position": [float(f"{number:.12g}") for number in trail[-1, :, 0]],
                }
    return rows


def judge_exact(rows: Rows, baseline: Rows) -> list[str]:
    complaints = _incomplete(rows, baseline)
    for name, row in rows.items():
        for key in (key for key in row if key in baseline[name]):
            value, expected = row[key], baseline[name][key]
            if key == "position":
                is_same = len(value) == len(expected) and np.allclose(value, expected, rtol=1e-6, atol=1e-9)
                # Infinities are close to each other.
                is_same = is_same and np.isfinite(value).all()
            else:
                is_same = value == expected
            if not is_same:
                complaints.append(f"{name}: {key} {value}, baseline {expected}")
    return complaints


def _incomplete(rows: Rows, baseline: Rows) -> list[str]:
    """What has other values than its baseline has, such as the reason why there are none."""
    return [
        f"{name}: has {', '.join(row)}; baseline has {', '.join(baseline[name])}"
        for name, row in rows.items()
        if row.keys() != baseline[name].keys()
    ]


def measure_statistical(
    chosen: Sequence[tuple[str, str]] | None = None,
    backends: Sequence[str] = ("jax-cpu", "torch-cpu"),
    seed: int = 0,
) -> Rows:
    """Acceptance, bias and calibration for pairs of problem and method: value and Monte Carlo error of each."""
    from implementations.methods import resolve
    from implementations.run import Job, run

    rows: Rows = {}
    for name, method in chosen or [(task, method) for task in LIVELY for method in LIVELY[task]]:
        problem = known_problem(name)
        settings = resolve(
            method,
            CHAINS | LIVELY[name][method],
            task=problem.task,
            num_points=problem.num_points,
            num_parameters=problem.num_parameters,
        )
        for backend in backends:
            job = Job(problem, method, settings, backend, seed)
            with tempfile.TemporaryDirectory() as folder:
                record = run(job, Path(folder), is_audited=False, stream=io.StringIO())
                with np.load(Path(folder, "draws.npz")) as arrays:
                    rows[f"{name} {method} {backend}"] = (
                        _statistics(job, arrays["draws"].astype(float), arrays["acceptance"])
                        if record["status"] == "ok"
                        else {f"{record['status']}, {record['reason']}": [math.nan, math.nan]}
                    )
    return rows


def _statistics(job: "Job", draws: np.ndarray, acceptance: np.ndarray) -> dict[str, list[float]]:
    by_chain = {"acceptance": acceptance.mean(axis=1)}
    by_chain |= (_line_statistics if job.problem.likelihood == "gaussian" else _class_statistics)(job, draws)
    return {
        name: [float(f"{number:.5g}") for number in (values.mean(), values.std(ddof=1) / math.sqrt(len(values)))]
        for name, values in by_chain.items()
    }


def _line_statistics(job: "Job", draws: np.ndarray) -> dict[str, np.ndarray]:
    from scipy.special import ndtr

    from implementations.tasks.exact import gaussian_posterior
    from metrics.calibration import confidence_gap, coverage_reliability

    exact = gaussian_posterior(job.problem, job.target_weight)
    outputs, bias = _bias(job, draws, exact.mean, exact.covariance)
    pits = ndtr((job.problem.test_targets[:NUM_PROBES] - outputs) / job.problem.noise_sd).mean(axis=1)
    return bias | {"confidence_gap": np.array([confidence_gap(coverage_reliability(pit)) for pit in pits])}


def _class_statistics(job: "Job", draws: np.ndarray) -> dict[str, np.ndarray]:
    """Those of the log odds; and the variance of the outputs' sum, which the data leave to the prior."""
    from scipy.special import expit

    from metrics.calibration import class_reliability, confidence_gap

    first, second = draws[..., 0::2], draws[..., 1::2]
    outputs, bias = _bias(job, second - first, *log_odds_posterior(job.problem, job.target_weight))
    odds = expit(outputs).mean(axis=1)
    targets = job.problem.test_targets[:NUM_PROBES]
    return bias | {
        "prior_variance": np.square(first + second).mean(axis=(1, 2)) / (2 * job.problem.prior_scale**2),
        "confidence_gap": np.array(
            [confidence_gap(class_reliability(np.stack([1 - chain, chain], axis=1), targets)) for chain in odds]
        ),
    }


def _bias(
    job: "Job", weights: np.ndarray, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Outputs (chains, draws, probes) of linear functions; their shift and variance in units of the exact answer's."""
    features = job.problem.test_features[:NUM_PROBES].astype(float)
    scale = math.sqrt(np.einsum("nf,fg,ng->n", features, covariance, features).mean())
    outputs = weights @ features.T
    deviations = (outputs - features @ mean) / scale
    return outputs, {"shift": deviations.mean(axis=(1, 2)), "variance": np.square(deviations).mean(axis=(1, 2))}


def judge_statistical(rows: Rows, baseline: Rows) -> list[str]:
    complaints, num_errors = _incomplete(rows, baseline), allowed_errors(baseline)
    for name, row in rows.items():
        for key in (key for key in row if key in baseline[name]):
            value, error = row[key]
            for source, expected, expected_error in _expectations(name, key, baseline):
                # A rate of exactly 1 has no spread, and none is allowed.
                allowed = num_errors * math.hypot(error, expected_error) + 1e-6
                # An infinite error allows nothing.
                if not abs(value - expected) <= allowed < math.inf:
                    complaints.append(f"{name}: {key} {value:.4g}, {source} {expected:.4g} ± {allowed:.2g}")
    return complaints


def _expectations(name: str, key: str, baseline: Rows) -> list[tuple[str, float, float]]:
    """What a value is compared with: source, value and error."""
    from implementations.methods import METHODS

    is_exact = METHODS[name.split()[1]].target == "exact" and key in TRUTHS
    expected, error = baseline[name][key]
    return [("baseline", expected, error), *([("exactly", TRUTHS[key], 0.0)] if is_exact else [])]


def allowed_errors(baseline: Rows) -> float:
    """Monte Carlo errors that a value may be off by, so that all comparisons together keep the rate of false alarms."""
    from scipy.stats import t

    num_comparisons = sum(len(_expectations(name, key, baseline)) for name, row in baseline.items() for key in row)
    return float(t.isf(FALSE_ALARMS["statistical"] / (2 * num_comparisons), CHAINS["chains"] - 1))


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
        expected, allowed = baseline[name]["ratio"], _bound(baseline[name], len(baseline))
        if not 0 < row["ratio"] <= allowed < math.inf:
            complaints.append(f"{name}: ratio {row['ratio']:.3g}, baseline {expected:.3g}, allowed {allowed:.3g}")
    return complaints


def _bound(row: dict[str, Any], num_rows: int) -> float:
    return float(row["ratio"] * allowed_slowdown(row["ratios"], num_rows))


def allowed_slowdown(ratios: Sequence[float], num_rows: int) -> float:
    """What one more run may exceed the geometric mean of n repeated runs by.

    That is e to the prediction bound s sqrt(1 + 1/n) t of its logarithm, where all rows share the rate of false alarms
    and t has n - 1 degrees of freedom.
    """
    from scipy.stats import t

    quantile = t.isf(FALSE_ALARMS["timing"] / num_rows, len(ratios) - 1)
    # A ratio that is none makes a bound that is not a number, which nothing passes; max() would take the other one.
    with np.errstate(all="ignore"):
        spread = np.std(np.log(ratios), ddof=1)
        return float(np.maximum(LEAST_SLOWDOWN, np.exp(spread * math.sqrt(1 + 1 / len(ratios)) * quantile)))


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
        ended = subprocess.run(command, cwd=root, env=environment | settings, stderr=subprocess.PIPE, text=True)
        if ended.returncode:
            raise NothingMeasured(ended.stderr.strip() or f"the measurement ended with {ended.returncode}")
        rows: Rows = json.loads(path.read_text(encoding="utf-8"))
    return rows


def together(runs: Sequence[Rows]) -> Rows:
    """The ratios of repeated runs, and their geometric mean."""
    rows = {}
    for name in runs[0]:
        ratios = [run[name]["ratio"] for run in runs]
        rows[name] = {"ratio": float(f"{np.exp(np.mean(np.log(ratios))):.4g}"), "ratios": ratios}
    return rows


def timed_at(commit: str) -> tuple[Rows, Rows]:
    """Timing rows of a base commit and of the working tree, measured by turns with the working tree's benchmarks."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
        if archive.returncode:
            raise NothingMeasured(f"--base {commit}: {archive.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(base, filter="data")
        shutil.copytree(ROOT / "tests" / "benchmarks", base / "tests" / "benchmarks", dirs_exist_ok=True)
        before, after = [], []
        for _ in range(NUM_TURNS):
            # First, so that benchmarks which run nowhere are not put down to the base's age.
            after.append(in_fresh_process("timing", ROOT))
            try:
                before.append(in_fresh_process("timing", base))
            except NothingMeasured as error:
                reason = str(error).splitlines()[-1]
                raise NothingMeasured(f"--base {commit}: older than the benchmarks can measure: {reason}") from None
    return together(before), together(after)


def read_baseline(tier: str) -> Rows:
    path = BASELINES / f"{tier}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rows: Rows = _for_this_processor(content["machines"]) if tier == "timing" else content["rows"]
        if not rows or JUDGE[tier](rows, rows):
            raise ValueError("its rows do not pass their own gate")
    except FileNotFoundError:
        raise NothingMeasured(f"no {path}; make it with --refresh") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise NothingMeasured(f"{path} is broken ({reason}); take it from git, or make it with --refresh") from None
    return rows


def _for_this_processor(machines: Sequence[dict[str, Any]]) -> Rows:
    """The rows of this processor model; where it has none, those of another with the widest bound, and a word about it:
    a ratio depends on the machine, if less than a time does."""
    origin = _origin()
    here = {"cpu": origin["cpu"], "system": origin["system"]} | origin["versions"]
    names = dict.fromkeys(name for machine in machines for name in machine["rows"])
    rows: Rows = {}
    differences: dict[str, None] = {}
    for name in names:
        having = [machine for machine in machines if name in machine["rows"]]
        chosen = max(
            [machine for machine in having if machine["cpu"] == here["cpu"]] or having,
            key=lambda machine, name=name: _bound(machine["rows"][name], len(names)),
        )
        rows[name] = chosen["rows"][name]
        there = chosen | chosen["versions"]
        other = [f"{key} {there.get(key)}, here {here[key]}" for key in here if there.get(key) != here[key]]
        if other:
            differences["; ".join([*other, f"measured at commit {str(chosen['git_commit'])[:12]}"])] = None
    for difference in differences:
        message = f"a baseline is of {difference}. Where that matters, --base COMMIT compares on this machine"
        print(f"timing: {message}", file=sys.stderr)
    return rows


def _other_processors(cpu: str) -> list[dict[str, Any]]:
    """What the baseline of timing has of other processors, to be kept."""
    path = BASELINES / "timing.json"
    try:
        machines = json.loads(path.read_text(encoding="utf-8"))["machines"]
        return [machine for machine in machines if machine["cpu"] != cpu]
    except FileNotFoundError:
        return []
    except (ValueError, LookupError, TypeError) as error:
        raise NothingMeasured(
            f"{path} is broken ({type(error).__name__}: {error}), and has what other processors measured; take it from "
            "git, or delete it to begin anew"
        ) from None


def check(tier: str, base: str | None) -> tuple[int, list[str]]:
    """Measure and judge one tier: how many rows, and what is wrong with them."""
    kept = read_baseline(tier)

    def judged() -> tuple[int, list[str]]:
        baseline = kept
        if tier == "timing" and base:
            before, rows = timed_at(base)
            # The spread of unchanged code is the baseline's, the ratios are the base commit's. Means of two turns
            # differ by no more than one run from the mean of many, so the bound holds for them.
            baseline = {name: before[name] | {"ratios": kept[name]["ratios"]} for name in before.keys() & kept.keys()}
        else:
            rows = in_fresh_process(tier, ROOT)
        if not rows or rows.keys() != baseline.keys():
            odd = ", ".join(sorted(rows.keys() ^ baseline.keys()))
            raise NothingMeasured(
                f"measured {len(rows)} rows, the baseline has {len(baseline)}; not in both: {odd}. Rows that are meant "
                "to come or go need --refresh"
            )
        return len(rows), JUDGE[tier](rows, baseline)

    count, complaints = judged()
    if tier == "timing" and complaints:
        # Another program can spoil one run; a slower sampler is slower in the next as well.
        slow = {complaint.split(":")[0] for complaint in judged()[1]}
        complaints = [complaint for complaint in complaints if complaint.split(":")[0] in slow]
    return count, complaints


def refresh(tier: str, origin: Mapping[str, Any]) -> list[str]:
    """Make the baseline of a tier from the code as it is, unless that fails its own gate: what is wrong then."""
    from implementations.files import write_json

    path = BASELINES / f"{tier}.json"
    others = _other_processors(origin["cpu"]) if tier == "timing" else []
    runs = [in_fresh_process(tier, ROOT) for _ in range(NUM_REPEATS if tier == "timing" else 1)]
    rows = together(runs) if tier == "timing" else runs[0]
    if not rows:
        raise NothingMeasured("no rows")
    complaints = JUDGE[tier](rows, rows)
    if complaints:
        print(f"{tier}: not written, {len(complaints)} values do not pass", file=sys.stderr)
    else:
        for machine in others:
            # What is no longer measured is compared with nothing.
            machine["rows"] = {name: row for name, row in machine["rows"].items() if name in rows}
        content = {"rows": rows, **origin}
        write_json(path, {"machines": [*others, content]} if tier == "timing" else content)
        note = ", of code that is in no commit yet" if origin["git_is_dirty"] else ""
        print(f"{tier}: {len(rows)} rows written to {path}{note}")
    return complaints


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
    if (arguments.refresh and arguments.base) or (arguments.write and len(arguments.tiers) > 1):
        print("--refresh takes no --base, and --write takes one tier", file=sys.stderr)
        return NOTHING
    if arguments.write:
        arguments.write.write_text(json.dumps(MEASURE[arguments.tiers[0]]()), encoding="utf-8")
        return 0
    # Before the first baseline is written, which itself changes the tree.
    origin = _origin() if arguments.refresh else {}
    code = 0
    for tier in arguments.tiers:
        try:
            if arguments.refresh:
                complaints = refresh(tier, origin)
            else:
                count, complaints = check(tier, arguments.base)
                print(f"{tier}: {count} rows, {len(complaints)} of their values off")
        except NothingMeasured as error:
            print(f"{tier}: nothing measured: {error}", file=sys.stderr)
            code = code or NOTHING
            continue
        for complaint in complaints:
            print(f"  {complaint}", file=sys.stderr)
        if complaints:
            code = code or CODES[tier]
    return code


def _origin() -> dict[str, Any]:
    from implementations.provenance import git_state, machine, versions

    return {"versions": versions(), **git_state(), **machine()}


if __name__ == "__main__":
    sys.exit(main())
