"""The metrics of a run, on draws whose right numbers are known."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss, root_mean_squared_error

from implementations.methods import METHODS
from implementations.tasks import prepare
from implementations.tasks.problem import Problem, network_outputs
from implementations.tasks.references.closed_form import gaussian_posterior
from metrics.predictive import predictive
from records.columns import COLUMNS
from records.evaluation import evaluate, predictive_of
from records.reference import reference
from tests.implementations.networks import tiny_network_problem

#: Of the numbers below, with 4,000 independent draws.
NUM_DRAWS = 1000
CHAINS = 4


def record_of(problem: Problem, method: str = "pbnn") -> dict:
    """What evaluation reads of a run.json."""
    return {
        "method": method,
        "method_acceptance": METHODS[method].acceptance,
        "settings": {"num_steps": NUM_DRAWS, "chains": CHAINS},
        "num_points": problem.num_points,
        "wall_clock_s": 2.0,
        "likelihood_evaluations": 20 * NUM_DRAWS * CHAINS,
        "gradient_evaluations": 0,
    }


@pytest.fixture(scope="module")
def linear() -> Problem:
    return prepare("linear", 0)


@pytest.fixture(scope="module")
def exact_draws(linear) -> np.ndarray:
    """Independent draws from the posterior, as if from chains."""
    posterior = gaussian_posterior(linear, linear.num_points)
    generator = np.random.default_rng(1)
    draws = generator.multivariate_normal(posterior.mean, posterior.covariance, (CHAINS, NUM_DRAWS))
    return draws.astype(np.float32)


@pytest.mark.parametrize("task", ["digits", "logistic", "linear"])
def test_predictions_of_one_layer_in_one_product_are_those_of_its_network_draw_by_draw(task):
    problem = prepare(task, 0, progress=False)
    random = np.random.default_rng(0)
    draws = (problem.map + 0.1 * random.standard_normal((2, 7, problem.num_parameters))).astype(np.float32)
    found = predictive_of(problem, draws, problem.test_features, problem.test_targets)
    expected = predictive(
        lambda parameters: network_outputs(parameters, problem.test_features.astype(np.float64), problem.layers),
        draws.astype(np.float64),
        problem.test_targets,
        problem.likelihood,
        problem.noise_sd,
    )
    for name in ("mean", "sd", "log_density", "probe_trace", "log_likelihood_trace", "chain_means"):
        ours, theirs = (getattr(each, name) for each in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6, err_msg=name)


def test_draws_from_the_posterior_itself_show_no_bias_and_their_own_predictions(linear, exact_draws):
    metrics, curves = evaluate(linear, record_of(linear), {"draws": exact_draws}, reference(linear, linear.num_points))
    assert metrics["reference_kind"] == "closed_form"
    assert not (metrics["mean_error_resolved"] or metrics["sd_ratio_resolved"] or metrics["sliced_w2_resolved"])
    # The sd of 4,000 draws has an error of 1 / sqrt(8,000) = 1.1 %: three of these.
    assert metrics["sd_ratio"] == pytest.approx(1, abs=0.034)
    assert metrics["r_hat"] == pytest.approx(1, abs=0.01)
    # Independent draws: ESS near their number, at least half of it in the worst of 21 quantities.
    assert 2000 < metrics["ess_bulk_min"] < 6000
    assert metrics["ess_per_second"] == pytest.approx(metrics["ess_bulk_min"] / 2.0)
    assert metrics["ess_per_million_likelihoods"] == pytest.approx(metrics["ess_bulk_min"] / 0.08)
    assert metrics["data_fraction"] == pytest.approx(20 / 100)
    outputs = network_outputs(exact_draws, linear.test_features, linear.layers)[..., 0]
    assert metrics["rmse"] == pytest.approx(
        root_mean_squared_error(linear.test_targets, outputs.mean(axis=(0, 1))), rel=1e-4
    )
    assert curves["predictive_mean"] == pytest.approx(outputs.mean(axis=(0, 1)), abs=1e-4)
    assert curves["predictive_sd"] == pytest.approx(outputs.std(axis=(0, 1)), rel=1e-3)
    assert metrics["ece"] == pytest.approx(np.mean(np.abs(curves["test_nominal"] - curves["test_observed"])))
    gap = np.mean(curves["validation_nominal"] - curves["validation_observed"])
    assert metrics["validation_confidence_gap"] == pytest.approx(gap)


def test_draws_twice_too_wide_are_found_so(linear, exact_draws):
    centre = exact_draws.mean(axis=(0, 1))
    wide = centre + 2 * (exact_draws - centre)
    metrics, _ = evaluate(linear, record_of(linear), {"draws": wide}, reference(linear, linear.num_points))
    assert metrics["sd_ratio"] == pytest.approx(2, rel=0.034)
    assert metrics["sd_ratio_resolved"]
    # W2 between N(0, 4) and N(0, 1), the same in every direction.
    assert metrics["sliced_w2"] == pytest.approx(1, rel=0.1)


def test_classes_have_the_metrics_of_classes():
    problem = class_problem()
    draws = (problem.map + 0.1 * np.random.default_rng(0).normal(size=(CHAINS, 100, problem.num_parameters))).astype(
        np.float32
    )
    metrics, curves = evaluate(problem, record_of(problem), {"draws": draws}, "none was made")
    logits = network_outputs(draws, problem.test_features, problem.layers)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    mean = probabilities.mean(axis=(0, 1))
    assert metrics["accuracy"] == accuracy_score(problem.test_targets, mean.argmax(axis=1))
    assert metrics["nll"] == pytest.approx(log_loss(problem.test_targets, mean), rel=1e-4)
    assert 0 <= metrics["ece"] <= 1 and 0 <= metrics["ece_equal_mass"] <= 1
    assert "rmse" not in metrics
    assert "predictive_mean" not in curves


def test_a_reference_that_failed_or_is_not_to_be_trusted_leaves_its_metrics_out_and_says_why(linear, exact_draws):
    unfit = replace(reference(linear, 100.0), is_usable=False, reason="R-hat 1.2 is above 1.01")
    for answer, kind, reason in (
        (unfit, "closed_form", "R-hat 1.2 is above 1.01"),
        ("RuntimeError: no", "failed", "RuntimeError: no"),
    ):
        metrics, _ = evaluate(linear, record_of(linear), {"draws": exact_draws}, answer)
        assert (metrics["reference_kind"], metrics["reference_usable"], metrics["reference_reason"]) == (
            kind,
            False,
            reason,
        )
        assert "sd_ratio" not in metrics
        assert metrics["rmse"] > 0


def test_where_no_reference_is_asked_for_all_is_there_but_what_compares_with_it(linear, exact_draws):
    compared, curves = evaluate(linear, record_of(linear), {"draws": exact_draws}, reference(linear, 100.0))
    alone, same_curves = evaluate(linear, record_of(linear), {"draws": exact_draws}, None)
    assert alone["reference_kind"] == "none"
    assert curves.keys() == same_curves.keys()
    dropped = compared.keys() - alone.keys()
    assert {"sd_ratio", "mean_error", "squared_bias", "sliced_w2", "reference_usable"} <= dropped
    assert {name: compared[name] for name in alone if name != "reference_kind"} == {
        name: value for name, value in alone.items() if name != "reference_kind"
    }


def test_a_network_is_judged_by_its_predictions_and_not_by_its_parameters():
    """A hidden unit turned over, with the weights after it, is the same function."""
    network = tiny_network_problem()
    draws = (network.map + 0.1 * np.random.default_rng(0).normal(size=(CHAINS, 100, 7))).astype(np.float32)
    turned = draws.copy()
    turned[..., [0, 2, 5]] *= -1
    outputs = network_outputs(draws.astype(float), network.test_features, network.layers)
    answer = replace(
        reference(prepare("linear", 0), 100.0),
        kind="gold_standard",
        mean=np.zeros(0),
        covariance=np.zeros(0),
        draws=draws.reshape(-1, 7),
        predictive_mean=outputs.mean(axis=(0, 1)),
        predictive_sd=outputs.std(axis=(0, 1)),
        predictive_mcse=np.zeros((9, 1)),
        ess_bulk=400.0,
    )
    metrics, _ = evaluate(network, record_of(network), {"draws": turned}, answer)
    assert metrics["sd_ratio"] == pytest.approx(1, abs=1e-4) and metrics["mean_error"] == pytest.approx(0, abs=1e-4)
    assert "sliced_w2" not in metrics and metrics["reference_usable"]


def test_a_balance_is_reported_where_there_is_nothing_else_to_audit(linear, exact_draws):
    there = np.array([0.2, 0.3, 0.5])
    parts = {"there": there, "back": np.ones(3), "exact": np.log(there) - 0.1}
    nothing = {f"{way}_variance": np.zeros(3) for way in ("there", "back")}
    arrays = {"draws": exact_draws} | {f"audit_balance_{name}": array for name, array in (parts | nothing).items()}
    metrics, _ = evaluate(linear, record_of(linear, "delayed_acceptance"), arrays, reference(linear, 100.0))
    found = {name: value for name, value in metrics.items() if name.startswith("audit_")}
    assert found.keys() == {"audit_balance_residual", "audit_balance_residual_mc"}
    assert found["audit_balance_residual"] == pytest.approx(0.1)


def test_the_audit_of_a_method_that_always_accepts_reports_only_what_its_moves_deserved(linear, exact_draws):
    audited = {
        "log_ratio_proposal": np.zeros(10),
        "delta": np.zeros(10),
        "variance": np.zeros(10),
        "log_accept": np.full(10, np.inf),
        # The exact rule would accept with probability 1/2; u is below it in four of the ten steps.
        "true_delta": np.full(10, np.log(2)),
        "true_variance": np.zeros(10),
        "log_uniform": np.log(np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.6, 0.7, 0.8, 0.9, 0.95])),
    }
    arrays = {"draws": exact_draws} | {f"audit_{name}": array for name, array in audited.items()}
    metrics, _ = evaluate(linear, record_of(linear, "sgld"), arrays, reference(linear, 100.0))
    found = {name: value for name, value in metrics.items() if name.startswith("audit_")}
    assert found.keys() == {
        "audit_num_steps",
        "audit_wrong_accepts",
        "audit_wrong_accepts_low",
        "audit_wrong_accepts_high",
        "audit_exact_acceptance",
    }
    assert found["audit_wrong_accepts"] == pytest.approx(0.6)
    assert found["audit_exact_acceptance"] == pytest.approx(0.5)


def test_every_metric_has_its_column_and_is_a_plain_value(linear, exact_draws):
    generator = np.random.default_rng(2)
    names = ("log_ratio_proposal", "delta", "variance", "log_accept", "true_delta", "true_variance", "log_uniform")
    names += ("skewness", "excess_kurtosis", "num_points")
    names += tuple(f"balance_{name}" for name in ("there", "there_variance", "back", "back_variance", "exact"))
    arrays = {f"audit_{name}": generator.exponential(size=50) for name in names} | {"draws": exact_draws}
    assert METHODS["pbnn"].acceptance == "penalty"
    of_regression, _ = evaluate(linear, record_of(linear), arrays, reference(linear, 100.0))
    problem = class_problem()
    draws = problem.map + np.zeros((CHAINS, 10, problem.num_parameters), np.float32)
    of_classes, _ = evaluate(problem, record_of(problem), {"draws": draws}, "none")
    of_reference = {"total_variation", "total_variation_mc", "total_variation_resolved", "agreement"}
    # A density has one column for itself (tests/implementations/tasks/test_density.py).
    found = of_regression.keys() | of_classes.keys() | of_reference | {"truth_error"}
    first, last = list(COLUMNS).index("r_hat"), list(COLUMNS).index("audit_balance_residual_mc")
    # From run.json; not the evaluation's.
    recorded = {"wall_clock_s", "cpu_s", "warmup_s", "compile_s", "has_compilation_cache", "peak_memory_mb"}
    recorded |= {"likelihood_evaluations", "gradient_evaluations", "tuning_s", "tuning_evaluations"}
    recorded |= {"warmup_cpu_s", "tuning_cpu_s", "anchor_cpu_s"}
    assert found == set(list(COLUMNS)[first : last + 1]) - recorded
    json.dumps(of_regression, allow_nan=False)


def class_problem() -> Problem:
    """Three classes in the plane, one layer, weights that are roughly right."""
    generator = np.random.default_rng(0)
    centres = np.array([[0, 2], [2, -1], [-2, -1]])

    def points(count: int) -> tuple[np.ndarray, np.ndarray]:
        classes = generator.integers(3, size=count)
        inputs = centres[classes] + generator.normal(size=(count, 2))
        return np.column_stack([np.ones(count), inputs]).astype(np.float32), classes.astype(np.int32)

    train, validation, test = map(points, (100, 50, 200))
    return Problem.of(
        *train,
        task="synthetic",
        likelihood="categorical",
        validation=validation,
        test=test,
        map=np.vstack([np.zeros(3), centres.T]).ravel().astype(np.float32),
        curvature=np.eye(9, dtype=np.float32),
    )
