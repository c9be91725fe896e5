"""The metrics of a run, by the names of ``records.columns``, and the curves that plots need."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from implementations.tasks.likelihoods import find_likelihood
from implementations.tasks.problem import Problem
from metrics import calibration, fidelity, prediction
from metrics.convergence import Convergence, convergence, efficiency
from metrics.decisions import audit, balance
from metrics.predictive import Predictive, predictive
from records.reference import Reference

Metrics = dict[str, Any]
Arrays = dict[str, np.ndarray]


def evaluate(
    problem: Problem, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray], reference: Reference | str | None
) -> tuple[Metrics, Arrays]:
    """Metrics and curves of a run that ended well: ``record`` is its run.json, ``arrays`` its draws.npz.

    Where its reference could not be made, ``reference`` is the reason, and where none was asked for it is None; then
    there are no metrics that need it.
    """
    metrics, curves, chains = _metrics_of_draws(problem, arrays["draws"], reference)
    return metrics | _cost(record, chains) | _audit(record["method_acceptance"], arrays), curves


def metrics_of_draws(problem: Problem, draws: np.ndarray, reference: Reference | str | None) -> tuple[Metrics, Arrays]:
    """Metrics and curves of draws (chains, draws, P), from any program."""
    metrics, curves, _ = _metrics_of_draws(problem, draws, reference)
    return metrics, curves


def _metrics_of_draws(
    problem: Problem, draws: np.ndarray, reference: Reference | str | None
) -> tuple[Metrics, Arrays, Convergence]:
    test = predictive_of(problem, draws, problem.test_features, problem.test_targets)
    validation = predictive_of(problem, draws, problem.validation_features, problem.validation_targets)
    chains = convergence(test.traces)
    on_grid = _on_grid(problem, draws)
    of_test, test_curve = _calibration(problem, test, problem.test_targets)
    of_validation, validation_curve = _calibration(problem, validation, problem.validation_targets)
    metrics: Metrics = {
        "r_hat": chains.r_hat,
        "ess_bulk_min": chains.min_bulk_ess,
        "ess_bulk_median": chains.median_bulk_ess,
        "ess_tail_min": chains.min_tail_ess,
        "ess_tail_median": chains.median_tail_ess,
        "convergence_note": chains.reason,
        **_prediction(problem, test),
        **_distance_from_truth(problem, on_grid),
        **of_test,
        "ece_by_chance": _ece_by_chance(problem, test),
        **{f"validation_{name}": value for name, value in of_validation.items()},
        **_validation_accuracy(problem, validation),
        **_fidelity(problem, draws, test, chains, reference),
    }
    curves = _curve("test", test_curve) | _curve("validation", validation_curve) | on_grid
    if find_likelihood(problem.likelihood).has_classes:
        # Two runs on the same test points are compared point by point.
        curves |= {"is_right": test.mean.argmax(axis=1) == problem.test_targets}
    if problem.test_inputs.shape[1] == 1:
        curves |= {"predictive_mean": test.mean, "predictive_sd": test.sd}
        curves |= {"chain_means": test.chain_means.astype(np.float32)}
    return metrics, curves, chains


def _validation_accuracy(problem: Problem, validation: Predictive) -> Metrics:
    if not find_likelihood(problem.likelihood).has_classes:
        return {}
    return {"validation_accuracy": prediction.accuracy(validation.mean, problem.validation_targets)}


def predictive_of(problem: Problem, draws: np.ndarray, features: np.ndarray, targets: np.ndarray) -> Predictive:
    """The mixture over a problem's draws at some of its points."""

    def outputs(parameters: np.ndarray) -> np.ndarray:
        if not problem.is_linear or problem.is_normalised:
            return problem.outputs(parameters, features)
        # One product for all draws of a block, classes first, as they are then summed.
        rows, columns = problem.layers[0]
        weights = parameters.reshape(-1, rows, columns).transpose(2, 0, 1).reshape(-1, rows)
        return np.moveaxis((weights @ features.T).reshape(columns, -1, len(features)), 0, 2)

    return predictive(
        outputs,
        draws,
        targets,
        problem.likelihood,
        problem.noise_sd,
    )


def reliability_of(problem: Problem, run: Predictive, targets: np.ndarray) -> calibration.Reliability | None:
    """Confidence and accuracy, or nominal and observed coverage, of a predictive distribution.

    A density has neither: nothing is predicted of one point that another of the same law could contradict.
    """
    if find_likelihood(problem.likelihood).has_classes:
        return calibration.class_reliability(run.mean, targets)
    return None if run.pit is None else calibration.coverage_reliability(run.pit)


def _calibration(
    problem: Problem, run: Predictive, targets: np.ndarray
) -> tuple[Metrics, calibration.Reliability | None]:
    curve = reliability_of(problem, run, targets)
    if curve is None:
        return {"ece": None, "confidence_gap": None}, None
    return {"ece": calibration.ece(curve), "confidence_gap": calibration.confidence_gap(curve)}, curve


def _ece_by_chance(problem: Problem, run: Predictive) -> float | None:
    if find_likelihood(problem.likelihood).has_classes:
        return calibration.class_ece_by_chance(run.mean)
    return None if run.pit is None else calibration.coverage_ece_by_chance(len(run.pit))


def _curve(name: str, curve: calibration.Reliability | None) -> Arrays:
    return {} if curve is None else {f"{name}_{part}": array for part, array in vars(curve).items()}


def _prediction(problem: Problem, test: Predictive) -> Metrics:
    nll = prediction.negative_log_likelihood(test.log_density)
    if problem.is_normalised:
        return {"nll": nll}
    if test.crps is not None:
        return {
            "nll": nll,
            "rmse": prediction.rmse(test.mean, problem.test_targets),
            "crps": float(test.crps.mean()),
        }
    equal_mass = calibration.equal_mass_reliability(test.mean, problem.test_targets)
    return {
        "nll": nll,
        "accuracy": prediction.accuracy(test.mean, problem.test_targets),
        "brier": prediction.brier(test.mean, problem.test_targets),
        "ece_equal_mass": calibration.ece(equal_mass),
    }


def _on_grid(problem: Problem, draws: np.ndarray) -> Arrays:
    """A density on its grid, beside the truth where it is known; of another problem nothing."""
    if not problem.is_normalised:
        return {}
    found = predictive_of(problem, draws, problem.grid, np.zeros(len(problem.grid), np.float32))
    arrays = {"inputs": problem.grid_inputs[:, 0], "mean": found.mean, "sd": found.sd, "truth": problem.truth}
    return {f"grid_{name}": array for name, array in arrays.items() if len(array)}


def _distance_from_truth(problem: Problem, on_grid: Arrays) -> Metrics:
    """Total variation: half the mean of |p - truth| over the grid, whose cells are equal."""
    if "grid_truth" not in on_grid:
        return {}
    return {"truth_error": float(np.abs(on_grid["grid_mean"] - on_grid["grid_truth"]).mean() / 2)}


def _fidelity(
    problem: Problem, draws: np.ndarray, test: Predictive, chains: Convergence, reference: Reference | str | None
) -> Metrics:
    """Deviations from the reference, where there is one to be trusted."""
    if reference is None:
        return {"reference_kind": "none"}
    if isinstance(reference, str):
        return {"reference_kind": "failed", "reference_usable": False, "reference_reason": reference}
    has_closed_form = reference.kind == "closed_form"
    metrics: Metrics = {
        "reference_kind": reference.kind,
        "reference_usable": reference.is_usable,
        "reference_reason": reference.reason or None,
        "reference_r_hat": reference.rhat if math.isfinite(reference.rhat) else None,
        "reference_ess": None if has_closed_form else reference.ess_bulk,
    }
    if not reference.is_usable:
        return metrics
    ess, reference_ess = chains.min_bulk_ess, _ess_of(reference)
    shape = reference.predictive_mean.shape
    ours = test.mean.reshape(shape), test.sd.reshape(shape)
    theirs = reference.predictive_mean, reference.predictive_sd
    deviations = deviations_of(test, ess, reference)
    if has_closed_form:
        deviations["sliced_w2"] = fidelity.sliced_w2_to_gaussian(draws, reference.mean, reference.covariance, ess)
    elif reference.mean.size:
        # Of several layers the parameters have many equivalent modes, and no mean to compare with.
        deviations["sliced_w2"] = fidelity.sliced_w2_to_draws(
            draws, reference.draws, ess, min(reference_ess, len(reference.draws))
        )
    metrics["squared_bias"] = fidelity.squared_bias(
        test.chain_means.reshape(-1, *shape), *theirs, reference.predictive_mcse.reshape(shape)
    )
    if find_likelihood(problem.likelihood).has_classes:
        deviations["total_variation"] = fidelity.total_variation(*ours, *theirs, ess, reference_ess)
        metrics["agreement"] = fidelity.agreement(ours[0], theirs[0])
    for name, deviation in deviations.items():
        metrics |= {
            name: deviation.value,
            f"{name}_mc": deviation.monte_carlo_error,
            f"{name}_resolved": deviation.is_resolved,
        }
    return metrics


def deviations_of(test: Predictive, ess: float | None, reference: Reference) -> dict[str, fidelity.Deviation]:
    """Of predictions from those of a reference, by the names of their columns."""
    shape, reference_ess = reference.predictive_mean.shape, _ess_of(reference)
    ours = test.mean.reshape(shape), test.sd.reshape(shape)
    theirs = reference.predictive_mean, reference.predictive_sd
    return {
        "mean_error": fidelity.mean_error(*ours, *theirs, ess, reference_ess),
        "point_error": fidelity.point_error(ours[0], *theirs, ess, reference_ess),
        "sd_ratio": fidelity.sd_ratio(ours[1], theirs[1], ess, reference_ess),
    }


def _ess_of(reference: Reference) -> float:
    return math.inf if reference.kind == "closed_form" else reference.ess_bulk


def _cost(record: Mapping[str, Any], chains: Convergence) -> Metrics:
    settings = record["settings"]
    return asdict(
        efficiency(
            chains.min_bulk_ess,
            record["wall_clock_s"],
            record["likelihood_evaluations"],
            record["gradient_evaluations"],
            settings["num_steps"] * settings["chains"],
            record["num_points"],
        )
    )


def _audit(acceptance: str, arrays: Mapping[str, np.ndarray]) -> Metrics:
    """What the noise did to decisions; of a method that always accepts, only what its moves deserved."""
    prefix = "audit_"
    steps = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    redrawn = {name: steps.pop(name) for name in list(steps) if name.startswith("balance_")}
    metrics = _decisions(acceptance, steps) if steps else {}
    if redrawn and (kept := balance(**{name.removeprefix("balance_"): array for name, array in redrawn.items()})):
        metrics |= {"balance_residual": kept.residual, "balance_residual_mc": kept.error}
    return {prefix + name: value for name, value in metrics.items()}


def _decisions(acceptance: str, steps: Mapping[str, np.ndarray]) -> Metrics:
    """The parts of the audit beside the balance."""
    found = audit(**steps)
    metrics: Metrics = {
        "num_steps": found.num_audited,
        **_parts("wrong_accepts", found.wrong_accepts),
        "exact_acceptance": found.exact_acceptance,
    }
    if acceptance != "always":
        metrics |= {
            **_parts("wrong_rejects", found.wrong_rejects),
            "acceptance": found.acceptance,
            "lost_to_penalty": found.lost_to_penalty,
            "averaged_acceptance": found.averaged_acceptance,
            **_parts("variance_ratio", found.variance_ratio),
            **_parts("noise", found.noise),
            **_parts("delta", found.shape),
            **_parts("spread", found.spread),
            **({} if found.mean_points is None else {"mean_points": found.mean_points}),
        }
    return metrics


def _parts(name: str, part: Any) -> Metrics:
    """The numbers of a part of the audit; that of a rate is called like the part itself."""
    numbers = {} if part is None else asdict(part)
    return {name if key == "rate" else f"{name}_{key}": value for key, value in numbers.items()}
