"""Scores of predictions of whole networks: their distance from the exact posterior and, apart from it, their quality.

    python -m records.network_scores --tasks boston-tanh --splits 0 1 2 3 4 --out results/networks.parquet

scores the practitioners' baselines against the stored references of weight N.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from implementations.backends import use_one_thread
from implementations.networks.baselines import Baselines, Predictions
from implementations.networks.network import HALF_LOG_2PI
from implementations.networks.tasks import NETWORK_TASKS, NetworkData, find_network_task
from metrics.calibration import class_reliability, confidence_gap, ece
from metrics.prediction import gaussian_mixture_crps, mean_absolute
from records.network_references import FOLDER, NetworkReference, path_of

#: Rates of SGD among which SWAG's is chosen, and shares of dropped units.
SWAG_RATES = (0.003, 0.01, 0.03, 0.1)
DROPOUT_RATES = (0.05, 0.1, 0.2)
#: Settings are chosen on this split, which no score is taken on, by the log likelihood of a tenth of its training rows.
TUNING_SPLIT, HELD_OUT = 7, 0.1
METHODS = ("map", "ensemble_5", "ensemble_10", "swag", "dropout", "last_layer", "ggn", "mean_field")
#: Of a predictive interval.
NOMINAL = 0.9


@dataclass(frozen=True)
class Score:
    """The numbers of one method on one split."""

    #: rms error of the predictive mean in sds of the exact posterior, and how far off the reference itself may be.
    mean_error: float
    floor: float
    #: Predictive sd over the exact one: median and range over test points.
    sd_ratio: float
    sd_ratio_low: float
    sd_ratio_high: float
    #: Of classes: mean total variation from the exact probabilities, and agreement of the predicted classes.
    total_variation: float | None
    agreement: float | None
    #: Prediction, in units of the data.
    log_likelihood: float
    reference_log_likelihood: float
    rmse: float | None
    crps: float | None
    #: Share of test targets in the central interval of probability NOMINAL.
    coverage: float | None
    accuracy: float | None
    ece: float | None
    confidence_gap: float | None


def log_densities(predictions: Predictions, data: NetworkData) -> np.ndarray:
    """log p(y | x) of the mixture over draws at every test point, in units of the data."""
    outputs = predictions.outputs.astype(float)
    if predictions.noise_sd is None:
        draws = log_softmax(outputs, axis=-1)[:, np.arange(len(data.test_targets)), data.test_targets]
    else:
        sd = predictions.noise_sd[:, None]
        draws = -0.5 * ((data.test_targets - outputs) / sd) ** 2 - np.log(sd) - HALF_LOG_2PI
    found: np.ndarray = logsumexp(draws, axis=0) - np.log(len(draws)) - np.log(data.target_sd)
    return found


def score(predictions: Predictions, reference: NetworkReference, data: NetworkData) -> Score:
    """Raises ValueError where the reference failed its gate, or is of other rows."""
    if not reference.is_usable:
        raise ValueError(f"{reference.task}, split {reference.split}: {'; '.join(reference.gate.faults)}")
    outputs = predictions.outputs.astype(float)
    if predictions.noise_sd is None:
        outputs = outputs - outputs.mean(axis=-1, keepdims=True)
    error = float(np.sqrt(np.mean(((outputs.mean(axis=0) - reference.mean) / reference.sd) ** 2)))
    ratios = outputs.std(axis=0) / reference.sd
    low, middle, high = (float(np.quantile(ratios, at)) for at in (0.05, 0.5, 0.95))
    fidelity = (error, reference.floor, middle, low, high)
    likelihood = float(log_densities(predictions, data).mean()), reference.record["scores"]["log_likelihood"]
    if predictions.noise_sd is None:
        probabilities = softmax(outputs, axis=-1).mean(axis=0)
        exact = reference.arrays["probabilities"].astype(float)
        distance = float(0.5 * np.abs(probabilities - exact).sum(axis=1).mean())
        agreement = float((probabilities.argmax(axis=1) == exact.argmax(axis=1)).mean())
        accuracy = float((probabilities.argmax(axis=1) == data.test_targets).mean())
        curve = class_reliability(probabilities, data.test_targets)
        calibration = accuracy, ece(curve), confidence_gap(curve)
        return Score(*fidelity, distance, agreement, *likelihood, None, None, None, *calibration)
    rmse = float(np.sqrt(np.mean((outputs.mean(axis=0) - data.test_targets) ** 2)) * data.target_sd)
    # One noise for all draws, as the score of a mixture has: that of the mean variance.
    noise = float(np.sqrt(np.mean(predictions.noise_sd**2)))
    distance_to_targets = mean_absolute(data.test_targets - outputs, noise).mean(axis=0)
    crps = float(gaussian_mixture_crps(distance_to_targets, outputs, noise).mean() * data.target_sd)
    return Score(*fidelity, None, None, *likelihood, rmse, crps, _coverage(predictions, data), None, None, None)


def _coverage(predictions: Predictions, data: NetworkData) -> float:
    """Share of test targets between the quantiles of the mixture that leave out (1 - NOMINAL) / 2 on each side."""
    from scipy.special import ndtr

    assert predictions.noise_sd is not None
    below = ndtr((data.test_targets - predictions.outputs) / predictions.noise_sd[:, None]).mean(axis=0)
    tail = (1 - NOMINAL) / 2
    return float(((below > tail) & (below < 1 - tail)).mean())


def chosen(task_name: str, data_dir: Path) -> dict[str, float]:
    """SWAG's rate and dropout's share of units, by held-out log likelihood on TUNING_SPLIT; no reference is read."""
    task = find_network_task(task_name)
    whole = task.load(TUNING_SPLIT, data_dir)
    order = np.random.default_rng(0).permutation(len(whole.targets))
    held, kept = np.split(order, [round(HELD_OUT * len(order))])
    data = NetworkData(
        whole.inputs[kept], whole.targets[kept], whole.inputs[held], whole.targets[held], whole.target_sd
    )
    baselines = Baselines(task.network(data), data, seed=TUNING_SPLIT)

    def best(method: Callable[[float], Predictions], rates: Sequence[float]) -> float:
        found = [float(log_densities(method(rate), data).mean()) for rate in rates]
        return rates[int(np.nanargmax(found))]

    return {"swag": best(baselines.swag, SWAG_RATES), "dropout": best(baselines.dropout, DROPOUT_RATES)}


def _predictions(baselines: Baselines, name: str, settings: dict[str, float]) -> Predictions | None:
    match name:
        case "ensemble_5" | "ensemble_10":
            return baselines.ensemble(5 if name == "ensemble_5" else 10)
        case "swag" | "dropout":
            return baselines.swag(settings[name]) if name == "swag" else baselines.dropout(settings[name])
    found: Predictions | None = getattr(baselines, name)()
    return found


def baseline_rows(task_name: str, splits: Sequence[int], references: Path, data_dir: Path) -> list[dict[str, object]]:
    """One row per baseline and split whose reference passes its gate."""
    use_one_thread("jax-cpu")
    task = find_network_task(task_name)
    settings = chosen(task_name, data_dir)
    rows: list[dict[str, object]] = []
    for split in splits:
        data = task.load(split, data_dir)
        path = path_of(references, task_name, len(data.targets), split)
        if not path.exists():
            print(f"{task_name} split {split}: no reference in {references}", file=sys.stderr)
            continue
        reference = NetworkReference.load(path)
        if not reference.is_usable:
            print(
                f"{task_name} split {split}: its reference failed: {'; '.join(reference.gate.faults)}", file=sys.stderr
            )
            continue
        baselines = Baselines(task.network(data), data, seed=split)
        for name in METHODS:
            predictions = _predictions(baselines, name, settings)
            if predictions is None:
                continue
            found = score(predictions, reference, data)
            cost = {"passes": predictions.passes, "cpu_s": predictions.cpu_seconds, "setting": settings.get(name)}
            rows.append({"task": task_name, "split": split, "method": name, **cost, **vars(found)})
            print(
                f"{task_name} {split} {name}: error {found.mean_error:.2f} sd, width {found.sd_ratio:.2f}, log "
                f"likelihood {found.log_likelihood - found.reference_log_likelihood:+.3f}, {cost['cpu_s']:.1f} s",
                flush=True,
            )
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    import pandas as pd

    parser = argparse.ArgumentParser(prog="python -m records.network_scores", description=__doc__)
    parser.add_argument("--tasks", nargs="+", required=True, choices=list(NETWORK_TASKS), metavar="TASK")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--references", type=Path, default=FOLDER)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--out", type=Path, required=True, help="a Parquet file, one row per method, task and split")
    arguments = parser.parse_args(argv)
    rows = [
        row
        for task in arguments.tasks
        for row in baseline_rows(task, arguments.splits, arguments.references, arguments.data)
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_parquet(arguments.out, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
