"""Figures show the numbers of the summary: shapes of panels against numbers worked out here, and legible pictures."""

import itertools
import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from implementations.infrastructure.artefact import write_arrays
from implementations.tasks.problem import Problem
from records.methods import facts_of
from records.reference import reference
from records.setting_runs import nearest
from records.study import StudyResults
from records.summary import table_of
from reports.drawing import Band, Bar, Dots, Drawing, Guide, Line, Panel, Point
from reports.figures import FIGURES, TALL_FIGURES
from reports.figures.calibration import draw_cure, exact_gaps
from reports.figures.cost import Offer, error_of, frontier
from reports.figures.noise import CHANCE_DISTANCE, largest_within_budget
from reports.figures.paper import mean_reliability
from reports.types import MAX_WORDS, NothingToShow
from tests.reports.legible import flaws
from tests.reports.worlds import changed, network, networks_world, tall_world
from tests.reports.worlds import study as made_up

SPECS = {spec.name: spec for spec in FIGURES}
#: The methods' defaults as a study would record them.
DEFAULTS = {
    **{key: {"weight": "data"} for key in ("full_mh", "mala", "laplace")},
    **{key: {"weight": "batch"} for key in ("tempered", "sgld")},
    "naive": {"weight": "data", "num_batches": 1},
    "pbnn": {"weight": "batch", "variance": "batches", "num_batches": 5},
    "pbnn_corrected": {"weight": "batch", "variance": "batches"},
}
NUM_POINTS = {"linear": 40, "regression": 60, "digits": 1200}
#: Metrics of a run where a test says nothing else.
METRICS = (
    {"r_hat": 1.01, "ess_bulk_min": 1000.0, "ess_per_second": 50.0, "wall_clock_s": 2.0, "acceptance_rate": 0.5}
    | {"ece": 0.05, "confidence_gap": 0.04, "validation_ece": 0.06, "mean_variance": 0.3}
    | {"reference_kind": "closed_form", "sd_ratio": 1.0, "mean_error": 0.05, "sliced_w2": 0.1}
    | {"sliced_w2_resolved": False, "likelihood_evaluations": 1000, "gradient_evaluations": 0}
    | {"audit_num_steps": 400, "audit_wrong_accepts": 0.1, "audit_wrong_rejects": 0.2}
    | {"audit_balance_residual": 0.001, "audit_balance_residual_mc": 0.0005, "audit_variance_ratio_median": 0.8}
    | {"audit_variance_ratio_low": 0.2, "audit_variance_ratio_high": 2.0, "audit_noise_skewness": 0.3}
    | {"audit_noise_normality_distance": 0.04, "audit_noise_normality_p_value": 0.5}
)


def run(variant, method, *, backend="jax-cpu", seed=0, status="ok", num_points=None, **given):
    """A row of the summary: settings and metrics by name, the rest as usual."""
    own = {name: value for name, value in given.items() if name not in METRICS}
    settings = {"step_size": 0.01, "preconditioner": "full", "num_steps": 1000, "chains": 4} | DEFAULTS[method] | own
    label = "+".join([method, *(f"{name}={value}" for name, value in own.items() if name != "reason")])
    points = num_points or NUM_POINTS[variant]
    weight = points if settings["weight"] == "data" else settings.get("batch_size", 1)
    folder = variant if num_points is None else f"{variant}-points{num_points}"
    row = {
        "study": "made-up",
        "run": f"{folder}/{label}/{backend}/seed{seed}",
        "variant": folder,
        "label": label,
        "task": variant,
        "stochastic": "last",
        "prior": "gaussian",
        "prior_scale": 1.0,
        "method": method,
        "backend": backend,
        "seed": seed,
        "status": status,
        "num_points": points,
        # So many that 0.01 is pbnn's default step.
        "num_parameters": 72,
        **settings,
    }
    return row if status != "ok" else row | {"target_weight": float(weight)} | METRICS | _metrics(given)


def _metrics(given):
    return {name: value for name, value in given.items() if name in METRICS}


def seeds(*arguments, values, column, **given):
    """The same run for as many seeds as there are values of a metric."""
    return [run(*arguments, seed=seed, **given, **{column: value}) for seed, value in enumerate(values)]


def study(rows, folder=Path("made-up")):
    return StudyResults(
        folder, table_of(list(itertools.chain.from_iterable(r if isinstance(r, list) else [r] for r in rows)))
    )


def draw(name, results) -> Drawing:
    return SPECS[name].draw(results)


def of(panel: Panel, kind, colour=None):
    return [one for one in panel.shapes if isinstance(one, kind) and colour in (None, getattr(one, "colour", None))]


def marks(panel, method, *, is_hollow=False):
    """(x, y) of the marks of a method, sorted."""
    points = [one for one in of(panel, Point) if one.look.colour == facts_of(method).colour]
    return sorted((one.x, one.y) for one in points if one.is_hollow == is_hollow)


def guides(panel, axis, dash):
    return [one.value for one in of(panel, Guide) if (one.axis, one.dash) == (axis, dash)]


# A study with the files of its runs


def problem(variant, seed):
    """A small regression on features [1, x], which has a closed form."""
    generator = np.random.default_rng([seed, len(variant)])
    count = NUM_POINTS[variant]
    inputs = generator.uniform(-1, 1, size=(count, 1)).astype(np.float32)
    test_inputs = np.linspace(-1, 1, 30, dtype=np.float32)[generator.permutation(30), None]

    def targets(x):
        return (0.3 + 0.8 * x[:, 0] + 0.5 * generator.normal(size=len(x))).astype(np.float32)

    def features(x):
        return np.concatenate([np.ones_like(x), x], axis=1)

    return Problem.of(
        features(inputs),
        targets(inputs),
        task=variant,
        seed=seed,
        noise_sd=0.5,
        validation=(features(test_inputs), targets(test_inputs)),
        test=(features(test_inputs), targets(test_inputs)),
        map=np.zeros(2, np.float32),
        curvature=np.eye(2, dtype=np.float32),
        inputs=inputs,
        test_inputs=test_inputs,
    )


def exact_band(made, weight):
    """Mean and sd of f at the sorted test inputs, from Bayes' rule on the stacked pseudo-observations of the prior."""
    scale = math.sqrt(weight / made.num_points) / made.noise_sd
    rows = np.concatenate([np.eye(2), scale * made.features])
    values = np.concatenate([np.zeros(2), scale * made.targets])
    mean = np.linalg.lstsq(rows, values, rcond=None)[0]
    covariance = np.linalg.pinv(rows) @ np.linalg.pinv(rows).T
    at = np.stack([np.ones(30), np.sort(made.test_inputs[:, 0])], axis=1)
    return at @ mean, np.sqrt(np.diag(at @ covariance @ at.T))


#: Width of a run's made-up band, by method.
SD = {"full_mh": 0.1, "naive": 0.5, "pbnn": 0.3, "tempered": 0.25, "sgld": 0.4}


@pytest.fixture(scope="session")
def filed(tmp_path_factory):
    """Two tasks with problems, references and curves on file; the mean of f is x, its sd that of SD."""
    folder = tmp_path_factory.mktemp("results") / "made-up"
    linear = {"weight": "data", "batch_size": 2}
    rows = [
        *seeds("linear", "naive", batch_size=2, column="sd_ratio", values=[1.8, 1.9, 2.0]),
        # The bias of a larger step is another figure's matter.
        *seeds("linear", "naive", batch_size=2, step_size=0.5, column="sd_ratio", values=[3.0, 3.0, 3.0]),
        *seeds("linear", "pbnn", **linear, num_batches=5, column="sd_ratio", values=[1.0, 1.1, 1.2]),
        *seeds("linear", "pbnn", **linear, num_batches=1, variance="oracle", column="sd_ratio", values=[1.0] * 3),
        *seeds("regression", "full_mh", column="r_hat", values=[1.2, 1.01]),
        *seeds("regression", "pbnn", batch_size=5, num_batches=5, column="validation_ece", values=[0.02, 0.03]),
        *seeds("regression", "pbnn", batch_size=20, num_batches=2, column="validation_ece", values=[0.09, 0.08]),
        run("regression", "pbnn", batch_size=5, num_batches=5, step_size=0.3),
        run("regression", "tempered", batch_size=5),
        run("regression", "sgld", batch_size=5, step_size=0.001, preconditioner="none", r_hat=1.5),
        run("regression", "sgld", batch_size=5, step_size=0.1, preconditioner="none"),
        run("regression", "sgld", batch_size=5),
    ]
    results = study(rows, folder)
    levels = np.arange(1, 20) / 20
    for row in results.summary.to_dict("records"):
        made = problem(row["variant"], row["seed"])
        path = folder / "problems" / row["variant"] / f"seed{row['seed']}" / "problem.npz"
        if not path.exists():
            path.parent.mkdir(parents=True)
            made.save(path, {"variant": row["variant"]})
        weight = f"weight{row['target_weight']:g}"
        path = folder / "references" / row["variant"] / weight / f"seed{row['seed']}" / "reference.npz"
        if not path.exists():
            path.parent.mkdir(parents=True)
            identity = {"variant": row["variant"], "weight": row["target_weight"], "seed": row["seed"]}
            reference(made, row["target_weight"]).save(path, identity)
        curves = {
            "test_nominal": levels,
            # Seed by seed a little less is covered.
            "test_observed": levels * (0.9 - 0.1 * row["seed"]),
            "test_counts": np.full(19, 30),
            "predictive_mean": made.test_inputs[:, 0],
            "predictive_sd": np.full(30, SD[row["method"]]),
        }
        path = folder / "runs" / row["run"] / "curves.npz"
        path.parent.mkdir(parents=True)
        write_arrays(path, "curves", curves, {})
    return results


def band_edges(panel, method):
    """Lower and upper edge of the widest band of a method, at the sorted test inputs."""
    bands = of(panel, Band, facts_of(method).colour)
    return bands[0].x, np.min([band.low for band in bands], axis=0), np.max([band.high for band in bands], axis=0)


def dashed(panel):
    return [one.y for one in of(panel, Line) if one.dash == "5 3"]


def numbers(drawing) -> str:
    """What a reader unfolds."""
    return "\n".join(drawing.numbers)


# The paper's figures


def test_figure_1_shows_one_sd_of_f_around_the_mean_and_the_exact_band(filed):
    known, _, estimated, _ = draw("figure1_linear", filed).panels
    for panel in (known, estimated):
        for method in ("naive", "pbnn"):
            xs, low, high = band_edges(panel, method)
            assert np.allclose(low, xs - SD[method], atol=1e-6)
            assert np.allclose(high, xs + SD[method], atol=1e-6)
        mean, sd = exact_band(problem("linear", 0), 40)
        assert np.allclose(dashed(panel), [mean - sd, mean + sd] * 2, atol=1e-5)
    assert "M=1" in known.title and "M=5" in estimated.title


def test_figure_1_takes_the_naive_run_of_the_defaults_and_reports_its_mean_over_seeds(filed):
    drawing = draw("figure1_linear", filed)
    assert [panel.title for panel in drawing.panels[1::2]] == [
        "naive sd 1.90 × exact · PBNN sd 1.00 × exact",
        "naive sd 1.90 × exact · PBNN sd 1.10 × exact",
    ]
    assert "1.9 times as wide as it should be, with it 1.00 (variance known) and 1.10" in drawing.title
    half = stats.t.ppf(0.975, 2) * 0.1 / math.sqrt(3)
    low, high = (1.9 * math.exp(sign * half / 1.9) for sign in (-1, 1))
    assert f"[{low:.2f}, {high:.2f}]" in numbers(drawing)
    assert not any("step_size=0.5" in name for name in drawing.runs)


def test_figure_1_shows_all_chains_on_the_data_of_one_seed(filed):
    is_bad = (filed.summary["method"] == "naive") & (filed.summary["seed"] == 0)
    summary = filed.summary.assign(r_hat=filed.summary["r_hat"].where(~is_bad, 1.3))
    drawing = draw("figure1_linear", StudyResults(filed.folder, summary))
    mean, sd = exact_band(problem("linear", 1), 40)
    inputs = np.linspace(-1, 1, 30)
    for panel in drawing.panels[::2]:
        assert np.allclose(dashed(panel), [mean - sd, mean + sd] * 2, atol=1e-5)
    # The mean of f, which is x, without the exact mean of the same seed.
    for panel in drawing.panels[1::2]:
        means = [line.y for line in of(panel, Line) if not line.dash]
        assert np.allclose(means, [inputs - mean] * 2, atol=1e-5)
    assert "the data of seed 1" in drawing.caption


def test_figure_2_shows_three_sds_and_says_which_panels_are_missing(filed):
    drawing = draw("figure2_regression", filed)
    panels = {panel.title[:3]: panel for panel in drawing.panels if "sd " not in panel.title}
    for name, method in (("(a)", "full_mh"), ("(b)", "pbnn")):
        xs, low, high = band_edges(panels[name], method)
        assert np.allclose([low, high], [xs - 3 * SD[method], xs + 3 * SD[method]], atol=1e-6)
    assert all("no run ended well" in panels[name].title for name in ("(c)", "(d)"))
    # Of the two runs with n = 5 and M = 5 the one without a step of its own.
    assert not any("step_size=0.3" in name for name in drawing.runs)


def test_figure_2_shows_a_converged_seed_where_there_is_one_and_reports_the_other(filed):
    drawing = draw("figure2_regression", filed)
    panel, strip, *_ = drawing.panels
    mean, sd = exact_band(problem("regression", 1), 60)
    assert np.allclose(dashed(panel), [mean - 3 * sd, mean + 3 * sd], atol=1e-5)
    assert "1 of 2 seeds not converged" in strip.title
    middle = (np.linspace(-1, 1, 30) - mean) / sd
    (band,) = of(strip, Band)
    assert np.allclose([band.low, band.high], [middle - 0.1 / sd, middle + 0.1 / sd], atol=1e-3)
    assert "1 of 2 runs have converged" in numbers(drawing)


def test_figure_4_orders_sgld_by_its_step_and_leaves_out_the_preconditioned_run(filed):
    drawing = draw("figure4_alternatives", filed)
    titles = [panel.title for panel in drawing.panels]
    assert any(title.startswith("(a)") and "η=0.1" in title for title in titles)
    assert any(title.startswith("(b)") and "η=0.001" in title for title in titles)
    assert all("preconditioner=none" in name for name in drawing.runs if "/sgld" in name)


def test_figure_3_shows_the_mean_over_seeds_with_its_interval(filed):
    (panel,) = draw("figure3_reliability", filed).panels
    levels = np.arange(1, 20) / 20
    assert np.allclose(marks(panel, "pbnn"), list(zip(levels, 0.85 * levels, strict=True)))
    xs, low, high = band_edges(panel, "pbnn")
    half = stats.t.ppf(0.975, 1) * np.std([0.9, 0.8], ddof=1) / math.sqrt(2) * levels
    assert np.allclose(
        [xs, low, high], [levels, np.maximum(0, 0.85 * levels - half), np.minimum(1, 0.85 * levels + half)]
    )


def test_a_seed_without_points_in_a_bin_does_not_shift_the_others():
    first = {
        "test_nominal": np.array([0.5, 0.99]),
        "test_observed": np.array([0.4, 0.9]),
        "test_counts": np.array([20, 80]),
    }
    second = {"test_nominal": np.array([0.97]), "test_observed": np.array([0.8]), "test_counts": np.array([100])}
    mean, low, high = mean_reliability([first, second], "categorical")
    assert np.allclose(mean["test_nominal"], [0.5, 0.98])
    assert np.allclose(mean["test_observed"], [0.4, 0.85])
    assert np.allclose(mean["test_counts"], [20, 90])
    assert low[0] == high[0] == 0.4
    assert low[1] < 0.85 < high[1] <= 1


# Calibration and targets


def test_the_exact_gap_is_nominal_minus_counted_coverage():
    made = problem("regression", 3)
    weight = 7.0
    (gap,) = exact_gaps([made], np.array([weight]))
    mean, sd = exact_band(made, weight)
    targets = made.test_targets[np.argsort(made.test_inputs[:, 0])]
    levels = np.arange(1, 20) / 20
    covered = []
    for level in levels:
        low, high = stats.norm.interval(level, mean, np.sqrt(sd**2 + 0.5**2))
        covered.append(np.mean((low <= targets) & (targets <= high)))
    assert gap == pytest.approx(np.mean(levels - covered), abs=1e-6)


def test_the_calibration_figure_marks_the_n_of_least_validation_error(filed):
    drawing = draw("calibration", filed)
    (panel,) = drawing.panels
    assert guides(panel, "x", "2 3") == [5.0]
    assert "chooses n=5 for PBNN" in numbers(drawing)
    assert np.allclose([x for x, _ in marks(panel, "pbnn")], [5, 20], rtol=0.1)


def test_the_targets_figure_sets_pbnn_beside_the_tempered_chain_of_the_same_n():
    results = study(
        [
            seeds("regression", "pbnn", batch_size=5, step_size=0.01, column="sd_ratio", values=[1.0, 1.02]),
            seeds("regression", "pbnn", batch_size=5, step_size=0.3, column="sd_ratio", values=[1.1, 1.3]),
            run("regression", "tempered", batch_size=50, sd_ratio=7.0),
            seeds("regression", "tempered", batch_size=5, column="sd_ratio", values=[0.98, 1.0]),
        ]
    )
    drawing = draw("targets", results)
    assert np.allclose(marks(drawing.panels[0], "pbnn"), [(0.01, 1.01), (0.3, 1.2)])
    assert np.allclose(guides(drawing.panels[0], "y", "5 3"), [0.99])
    assert not any("batch_size=50" in name for name in drawing.runs)


# Acceptance, decisions and noise


def test_acceptance_is_drawn_over_settings_that_differ_in_one_thing():
    results = study(
        [
            seeds("linear", "pbnn", batch_size=2, column="acceptance_rate", values=[0.2, 0.4]),
            seeds("linear", "pbnn", batch_size=8, column="acceptance_rate", values=[0.5, 0.7]),
            # Differs in two settings from each of the others.
            run("linear", "pbnn", batch_size=16, num_batches=2, acceptance_rate=0.99),
            run("linear", "sgld", batch_size=2, acceptance_rate=1.0),
            run("linear", "sgld", batch_size=4, acceptance_rate=1.0),
        ]
    )
    drawing = draw("acceptance", results)
    (panel,) = drawing.panels
    assert np.allclose(marks(panel, "pbnn"), [(2, 0.3), (8, 0.6)])
    assert not marks(panel, "sgld")
    assert [key.label for key in panel.keys] == ["linear (N = 40): PBNN M=5, η=0.01"]
    assert len(drawing.runs) == 4


def test_converged_and_unconverged_seeds_are_never_averaged_together():
    results = study(
        [
            run("linear", "pbnn", batch_size=2, acceptance_rate=0.2),
            run("linear", "pbnn", batch_size=2, acceptance_rate=0.9, r_hat=1.3, seed=1),
            run("linear", "pbnn", batch_size=8, acceptance_rate=0.5),
        ]
    )
    drawing = draw("acceptance", results)
    (panel,) = drawing.panels
    assert np.allclose(marks(panel, "pbnn"), [(2, 0.2), (8, 0.5)])
    assert np.allclose(marks(panel, "pbnn", is_hollow=True), [(2, 0.9)])
    assert [list(line.y) for line in of(panel, Line)] == [[0.2, 0.5]]
    assert [key.label for key in drawing.keys] == ["not converged"]
    assert "1 of 3 runs have not converged" in numbers(drawing)


def test_the_penalty_is_drawn_over_step_and_m_and_its_cost_beside_theory():
    rows = [
        run("linear", method, seed=seed, step_size=step, sd_ratio=ratio, weight="data", batch_size=2, num_batches=1)
        for method, ratios in (("naive", (1.8, 3.6)), ("pbnn", (1.0, 1.1)))
        for step, ratio in zip((1e-4, 1e-3), ratios, strict=True)
        for seed in range(2)
    ]
    for row in rows:
        row |= {"mean_variance": 4.0, "audit_acceptance": 0.2, "audit_exact_acceptance": 0.5}
    drawing = draw("penalty", study(rows))
    over_step, cost = drawing.panels
    assert np.allclose(marks(over_step, "naive"), [(1e-4, 1.8), (1e-3, 3.6)])
    (theory,) = of(cost, Line)
    assert np.interp(4.0, theory.x, theory.y) == pytest.approx(2 * stats.norm.cdf(-1), abs=1e-3)
    assert np.allclose(marks(cost, "pbnn"), [(4.0, 0.4)] * 2)
    assert "up to 3.60 times as wide as it should be, with it up to 1.10 times" in drawing.title


def test_wrong_accepts_go_right_and_wrong_rejects_left():
    rows = seeds("linear", "pbnn", batch_size=2, column="audit_wrong_accepts", values=[0.1, 0.3])
    results = study([rows, run("linear", "naive", batch_size=2, r_hat=2.0), run("linear", "full_mh")])
    (panel,) = draw("decisions", results).panels
    assert np.allclose([bar.x for bar in of(panel, Bar)], [(0, 0.2), (0, -0.2), (0, 0.1), (0, -0.2)])
    assert [bar.is_hollow for bar in of(panel, Bar)] == [False, False, True, True]
    assert len(panel.rows) == 2, "a chain on all data decides exactly"


def test_the_noise_figure_shows_distance_and_skewness_against_m():
    few = {"audit_noise_normality_distance": 0.2, "audit_noise_skewness": 1.0}
    rows = [
        run("linear", "pbnn", batch_size=2, num_batches=2, **few),
        run("linear", "pbnn", batch_size=2, num_batches=8, audit_noise_normality_p_value=0.01),
    ]
    drawing = draw("noise", study(rows))
    distance, skewness, _ = drawing.panels
    assert np.allclose(marks(distance, "pbnn"), [(2, 0.2), (8, 0.04)])
    assert np.allclose(marks(skewness, "pbnn"), [(2, 1.0), (8, 0.3)])
    assert "in 1 of 2 runs" in numbers(drawing)


def test_the_chance_distance_is_that_of_normal_values():
    generator = np.random.default_rng(0)
    distances = [stats.kstest(generator.normal(size=400), "norm").statistic * 20 for _ in range(400)]
    # The limit is approached from below, by about 1 / (6 sqrt(k)).
    assert np.mean(distances) == pytest.approx(CHANCE_DISTANCE, abs=0.04)


def test_the_regime_map_has_runs_over_the_theory_of_their_number_of_batches():
    usual = {"batch_size": 5, "audit_balance_residual": 0.0, "audit_balance_residual_mc": 0.001}
    rows = [
        run("regression", "pbnn", num_batches=2, mean_variance=0.2, **usual | {"audit_balance_residual": 0.01}),
        run("regression", "pbnn", num_batches=10, mean_variance=2.0, **usual | {"audit_balance_residual": 0.05}),
        run("digits", "pbnn", num_batches=10, mean_variance=0.2, **usual | {"batch_size": 50}),
        run("regression", "pbnn_corrected", num_batches=10, mean_variance=2.0, **usual),
        # A chain that does not move, and a rule that knows its variance: neither is shown.
        run("regression", "pbnn", num_batches=10, mean_variance=1e5, r_hat=5.0, step_size=1.0, **usual),
        run("regression", "pbnn", num_batches=10, mean_variance=3.0, variance="oracle", **usual),
    ]
    drawing = draw("regime_map", study(rows))
    plain, corrected = drawing.panels
    assert (plain.title, corrected.title) == ("the penalty", "with the correction")
    assert (len(of(plain, Line)), len(of(corrected, Line))) == (2, 1), "one line per number of batches"
    two, ten = (np.interp(1.0, line.x, line.y) for line in of(plain, Line))
    assert two == pytest.approx(0.108, abs=0.005) and ten == pytest.approx(0.016, abs=0.002)
    assert sorted((one.x, one.y) for one in of(plain, Point)) == [(0.2, 0.0), (0.2, 0.01), (2.0, 0.05)]
    assert "1 of 4 settings exceed it" in drawing.caption
    assert drawing.title == "A bias budget of |r| = 0.02 allows σ² up to 0.29 with M = 2 and 1.2 with M = 10"
    assert len(drawing.runs) == 4


def test_the_table_of_the_documentation_is_that_of_the_theory():
    """How much noise a practitioner may have."""
    text = Path("docs/understand/penalty.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \| (.+?) \|$", text, re.MULTILINE)
    assert [int(num_batches) for num_batches, *_ in rows] == [2, 3, 5, 10, 20, 40]
    for num_batches, plain, corrected in rows:
        for said, rule in ((plain, "penalty"), (corrected.split()[-1], "penalty_corrected")):
            assert float(said) == pytest.approx(largest_within_budget(rule, int(num_batches)), rel=0.05)


# Cost


def test_bias_is_drawn_against_the_price_of_an_effective_draw():
    results = study(
        [
            run("linear", "pbnn", batch_size=2, likelihood_evaluations=3000, gradient_evaluations=1000, mean_error=0.3),
            run("linear", "tempered", batch_size=2, likelihood_evaluations=9000),
            run("linear", "full_mh", likelihood_evaluations=8000, mean_error=0.1, ess_per_second=4.0),
            run("linear", "mala", likelihood_evaluations=9000, mean_error=0.09),
        ]
    )
    drawing = draw("bias_evaluations", results)
    full, tempered = drawing.panels
    assert [panel.title for panel in (full, tempered)] == ["linear (N = 40), w = N", "linear (N = 40), w = 2"]
    assert np.allclose(marks(tempered, "pbnn"), [(4, 0.3)])
    assert np.allclose(marks(full, "full_mh"), [(8, 0.1)])
    assert [mark.run for mark in full.marks] == ["linear/mala/jax-cpu/seed0", "linear/full_mh/jax-cpu/seed0"]
    seconds = draw("bias_seconds", results).panels[0]
    assert (0.25, 0.1) in [(one.x, one.y) for one in of(seconds, Point)], "off the frontier, it is grey"
    # Each of the four is counted once: 3 and 1 and 0.
    assert (
        "Of 4 settings, 3 are surely within 0.1 sd (3 with a small error that is more than chance); of the others, the "
        "error of 1 is more than chance, and 0 would need longer chains" in numbers(drawing)
    )


def test_the_error_of_a_band_is_that_of_its_mean_or_its_width_whichever_is_larger():
    def errors(squares, widths, **more):
        rows = [
            run("linear", "sgld", seed=seed, sd_ratio=width) | {"squared_bias": square} | more
            for seed, (square, width) in enumerate(zip(squares, widths, strict=True))
        ]
        (setting,) = study(rows).all_settings
        return setting, error_of(setting)

    setting, (low, high) = errors([0.04, 0.05, 0.06], [1.01, 0.99, 1.0])
    assert (low, high) == (setting.bias().low, setting.bias().high) and low > 0.1
    # The mean is right, and the band half as wide again.
    setting, (low, high) = errors([-1e-4, 1e-4, 0.0], [1.5, 1.49, 1.51])
    assert np.allclose((low, high), (setting.estimate("sd_ratio").low - 1, setting.estimate("sd_ratio").high - 1))
    # Too narrow is as wrong as too wide.
    assert errors([-1e-4, 1e-4, 0.0], [0.5, 0.49, 0.51])[1] == pytest.approx((low, high), abs=2e-3)
    _, (low, high) = errors([-1e-4, 1e-4, 0.0], [1.01, 0.99, 1.0])
    assert low == 0 and 0.01 < high < 0.1
    # Single predictions count where they are surely off.
    points = {"point_error": 0.4, "point_error_resolved": True}
    assert errors([0.0, 0.0, 0.0], [1.01, 0.99, 1.0], **points)[1] == pytest.approx((0.4, 0.4))
    assert errors([0.0, 0.0, 0.0], [1.01, 0.99, 1.0], **points | {"point_error_resolved": False})[1][1] < 0.1
    # One seed has no interval but its Monte Carlo error.
    assert errors([0.0], [1.3], sd_ratio_mc=0.05)[1] == pytest.approx((0.2, 0.4))


def test_a_task_at_another_size_has_no_panel_beside_the_task_itself():
    sizes = [run("linear", "full_mh", num_points=size, mean_error=0.1) for size in (100, 10_000)]
    both = draw("bias_evaluations", study(sizes)).panels
    assert [panel.title for panel in both] == ["linear, w = N"]
    alone = draw("bias_evaluations", study(sizes[1:])).panels
    assert [panel.title for panel in alone] == ["linear (N = 10,000), w = N"]


def test_draws_that_cost_nothing_are_on_the_left_edge_of_the_bias_cost_picture():
    results = study(
        [
            run("linear", "laplace", likelihood_evaluations=0, gradient_evaluations=0, mean_error=0.4),
            run("linear", "full_mh", likelihood_evaluations=8000, mean_error=0.1),
        ]
    )
    (panel,) = draw("bias_evaluations", results).panels
    assert np.allclose(marks(panel, "laplace"), [(panel.x.low, 0.4)])


def _offer(price, low, high, is_converged=True):
    return Offer(SimpleNamespace(is_converged=is_converged), float(price), low, high)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(2, 9)), max_size=8))
def test_above_the_bound_the_frontier_is_what_no_other_beats(numbers):
    best = {(offer.price, offer.high) for offer in frontier([_offer(price, 0.1, high) for price, high in numbers])}
    unbeaten = {(p, b) for p, b in numbers if not any((q <= p and c <= b) and (q, c) != (p, b) for q, c in numbers)}
    assert best == unbeaten


def test_the_frontier_ends_at_the_cheapest_within_the_bound_and_chance_adds_nothing_to_it():
    biased, open_one, right = _offer(1, 0.2, 0.3), _offer(2, 0.0, 0.2), _offer(3, 0.0, 0.09)
    dearer, stuck = _offer(4, 0.0, 0.01), _offer(0.5, 0.0, 0.05, is_converged=False)
    assert frontier([dearer, stuck, right, open_one, biased]) == [biased, right]
    assert frontier([dearer, open_one]) == [dearer]


def test_the_time_of_a_step_is_seconds_over_steps_and_chains():
    rows = [
        run("linear", method, num_points=points, wall_clock_s=seconds, **extra)
        for method, extra, times in (("full_mh", {}, (0.4, 4.0)), ("pbnn", {"batch_size": 5}, (0.2, 0.2)))
        for points, seconds in zip((1000, 10000), times, strict=True)
    ]
    drawing = draw("step_cost", study(rows))
    (panel,) = drawing.panels
    assert np.allclose(marks(panel, "full_mh"), [(1000, 100), (10000, 1000)])
    assert np.allclose(marks(panel, "pbnn"), [(1000, 50), (10000, 50)])
    assert "10 times as long (full-data MH)" in drawing.title


# Runs


def test_backends_are_compared_seed_by_seed_and_a_missing_device_is_reported():
    results = study(
        [
            seeds("linear", "full_mh", column="sd_ratio", values=[1.0, 1.2]),
            seeds("linear", "full_mh", backend="torch-cpu", wall_clock_s=8.0, column="sd_ratio", values=[1.1, 1.3]),
            run("linear", "full_mh", backend="jax-gpu", status="skipped", reason="no CUDA device"),
        ]
    )
    drawing = draw("backends", results)
    times, answers = drawing.panels
    assert sorted(one.x for one in of(times, Point)) == [500, 2000]
    assert np.allclose([one.x for one in of(answers, Point)], [0.1])
    assert "torch takes 4.0 times that of jax" in drawing.title
    assert "jax-gpu: 1 runs skipped, no CUDA device." in numbers(drawing)


def test_every_run_has_its_r_hat_and_those_above_the_line_are_hollow():
    values = [1.001, 1.02, 1.2, 1.6]
    results = study([seeds("linear", "full_mh", column="r_hat", values=values), run("linear", "pbnn", r_hat=None)])
    drawing = draw("convergence", results)
    (panel,) = drawing.panels
    filled, hollow = of(panel, Dots)
    assert np.allclose(filled.x, [0.001, 0.02]) and not filled.is_hollow
    assert np.allclose(hollow.x, [0.2, 0.6]) and hollow.is_hollow
    assert drawing.title == "The chains of 2 of 4 runs agree"
    assert "1 runs have no R-hat" in numbers(drawing)


def test_coverage_counts_what_became_of_every_run():
    results = study(
        [
            seeds("linear", "full_mh", column="r_hat", values=[1.0, 1.3]),
            run("linear", "full_mh", seed=2, status="diverged", reason="step 7 <is> not finite"),
            run("linear", "pbnn", backend="jax-gpu", status="skipped", reason="no CUDA device"),
        ]
    )
    drawing = draw("coverage", results)
    by_task, by_method = drawing.panels
    assert [name.split()[-1] for name in (*by_task.rows, *by_method.rows)] == ["1/4", "1/3", "0/1"]
    assert [bar.x for bar in of(by_task, Bar)] == [(0, 0.25), (0.25, 0.5), (0.5, 0.75), (0.75, 1)]
    assert [key.label for key in drawing.keys] == ["converged (1)", "not converged (1)", "skipped (1)", "diverged (1)"]
    assert "1 × step 7 <is> not finite" in numbers(drawing)
    assert len(drawing.runs) == 4


# All of them


@pytest.mark.parametrize("name", [name for name in SPECS if name != "coverage"])
def test_a_figure_without_its_runs_says_which_it_needs(name):
    results = study([run("linear", "pbnn", batch_size=2, status="skipped", reason="no CUDA device")])
    with pytest.raises(NothingToShow, match=r"run|needs|backends"):
        draw(name, results)


@pytest.mark.parametrize("name", SPECS)
def test_a_figure_of_a_study_with_gaps_is_legible_and_names_runs_of_it(name, filed):
    extra = [
        run("digits", "full_mh", r_hat=1.4),
        run("digits", "pbnn", batch_size=50, r_hat=None, mean_error=None, audit_wrong_accepts=None),
        run("digits", "pbnn", batch_size=20, status="failed", reason="out of memory"),
        run("linear", "full_mh", num_points=500),
        run("linear", "full_mh", num_points=5000, backend="torch-cpu"),
        run("linear", "full_mh", num_points=5000),
        run("regression", "pbnn", batch_size=5, num_batches=10),
        run("regression", "pbnn", batch_size=5, num_batches=10, backend="torch-cpu"),
        run("linear", "naive", batch_size=3, step_size=1e-4),
        run("linear", "naive", batch_size=3, step_size=1e-3),
    ]
    for row in extra:
        row |= {"audit_acceptance": 0.4, "audit_exact_acceptance": 0.5}
    # The pictures of runs need their files, which only the first study has.
    needs_files = name.startswith("figure") or name == "calibration"
    summary = filed.summary if needs_files else pd.concat([filed.summary, table_of(extra)])
    results = StudyResults(filed.folder, summary.reset_index(drop=True))
    drawing = draw(name, results)
    assert flaws(drawing) == []
    assert drawing.runs and set(drawing.runs) <= set(results.summary["run"])
    assert len(drawing.caption.split()) <= MAX_WORDS
    text = " ".join([drawing.title, drawing.caption, numbers(drawing)])
    assert "nan" not in text.split() and "None" not in text


# Choosing runs


def test_the_setting_nearest_to_the_preferred_one_stands_for_a_method_and_then_that_nearest_to_its_defaults():
    groups = study(
        [
            run("linear", "pbnn", batch_size=5, num_batches=2),
            run("linear", "pbnn", batch_size=5, num_batches=10, step_size=0.3),
            run("linear", "pbnn", batch_size=5, num_batches=10),
        ]
    ).ran()
    assert nearest(groups, num_batches=8)["label"] == "pbnn+batch_size=5+num_batches=10"
    assert nearest(groups, num_batches=3)["label"] == "pbnn+batch_size=5+num_batches=2"
    assert nearest([]) is None


def test_networks_on_mnist_have_two_panels_for_each_training_and_say_which_premise_is_met():
    drawing = draw_cure(made_up(networks_world()))
    assert [panel.title for panel in drawing.panels] == [
        "10,000 images, 60 epochs: overconfident",
        "10,000 images, 60 epochs",
        "55,000 images, 2 epochs: not overconfident",
        "55,000 images, 2 epochs",
    ]
    assert drawing.title.startswith("Networks trained to overfit are overconfident")
    rings = [one.x for panel in drawing.panels for one in of(panel, Point) if one.size == 13]
    assert set(rings) == {100.0, 1000.0}
    calibrated = networks_world(overfitted=network((-0.13, -0.02, 0.0), (0.3, 0.3, 0.3)))
    assert draw_cure(made_up(calibrated)).title == ""


@pytest.mark.parametrize(("evaluations", "times"), [(4_000_000, 1), (8_000_000, 2)])
def test_the_title_of_the_cost_of_a_draw_says_what_the_numbers_say(evaluations, times):
    spec = next(spec for spec in TALL_FIGURES if spec.name == "cost_of_a_draw")
    largest = {"method": "pbnn_cn", "num_points": 10_000_000}
    drawing = spec.draw(made_up(changed(tall_world(), largest, likelihood_evaluations=evaluations)))
    assert flaws(drawing) == [] and f"at most {times} times the evaluations" in drawing.title
