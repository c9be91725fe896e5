"""The columns of ``summary.csv`` and ``summary.parquet``: every one, in order, with its kind and meaning.

A cell is empty where the method has no such setting, where the task has no such metric, and where a run did not end
well: ``status`` and ``reason`` say which. ``python -m records.columns`` prints the table.
"""

from typing import NamedTuple

from implementations.infrastructure.provenance import PACKAGES
from implementations.settings import SETTINGS
from metrics.seeds import DISTANCE, POSITIVE, RATE

#: Kinds of column, and how pandas keeps them: each can be empty.
KINDS = {"text": "string", "count": "Int64", "number": "float64", "flag": "boolean"}


class Column(NamedTuple):
    """What stands in a column."""

    kind: str
    meaning: str
    #: Which values it can have, as ``metrics.seeds.bounded`` calls them; any where nothing is said.
    values: str = ""


def _deviation(name: str, meaning: str, values: str = DISTANCE) -> dict[str, Column]:
    """A deviation from the reference, and what it takes to believe it (metrics.fidelity.Deviation)."""
    return {
        name: Column("number", meaning, values),
        f"{name}_mc": Column("number", f"Monte Carlo error of {name}, of run and reference together", POSITIVE),
        f"{name}_resolved": Column("flag", f"is {name} more than two Monte Carlo errors away from no deviation?"),
    }


def _rate(name: str, meaning: str) -> dict[str, Column]:
    return {
        name: Column("number", meaning, RATE),
        f"{name}_low": Column("number", f"lower end of the 95 % interval of {name}", RATE),
        f"{name}_high": Column("number", f"upper end of the 95 % interval of {name}", RATE),
    }


def _setting(name: str) -> Column:
    # A weight may be a word or a number, and a column has one type.
    kind = "text" if name == "weight" else {int: "count", float: "number", str: "text"}[SETTINGS[name].kind]
    return Column(kind, SETTINGS[name].help)


COLUMNS: dict[str, Column] = {
    # Which run
    "study": Column("text", "name of the study"),
    "run": Column("text", "folder of the run below results/<study>/runs"),
    "variant": Column("text", "the task, and how it differs from its usual form: regression, regression-all-laplace"),
    "label": Column("text", "the method and the settings that the study gives to this run"),
    "task": Column("text", "task"),
    "stochastic": Column("text", "layers that are sampled: last or all"),
    "prior": Column("text", "prior of every parameter: gaussian or laplace"),
    "prior_scale": Column("number", "sd of the gaussian prior, b of the laplace"),
    "method": Column("text", "method"),
    "method_label": Column("text", "name of the method in figures and text"),
    "method_exactness": Column("text", "does the chain sample its target? exact, conditional or biased"),
    "method_acceptance": Column("text", "rule of acceptance; always if every move is accepted"),
    "method_is_minibatch": Column("flag", "does the cost of a step stay the same when the data grow?"),
    "method_colour": Column("text", "its colour in figures"),
    "method_source": Column("text", "file or module of a method that is not the suite's"),
    "backend": Column("text", "library and device"),
    "seed": Column("count", "seed of data, network, start points and chains"),
    # What came of it
    "status": Column("text", "ok, diverged, skipped, failed, or missing if the run has not been made"),
    "reason": Column("text", "why the status is not ok"),
    "warning": Column("text", "a caution: an anchor far from the mode, too much noise, chains that do not move"),
    # Settings
    **{name: _setting(name) for name in SETTINGS},
    "tuned_settings": Column("text", "settings that a pilot run chooses; their columns have what it chose"),
    "own_settings": Column("text", "settings that only this method has, as a JSON object"),
    # The target
    "target_weight": Column("number", "w of the target as a number"),
    "num_points": Column("count", "N, training points"),
    "num_epochs": Column("count", "epochs of training, if not those of the task"),
    "fresh_points": Column("count", "number of newly drawn points that chains read instead of those of the task"),
    "num_parameters": Column("count", "P, stochastic parameters"),
    # The sampler
    "num_draws": Column("count", "number of draws kept per chain"),
    "acceptance_rate": Column("number", "share of accepted moves", RATE),
    "mean_variance": Column("number", "mean of the estimated variance of the loss difference", POSITIVE),
    "r_hat": Column(
        "number", "largest rank-normalised split R-hat of predictions at probes and of the log likelihood", POSITIVE
    ),
    "ess_bulk_min": Column(
        "number", "smallest bulk effective sample size of these quantities, over all chains", POSITIVE
    ),
    "ess_bulk_median": Column("number", "their median bulk effective sample size", POSITIVE),
    "ess_tail_min": Column("number", "their smallest tail effective sample size", POSITIVE),
    "ess_tail_median": Column("number", "their median tail effective sample size", POSITIVE),
    "convergence_note": Column("text", "what R-hat and ESS leave out, or why they are undefined"),
    # Predictions at the test points
    "accuracy": Column("number", "classes: share of test points whose most probable class is right", RATE),
    "nll": Column("number", "mean of -log p(y | x) of the test points, in nats"),
    "brier": Column("number", "classes: Brier score, from 0 to 2", DISTANCE),
    "rmse": Column("number", "regression: root mean squared error of the predictive mean", POSITIVE),
    "crps": Column("number", "regression: mean continuous ranked probability score", POSITIVE),
    "truth_error": Column(
        "number", "density: total variation from the distribution of the data, if that is known", DISTANCE
    ),
    # Calibration
    "ece": Column(
        "number",
        "expected calibration error: classes in 15 bins, regression over 19 coverage levels; a density has none",
        DISTANCE,
    ),
    "ece_equal_mass": Column("number", "classes: the same in 15 bins of equally many points", DISTANCE),
    "confidence_gap": Column("number", "confidence - accuracy, or nominal - observed coverage; + is overconfident"),
    "ece_by_chance": Column(
        "number", "ece that chance alone gives a calibrated model, from resampled test sets", DISTANCE
    ),
    "validation_accuracy": Column(
        "number", "accuracy on the validation points, which each seed draws for itself", RATE
    ),
    "validation_ece": Column("number", "ece on the validation points, for choosing batch_size", DISTANCE),
    "validation_confidence_gap": Column("number", "confidence_gap on the validation points"),
    # Fidelity to the run's own target
    "reference_kind": Column("text", "closed_form, gold_standard, failed, or none if the study asks for none"),
    "reference_usable": Column(
        "flag", "is the reference good enough for claims? if not, columns that compare with it are empty"
    ),
    "reference_reason": Column("text", "why it is not"),
    "reference_r_hat": Column("number", "R-hat of the reference", POSITIVE),
    "reference_ess": Column("number", "bulk effective sample size of the reference; empty for a closed form", POSITIVE),
    **_deviation(
        "mean_error",
        "RMS error of the predictive mean, in units of the RMS of the reference's predictive sd; of a single run with "
        "its Monte Carlo part, as a mean over seeds without it",
    ),
    "squared_bias": Column(
        "number",
        "square of mean_error minus its Monte Carlo part, from the spread between chains; below 0 by chance",
    ),
    **_deviation(
        "point_error",
        "the same with each prediction in units of its own sd, which shows errors where predictions are sure",
    ),
    **_deviation("sd_ratio", "predictive sd over the reference's; 1 is right", POSITIVE),
    **_deviation("sliced_w2", "sliced 2-Wasserstein distance of the parameters, in units of the reference's sd"),
    **_deviation("total_variation", "classes: mean total variation from the reference's probabilities, 0 to 1"),
    "agreement": Column("number", "classes: share of test points with the reference's most probable class", RATE),
    # Cost
    "wall_clock_s": Column("number", "seconds of sampling, all chains on one thread", POSITIVE),
    "cpu_s": Column("number", "processor seconds of sampling", POSITIVE),
    "warmup_s": Column("number", "seconds of warm-up", POSITIVE),
    "warmup_cpu_s": Column("number", "processor seconds of warm-up", POSITIVE),
    "tuning_s": Column("number", "seconds of the pilot run for settings that are auto", POSITIVE),
    "tuning_cpu_s": Column("number", "its processor seconds", POSITIVE),
    "anchor_cpu_s": Column(
        "number", "processor seconds to find the mode and curvature of control variates, once for many runs", POSITIVE
    ),
    "tuning_evaluations": Column("count", "its likelihoods and gradients of single data points", POSITIVE),
    "compile_s": Column(
        "number",
        "seconds of compilation, or of loading it from the cache; about 0 if its process had the code already",
        POSITIVE,
    ),
    "has_compilation_cache": Column("flag", "was there a cache that compilation could be looked up in?"),
    "peak_memory_mb": Column(
        "number",
        "largest resident memory of its process while it sampled, in MiB; empty where the system cannot tell it from"
        " that of earlier runs",
        POSITIVE,
    ),
    "likelihood_evaluations": Column("count", "likelihoods of single data points, over all chains", POSITIVE),
    "gradient_evaluations": Column("count", "gradients of single data points, over all chains", POSITIVE),
    "data_fraction": Column("number", "evaluations of a step as a share of one pass over the data", POSITIVE),
    "ess_per_second": Column("number", "ess_bulk_min per second of sampling", POSITIVE),
    "ess_per_million_likelihoods": Column("number", "ess_bulk_min per million likelihood evaluations", POSITIVE),
    "ess_per_million_gradients": Column("number", "ess_bulk_min per million gradient evaluations", POSITIVE),
    # The decision audit
    "audit_num_steps": Column("count", "audited steps: the exact full-data decision beside the method's own"),
    **_rate("audit_wrong_accepts", "share of audited steps accepted against the exact rule"),
    **_rate("audit_wrong_rejects", "share of audited steps rejected against the exact rule"),
    "audit_acceptance": Column("number", "mean acceptance probability of the method on audited steps", RATE),
    "audit_exact_acceptance": Column("number", "that of the exact rule on the same proposals", RATE),
    "audit_lost_to_penalty": Column(
        "number", "acceptance of the same moves without the penalty, minus audit_acceptance"
    ),
    "audit_averaged_acceptance": Column(
        "number", "the penalty's acceptance of these moves, integrated over normal noise of their true variance", RATE
    ),
    "audit_variance_ratio_mean": Column(
        "number", "estimated over true variance of the loss difference, mean", POSITIVE
    ),
    "audit_variance_ratio_median": Column("number", "median", POSITIVE),
    "audit_variance_ratio_low": Column("number", "5 % quantile", POSITIVE),
    "audit_variance_ratio_high": Column("number", "95 % quantile", POSITIVE),
    "audit_noise_mean": Column(
        "number", "mean of the loss difference's noise over its true sd; the penalty asks for 0"
    ),
    "audit_noise_sd": Column("number", "its sd; the penalty asks for 1", POSITIVE),
    "audit_noise_skewness": Column("number", "its skewness"),
    "audit_noise_excess_kurtosis": Column("number", "its excess kurtosis"),
    "audit_noise_normality_distance": Column(
        "number", "largest error of a probability if it is taken for N(0, 1)", RATE
    ),
    "audit_noise_normality_p_value": Column("number", "Kolmogorov-Smirnov test of N(0, 1)", RATE),
    "audit_delta_skewness": Column(
        "number", "skewness of the loss difference over all its mini-batches, RMS over audited moves", POSITIVE
    ),
    "audit_delta_excess_kurtosis": Column("number", "its excess kurtosis, RMS over audited moves", POSITIVE),
    "audit_spread_variance": Column("number", "sd of the true variance over audited moves, over its mean", POSITIVE),
    "audit_spread_noise": Column("number", "sd of estimated over true variance, over its mean", DISTANCE),
    "audit_mean_points": Column("number", "mean number of points per decision, for methods where it varies", POSITIVE),
    "audit_balance_residual": Column(
        "number",
        "log of acceptance uphill over downhill, less the exact one; mini-batches redrawn both ways; 0 is exact",
    ),
    "audit_balance_residual_mc": Column("number", "its standard error", POSITIVE),
    # The same step at several N (workflows.steps.timing)
    "step_by_turns_us": Column(
        "number",
        "processor microseconds of a step of one chain, timed by turns with the same step at other N",
        POSITIVE,
    ),
    "reading_by_turns_us": Column(
        "number", "of these, how much longer the bare reading of the rows takes than at the smallest N, also by turns"
    ),
    # Provenance
    "started_at": Column("text", "UTC, ISO 8601"),
    "ended_at": Column("text", "UTC, ISO 8601"),
    "git_commit": Column("text", "commit of the code that ran"),
    "git_is_dirty": Column("flag", "did the code differ from that commit?"),
    "problem_sha256": Column("text", "checksum of the data, MAP and curvature that the chains saw"),
    "cpu": Column("text", "model of the processor"),
    "num_cpus": Column("count", "processors of the machine"),
    "system": Column("text", "operating system and architecture"),
    "device": Column("text", "what the backend ran on: cpu or gpu"),
    **{f"version_{name}": Column("text", f"version of {name}") for name in ("python", *PACKAGES)},
}

#: What reports compute from the columns of a row (``records.setting_runs``).
DERIVED: dict[str, Column] = {
    "ess_per_million_evaluations": Column(
        "number", "ess_bulk_min per million likelihood and gradient evaluations", POSITIVE
    ),
    "evaluations_per_draw": Column("number", "likelihood and gradient evaluations for an effective draw", POSITIVE),
    "seconds_per_draw": Column("number", "seconds of sampling for an effective draw", POSITIVE),
    "seconds_to_400": Column(
        "number", "processor seconds of tuning and warm-up, and of sampling for 400 effective draws", POSITIVE
    ),
    "step_microseconds": Column("number", "microseconds of sampling for a step of one chain", POSITIVE),
    "log_step_seconds": Column("number", "logarithm of the seconds for a step of one chain"),
    "log_step_evaluations": Column("number", "logarithm of the evaluations for a step of one chain"),
    "log_step_cpu": Column("number", "logarithm of the processor seconds for a step of one chain"),
    "log_step_by_turns": Column("number", "logarithm of step_by_turns_us"),
    "log_step_without_reading": Column("number", "logarithm of step_by_turns_us - reading_by_turns_us"),
    "ess_per_step": Column("number", "ess_bulk_min per step of all chains", POSITIVE),
    "log_skewness": Column("number", "logarithm of audit_delta_skewness"),
    "variance_dominance": Column("number", "audit_spread_variance - audit_spread_noise"),
    "sd_error": Column("number", "distance of sd_ratio from 1", DISTANCE),
    "log_variance": Column("number", "logarithm of mean_variance"),
    "log_exact_acceptance": Column("number", "logarithm of audit_exact_acceptance"),
    "acceptance_cost": Column("number", "audit_exact_acceptance - audit_acceptance"),
    "acceptance_kept": Column("number", "audit_acceptance over audit_exact_acceptance", POSITIVE),
    "acceptance_in_theory": Column(
        "number", "2 Phi(-sigma / 2), of normal noise of variance mean_variance where all losses are equal", RATE
    ),
}
#: What a run costs does not depend on its draws, so it counts whether or not the chains have converged.
WITHOUT_DRAWS = frozenset(
    (
        *("wall_clock_s", "cpu_s", "warmup_s", "warmup_cpu_s", "tuning_s", "tuning_cpu_s", "anchor_cpu_s", "compile_s"),
        *("tuning_evaluations", "likelihood_evaluations", "gradient_evaluations", "data_fraction", "peak_memory_mb"),
        *("has_compilation_cache", "step_microseconds", "step_by_turns_us", "reading_by_turns_us"),
        *("log_step_seconds", "log_step_cpu", "log_step_by_turns", "log_step_without_reading", "log_step_evaluations"),
    )
)


class Metric(NamedTuple):
    """A number that reports compare settings by, with its heading and the numbers it stands next to."""

    heading: str
    group: str


CONVERGENCE, FIDELITY, QUALITY, COST = "sampler", "fidelity to its own target", "calibration and prediction", "cost"
#: In reading order: has a chain converged, is it right, is it useful, what does it cost?
METRICS = {
    "ess_bulk_min": Metric("ESS", CONVERGENCE),
    "acceptance_rate": Metric("acceptance", CONVERGENCE),
    "mean_error": Metric("mean error, RMS sd", FIDELITY),
    "sd_ratio": Metric("sd ratio", FIDELITY),
    "sliced_w2": Metric("sliced W2", FIDELITY),
    "total_variation": Metric("total variation", FIDELITY),
    "ece": Metric("ECE", QUALITY),
    "confidence_gap": Metric("confidence gap", QUALITY),
    "nll": Metric("NLL", QUALITY),
    "accuracy": Metric("accuracy", QUALITY),
    "rmse": Metric("RMSE", QUALITY),
    "wall_clock_s": Metric("seconds", COST),
    "data_fraction": Metric("data a step", COST),
    "ess_per_second": Metric("ESS per second", COST),
    "ess_per_million_evaluations": Metric("ESS per million evaluations", COST),
}


def main() -> None:
    width = max(map(len, COLUMNS))
    for name, column in COLUMNS.items():
        print(f"{name:{width}}  {column.kind:6}  {column.meaning}")


if __name__ == "__main__":
    main()
