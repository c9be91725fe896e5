"""The columns of ``summary.csv`` and ``summary.parquet``: every one, in order, with its kind and meaning.

A cell is empty where the method has no such setting, where the task has no such metric, and where a run did not end
well: ``status`` and ``reason`` say which. ``python -m workflows.columns`` prints the table.
"""

from typing import NamedTuple

from implementations.methods import SETTINGS
from implementations.provenance import PACKAGES

#: Kinds of column, and how pandas keeps them: each can be empty.
KINDS = {"text": "string", "count": "Int64", "number": "float64", "flag": "boolean"}


class Column(NamedTuple):
    """What stands in a column."""

    kind: str
    meaning: str


def _deviation(name: str, meaning: str) -> dict[str, Column]:
    """A deviation from the reference, and what it takes to believe it (metrics.fidelity.Deviation)."""
    return {
        name: Column("number", meaning),
        f"{name}_mc": Column("number", f"Monte Carlo error of {name}, of run and reference together"),
        f"{name}_resolved": Column("flag", f"is {name} more than two Monte Carlo errors from no deviation?"),
    }


def _rate(name: str, meaning: str) -> dict[str, Column]:
    return {
        name: Column("number", meaning),
        f"{name}_low": Column("number", f"lower end of the 95 % interval of {name}"),
        f"{name}_high": Column("number", f"upper end of the 95 % interval of {name}"),
    }


def _setting(name: str) -> Column:
    # A weight may be a word or a number, and a column has one type.
    kind = "text" if name == "weight" else {int: "count", float: "number", str: "text"}[SETTINGS[name].kind]
    return Column(kind, SETTINGS[name].help)


COLUMNS: dict[str, Column] = {
    # Which run
    "study": Column("text", "name of the study"),
    "run": Column("text", "folder of the run below results/<study>/runs"),
    "task": Column("text", "task"),
    "stochastic": Column("text", "layers that are sampled: last or all"),
    "prior": Column("text", "prior of every parameter: gaussian or laplace"),
    "prior_scale": Column("number", "sd of the gaussian prior, b of the laplace"),
    "method": Column("text", "method"),
    "backend": Column("text", "library and device"),
    "seed": Column("count", "of data, network, start points and chains"),
    # What came of it
    "status": Column("text", "ok, diverged, skipped, failed, or missing where the run has not been made"),
    "reason": Column("text", "why the status is not ok"),
    # Settings
    **{name: _setting(name) for name in SETTINGS},
    # The target
    "target_weight": Column("number", "w of the target as a number"),
    "num_points": Column("count", "N, training points"),
    "num_parameters": Column("count", "P, stochastic parameters"),
    # The sampler
    "num_draws": Column("count", "draws kept of each chain"),
    "acceptance_rate": Column("number", "share of accepted moves"),
    "mean_variance": Column("number", "mean of the estimated variance of the loss difference"),
    "r_hat": Column("number", "largest rank-normalised split R-hat of predictions at probes and of the log likelihood"),
    "ess_bulk_min": Column("number", "smallest bulk effective sample size of these quantities, over all chains"),
    "ess_bulk_median": Column("number", "their median bulk effective sample size"),
    "ess_tail_min": Column("number", "their smallest tail effective sample size"),
    "ess_tail_median": Column("number", "their median tail effective sample size"),
    "convergence_note": Column("text", "what R-hat and ESS leave out, or why they are undefined"),
    # Predictions at the test points
    "accuracy": Column("number", "classes: share of test points whose most probable class is right"),
    "nll": Column("number", "mean of -log p(y | x) of the test points, in nats"),
    "brier": Column("number", "classes: Brier score, from 0 to 2"),
    "rmse": Column("number", "regression: root mean squared error of the predictive mean"),
    "crps": Column("number", "regression: mean continuous ranked probability score"),
    # Calibration
    "ece": Column("number", "expected calibration error: classes in 15 bins, regression over 19 coverage levels"),
    "ece_equal_mass": Column("number", "classes: the same in 15 bins of equally many points"),
    "confidence_gap": Column("number", "confidence - accuracy, or nominal - observed coverage; + is overconfident"),
    "validation_ece": Column("number", "ece on the validation points, for choosing batch_size"),
    "validation_confidence_gap": Column("number", "confidence_gap on the validation points"),
    # Fidelity to the run's own target
    "reference_kind": Column("text", "closed_form, gold_standard, none, or failed"),
    "reference_usable": Column("flag", "is the reference fit for claims? if not, what compares with it is empty"),
    "reference_reason": Column("text", "why it is not"),
    "reference_r_hat": Column("number", "R-hat of the reference"),
    "reference_ess": Column("number", "bulk effective sample size of the reference; empty for a closed form"),
    **_deviation("mean_error", "RMS error of the predictive mean, in units of the reference's predictive sd"),
    **_deviation("sd_ratio", "predictive sd over the reference's; 1 is right"),
    **_deviation("sliced_w2", "sliced 2-Wasserstein distance of the parameters, in units of the reference's sd"),
    **_deviation("total_variation", "classes: mean total variation from the reference's probabilities, 0 to 1"),
    "agreement": Column("number", "classes: share of test points with the reference's most probable class"),
    # Cost
    "wall_clock_s": Column("number", "seconds of sampling, all chains on one thread"),
    "cpu_s": Column("number", "processor seconds of sampling"),
    "warmup_s": Column("number", "seconds of warm-up"),
    "compile_s": Column("number", "seconds of compilation, or of looking it up in the cache"),
    "has_compilation_cache": Column("flag", "was there a cache that compilation could be looked up in?"),
    "peak_memory_mb": Column("number", "largest resident memory of the job, in MiB"),
    "likelihood_evaluations": Column("count", "likelihoods of single data points, over all chains"),
    "gradient_evaluations": Column("count", "gradients of single data points, over all chains"),
    "data_fraction": Column("number", "evaluations of a step as a share of one pass over the data"),
    "ess_per_second": Column("number", "ess_bulk_min per second of sampling"),
    "ess_per_million_likelihoods": Column("number", "ess_bulk_min per million likelihood evaluations"),
    "ess_per_million_gradients": Column("number", "ess_bulk_min per million gradient evaluations"),
    # The decision audit
    "audit_num_steps": Column("count", "audited steps: the exact full-data decision beside the method's own"),
    **_rate("audit_wrong_accepts", "share of audited steps accepted against the exact rule"),
    **_rate("audit_wrong_rejects", "share of audited steps rejected against the exact rule"),
    "audit_acceptance": Column("number", "mean acceptance probability of the method on audited steps"),
    "audit_exact_acceptance": Column("number", "that of the exact rule on the same proposals"),
    "audit_lost_to_penalty": Column("number", "acceptance the same differences would have without penalty, minus it"),
    "audit_variance_ratio_mean": Column("number", "estimated over true variance of the loss difference, mean"),
    "audit_variance_ratio_median": Column("number", "median"),
    "audit_variance_ratio_low": Column("number", "5 % quantile"),
    "audit_variance_ratio_high": Column("number", "95 % quantile"),
    "audit_noise_mean": Column(
        "number", "mean of the loss difference's noise over its true sd; the penalty asks for 0"
    ),
    "audit_noise_sd": Column("number", "its sd; the penalty asks for 1"),
    "audit_noise_skewness": Column("number", "its skewness"),
    "audit_noise_excess_kurtosis": Column("number", "its excess kurtosis"),
    "audit_noise_normality_distance": Column("number", "largest error of a probability if it is taken for N(0, 1)"),
    "audit_noise_normality_p_value": Column("number", "Kolmogorov-Smirnov test of N(0, 1)"),
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


def main() -> None:
    width = max(map(len, COLUMNS))
    for name, column in COLUMNS.items():
        print(f"{name:{width}}  {column.kind:6}  {column.meaning}")


if __name__ == "__main__":
    main()
