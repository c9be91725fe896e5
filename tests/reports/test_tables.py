"""Numbers of tables against other ways to work them out, and who may win."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from records.study import StudyResults
from reports.publish import PUBLISHED
from reports.table_model import Column, Table
from reports.tables import (
    CRITERIA,
    MARGIN,
    all_tables,
    audit,
    comparison,
    coverage,
    differences,
    missing,
    why_not,
    winners,
)
from tests.reports.studies import every_outcome, row, study_of


def test_a_row_is_a_setting_on_a_backend_with_means_and_t_intervals_over_its_seeds():
    values = [0.10, 0.13, 0.11]
    rows = [row("pbnn+batch_size=2+num_batches=5", seed, ece=value) for seed, value in enumerate(values)]
    rows += [row("pbnn+batch_size=2+num_batches=5", seed, "torch-cpu") for seed in range(2)]
    rows += [row("full_mh", task="digits")]
    table = comparison(study_of(rows), "linear").frame
    assert table[["method", "setting", "backend"]].values.tolist() == [
        ["pbnn", "n=2, M=5, η=0.0072, w=N", "jax-cpu"],
        ["pbnn", "n=2, M=5, η=0.0072, w=N", "torch-cpu"],
    ]
    low, high = stats.t.interval(0.95, df=2, loc=np.mean(values), scale=stats.sem(values))
    assert table.loc[0, ["ece", "ece_low", "ece_high"]].tolist() == pytest.approx([np.mean(values), low, high])
    assert table["num_ok"].tolist() == [3, 2]


def test_runs_that_did_not_end_well_or_converge_are_counted_and_a_single_seed_has_no_interval():
    rows = [
        row("pbnn+batch_size=2", 0, r_hat=1.2, ece=0.3),
        row("pbnn+batch_size=2", 1, status="diverged", reason="no"),
        row("full_mh", 0),
        row("full_mh", 1),
    ]
    pbnn = comparison(study_of(rows), "linear").frame.iloc[0]
    assert (pbnn["num_runs"], pbnn["num_ok"], pbnn["num_converged"], pbnn["r_hat_max"]) == (2, 1, 0, 1.2)
    assert pbnn["not_ok"] == "1 diverged"
    assert pbnn["ece"] == 0.3
    assert pd.isna(pbnn["ece_low"])


def test_resolved_deviations_are_counted_and_metrics_a_task_does_not_have_are_left_out():
    rows = [row("naive+batch_size=2", seed, mean_error_resolved=seed > 0) for seed in range(3)]
    table = comparison(study_of(rows), "linear").frame
    assert table["mean_error_resolved"].tolist() == [2]
    assert table["sd_ratio_resolved"].tolist() == [0]
    assert "accuracy" not in table
    assert "rmse" in table


def test_evaluations_are_likelihoods_and_gradients_together():
    rows = [row("mala", ess_bulk_min=600.0, likelihood_evaluations=1_000_000, gradient_evaluations=2_000_000)]
    assert comparison(study_of(rows), "linear").frame["ess_per_million_evaluations"].tolist() == pytest.approx([200.0])


def test_the_audit_has_who_decides_and_the_residual_with_the_error_of_its_own_runs():
    counted = [(0.02, 0.03), (-0.01, 0.04), (0.05, 0.05)]
    decisions = {"audit_wrong_accepts": 0.04, "audit_wrong_rejects": 0.1}
    rows = [
        # Not converged: single moves say as much.
        row(
            "mh_ss+batch_size=2",
            seed,
            audit_balance_residual=residual,
            audit_balance_residual_mc=error,
            audit_mean_points=30.0,
            r_hat=1.5,
            **decisions,
        )
        for seed, (residual, error) in enumerate(counted)
    ]
    rows += [row("pbnn+batch_size=2+num_batches=5", seed, **decisions) for seed in range(3)]
    # It moves without deciding, and this one was never audited.
    rows += [row("sgld+batch_size=5", audit_wrong_accepts=0.9), row("full_mh")]
    table = audit(study_of(rows), "linear").frame.set_index("method")
    assert list(table.index) == ["mh_ss", "pbnn"]
    assert table["exactness"].tolist() == ["exact", "conditional"]
    assert table["audit_wrong_accepts"].tolist() == pytest.approx([0.04, 0.04])
    # Of 100 points: as the audit counted, and M mini-batches of n.
    assert table["points_share"].tolist() == pytest.approx([0.3, 0.1])
    ours = table.loc["mh_ss"]
    error = np.sqrt(0.03**2 + 0.04**2 + 0.05**2) / 3
    expected = stats.norm.interval(0.95, loc=0.02, scale=error)
    found = ours["audit_balance_residual_low"], ours["audit_balance_residual_high"]
    assert found == pytest.approx(expected, rel=1e-4) and ours["audit_balance_residual"] == pytest.approx(0.02)
    assert pd.isna(table.loc["pbnn", "audit_balance_residual"])
    assert "audit_linear" in {found.name for found in all_tables(study_of(rows))}


def test_differences_are_paired_with_the_full_data_chain_of_the_same_backend():
    ours, theirs = [0.30, 0.24, 0.29], [0.20, 0.19, 0.16]
    rows = [row("full_mh", seed, nll=value) for seed, value in enumerate(theirs)]
    rows += [row("pbnn+batch_size=2", seed, nll=value) for seed, value in enumerate(ours)]
    rows += [row("pbnn+batch_size=2", 0, "torch-cpu"), row("tempered+batch_size=2", target_weight=2.0, nll=9.0)]
    table = differences(study_of(rows), "linear").frame
    assert table["method"].tolist() == ["pbnn", "tempered"], "full_mh itself and torch, which has none, have no row"
    interval = stats.ttest_rel(ours, theirs).confidence_interval()
    expected = [np.mean(ours) - np.mean(theirs), interval.low, interval.high]
    assert table.loc[0, ["nll", "nll_low", "nll_high"]].tolist() == pytest.approx(expected)


def test_a_chain_that_has_not_converged_is_not_compared():
    rows = [row("full_mh", r_hat=1.3, nll=9.0), row("mala"), row("naive+batch_size=2"), row("ula", r_hat=None)]
    table = differences(study_of(rows), "linear").frame
    assert table[["method", "baseline"]].to_numpy().tolist() == [["naive", "MALA η=0.072"]]


def test_without_full_mh_on_the_posterior_mala_is_compared_with_and_without_either_nothing_is():
    tempered = row("full_mh", target_weight=2.0)
    assert not differences(study_of([tempered, row("naive+batch_size=2")]), "linear").rows
    table = differences(study_of([tempered, row("mala"), row("naive+batch_size=2")]), "linear").frame
    assert table["baseline"].tolist() == ["MALA η=0.072"] * 2


def by_criterion(rows: list[dict]) -> dict[str, pd.Series]:
    table = winners(study_of(rows)).frame
    assert table["criterion"].tolist() == list(CRITERIA)
    return {row["criterion"]: row for _, row in table.iterrows()}


def test_the_winner_has_the_most_effective_draws_for_its_cost_and_its_lead_an_interval():
    fast, slow = [400.0, 520.0, 460.0], [200.0, 210.0, 190.0]
    rows = [row("pbnn+batch_size=2", seed, ess_per_second=value) for seed, value in enumerate(fast)]
    rows += [
        row("full_mh", seed, ess_per_second=value, likelihood_evaluations=10_000) for seed, value in enumerate(slow)
    ]
    # Another setting of the winning method is no rival.
    rows += [row("pbnn+batch_size=5", seed, ess_per_second=450.0) for seed in range(3)]
    found = by_criterion(rows)
    second, evaluations = found["ess_per_second"], found["ess_per_million_evaluations"]
    assert (second["method"], second["setting"], second["rival_method"]) == (
        "pbnn",
        "n=2, M=5, η=0.0072, w=N",
        "full_mh",
    )
    assert second["value"] == pytest.approx(460.0)
    logs = np.log(fast) - np.log(slow)
    low, high = stats.t.interval(0.95, df=2, loc=logs.mean(), scale=stats.sem(logs))
    lead = second[["lead", "lead_low", "lead_high"]].tolist()
    assert lead == pytest.approx([np.exp(logs.mean()), np.exp(low), np.exp(high)])
    assert second["is_clear"]
    assert evaluations["method"] == "full_mh"
    assert evaluations["value"] == pytest.approx(1000.0 / 0.01)
    assert second["runs"].split() == [f"linear/pbnn+batch_size=2/jax-cpu/seed{seed}" for seed in range(3)]


def test_a_lead_without_a_seed_in_common_says_so_however_many_seeds_both_have():
    rows = [row("pbnn+batch_size=2", seed, ess_per_second=400.0) for seed in (0, 1, 2)]
    rows += [row("full_mh", seed, ess_per_second=200.0) for seed in (3, 4, 5)]
    table = winners(study_of(rows))
    lead = next(column for column in table.columns if column.heading == "lead")
    assert lead.cell(table.rows[0]).text == "no common seeds"


def test_a_lead_within_the_noise_of_the_seeds_is_not_clear():
    rows = [row("full_mh", seed, ess_per_second=value) for seed, value in enumerate([100.0, 300.0, 200.0])]
    rows += [row("mala", seed, ess_per_second=value) for seed, value in enumerate([190.0, 150.0, 200.0])]
    second = by_criterion(rows)["ess_per_second"]
    assert second["method"] == "full_mh"
    assert second["lead_low"] < 1 < second["lead_high"]
    assert not second["is_clear"]


@pytest.mark.parametrize(
    ("flaw", "reason"),
    [
        ({"r_hat": 1.06}, "not converged"),
        ({"r_hat": None}, "not converged"),
        ({"mean_error": 0.3, "mean_error_resolved": True}, "biased"),
        ({"sd_ratio": 0.8, "sd_ratio_resolved": True}, "biased"),
        ({"sd_ratio_mc": 0.15}, "too short to tell its bias"),
        ({"mean_error_mc": None}, "too short to tell its bias"),
        ({"reference_usable": False}, "without a reference"),
        ({"status": "failed"}, "incomplete"),
        ({"status": "missing"}, "incomplete"),
        ({"status": "diverged", "reason": "no", "target_weight": 100.0}, "diverged"),
    ],
)
def test_a_faster_setting_with_a_flaw_in_one_seed_does_not_win(flaw, reason):
    fast = [row("sgld+batch_size=2", seed, ess_per_second=9999.0, likelihood_evaluations=1) for seed in range(2)]
    fast.append(row("sgld+batch_size=2", 2, **({"ess_per_second": 9999.0} | flaw)))
    right = [row("full_mh", seed) for seed in range(3)]
    assert {winner["method"] for winner in by_criterion(fast + right).values()} == {"full_mh"}
    assert why_not(study_of(fast).all_settings[0]) == reason
    # Without the flaw it wins.
    healed = [*fast[:2], row("sgld+batch_size=2", 2, ess_per_second=9999.0, likelihood_evaluations=1)]
    assert {winner["method"] for winner in by_criterion(healed + right).values()} == {"sgld"}


def test_a_bias_that_is_resolved_but_below_the_margin_does_not_disqualify():
    rows = [row("pbnn+batch_size=2", mean_error=0.9 * MARGIN, mean_error_resolved=True)]
    assert why_not(study_of(rows).all_settings[0]) is None


def test_settings_with_other_targets_do_not_compete_and_where_nobody_can_win_the_reasons_stand():
    rows = [row("full_mh"), row("naive+batch_size=2", r_hat=2.0), row("mala", r_hat=2.0)]
    rows += [row("tempered+batch_size=5", target_weight=5.0, ess_per_second=9999.0)]
    table = winners(study_of(rows)).frame
    assert table["target"].tolist() == ["posterior, w = N = 100"] * 2
    assert table["method"].tolist() == ["full_mh"] * 2
    rows[0]["mean_error"], rows[0]["mean_error_resolved"] = 1.0, True
    table = winners(study_of(rows)).frame
    assert table["left_out"].tolist() == ["1 biased, 2 not converged"] * 2
    assert table["num_candidates"].tolist() == [0, 0]


def test_what_is_missing_is_reported_with_its_reason_and_its_runs():
    study = study_of(every_outcome())
    table = missing(study).frame.set_index("status")
    assert table["reason"].to_dict() == {
        "skipped": "no CUDA device",
        "diverged": "chain 0 became non-finite",
        "failed": "MemoryError: no",
        "missing": "not run yet",
    }
    assert table.loc["failed", "runs"] == "linear/naive+batch_size=2/jax-cpu/seed0"
    unusable = row("mala", reference_usable=False, reference_reason="it did not converge")
    assert missing(study_of([unusable])).frame["status"].tolist() == ["no reference"]
    counts = coverage(study).frame.set_index(["method", "backend"])
    assert counts.loc[("full_mh", "jax-cpu"), ["runs", "ok", "converged"]].tolist() == [3, 3, 3]
    assert counts.loc[("tempered", "jax-cpu"), ["ok", "converged"]].tolist() == [1, 0]
    assert counts.loc[("sgld", "jax-cpu"), "diverged"] == 1
    assert counts["runs"].sum() == len(study.summary)


def test_a_study_of_which_nothing_ran_has_tables_all_the_same():
    rows = [row("full_mh", seed, status="missing", reason="not run yet") for seed in range(2)]
    tables = all_tables(study_of(rows))
    assert {table.name for table in tables} == {"missing", "coverage", "comparison_linear"}


def test_no_text_of_a_csv_is_a_formula_and_what_needs_quotes_has_them():
    texts = ["=HYPERLINK(1)", "+1", "-1", "@x", 'quoted "text", with a comma\nand a line', "plain"]
    table = Table("a", "A table", [{"reason": text, "value": -1.5} for text in texts], [Column("reason", "reason")])
    read = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [line["reason"] for line in read] == [*(f"'{text}" for text in texts[:4]), *texts[4:]]
    assert {line["value"] for line in read} == {"-1.5"}, "a negative number is no formula"


def test_the_tables_of_the_published_studies_have_the_numbers_that_were_published():
    """Worked out again from the summary, number by number."""
    for folder in PUBLISHED.glob("*/tables"):
        made = {table.name: table for table in all_tables(StudyResults.load(folder.parent))}
        for path in folder.glob("*.csv"):
            if path.stem in made:
                kept, found = pd.read_csv(path), pd.read_csv(io.StringIO(made[path.stem].to_csv()))
                numbers = [name for name in kept.select_dtypes("number") if name in found]
                assert numbers and len(kept) == len(found)
                pd.testing.assert_frame_equal(found[numbers], kept[numbers], rtol=1e-9, obj=str(path))
