"""What the reason of a verdict says, and that it says it in a few lines."""

import pytest

from records.display import format_differing, format_range
from reports.claims import CLAIMS
from reports.claims.overconfidence import OVERCONFIDENCE
from reports.claims.rivals import RIVALS
from reports.judging import verdicts_of
from reports.types import Verdict
from tests.reports import test_claims, test_tall
from tests.reports.studies import row, study_of
from tests.reports.test_overconfidence import NETWORKS, usual

#: Letters of a reason with all its parts: five lines of a report.
MOST = 600


def of_networks(number: int, **replaced: list[dict]) -> Verdict:
    return next(verdict for claim, verdict in verdicts_of(OVERCONFIDENCE, usual(**replaced)) if claim.id == number)


@pytest.mark.parametrize("number", [claim.id for claim in CLAIMS])
def test_a_reason_takes_a_few_lines(number):
    assert len(test_claims.judged(test_claims.world(), number).reason) < MOST


def test_of_many_networks_a_reason_counts_and_names_who_sampled_them():
    found = of_networks(13)
    assert found.reason == (
        "It holds on 2 of 2 networks for the ECE at the chosen n; on 2 of 2 networks for the NLL there; on 1 of 2 "
        "networks for the ECE at the paper's n=100. Posteriors of weight n sampled by HMC (blackjax)."
    )
    assert sum(map(len, found.cases.values())) == 6, "the report lists every part"


def test_a_network_without_a_converged_chain_at_the_n_that_is_compared_is_named():
    assert "Left out" not in of_networks(53).reason
    stuck = NETWORKS["well trained, wide prior"]()
    for run in stuck:
        run |= {"ess_bulk_min": 47.0} if run["weight"] == "100" else {}
    reason = of_networks(53, well_trained_wide_prior=stuck).reason
    assert "Left out, as no chain there has converged: 55,000 images, 2 epochs, prior sd 10." in reason


def test_exact_methods_are_judged_where_they_converged_and_the_reason_says_how_many_of_how_many():
    runs = [
        row(method, seed, **more) for seed in range(3) for method, more in (("full_mh", {}), ("mala", {"r_hat": 1.4}))
    ]
    (verdict,) = (verdict for claim, verdict in verdicts_of(RIVALS, study_of(runs)) if claim.id == 41)
    assert "Of 2 cases (a method on a target) 1 have converged and have a reference" in verdict.reason


def test_the_clock_is_said_beside_the_processor_time():
    reason = test_tall.judged(test_tall.world(), 22).reason
    assert (
        reason.startswith("Its processor time grows as N to the power of ") and "In wall time a step takes " in reason
    )


def test_a_langevin_proposal_is_judged_with_the_number_of_steps_that_were_tried():
    reason = test_claims.judged(test_claims.world(), 15).reason
    assert "MALA η=0.4 of 4 steps, the largest" in reason and reason.count(" of 4 steps") == 2, reason


def test_settings_are_named_by_what_tells_them_apart_on_their_task():
    runs = [row("pbnn+batch_size=2+num_batches=2"), row("pbnn+batch_size=2+num_batches=5"), row("naive", task="digits")]
    few, many, alone = study_of(runs).all_settings
    assert [format_differing(one, (few, many, alone)) for one in (few, many, alone)] == ["M=2", "M=5", ""]


def test_a_range_of_one_number_is_that_number():
    assert format_range([0.976, 1.1]) == "0.976 to 1.10" and format_range([0.5, 0.5001], 2) == "0.50"
