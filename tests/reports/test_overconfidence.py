"""The questions of the study `calibration`, on made-up networks whose answers are known."""

import pytest

from records.study import StudyResults
from reports.claims.overconfidence import OVERCONFIDENCE, network_text
from reports.contents import contents_of
from reports.figures.calibration import draw_cure
from reports.judging import FRAGILE, judge_claims
from reports.types import IN_PART, INCONCLUSIVE, NOT_ASKED, NOT_REPRODUCED, PREMISE_NOT_MET, REPRODUCED, NotAsked
from tests.reports.studies import row, study_of

NARROW_PRIOR, WIDE_PRIOR = 1.0, 10.0
SEEDS = (40, 41, 42)


def network(gaps, nll, prior=NARROW_PRIOR, is_longer=True, temperature=0.3, spread=0.001, **changed) -> list[dict]:
    """The runs of a network: a confidence gap and an NLL for n = 100, n = 1,000 and all data."""
    points, epochs = (10_000, 60) if is_longer else (55_000, None)
    variant = "mnist" + (f"-scale{prior:g}" if prior != 1 else "") + ("-points10000-epochs60" if is_longer else "")
    rows = []
    for place, seed in enumerate(SEEDS):
        shared = {"variant": variant, "num_points": points, "num_epochs": epochs, "prior_scale": prior}
        noise = spread * (place - 1)
        for weight, gap, loss in zip((100.0, 1000.0, float(points)), gaps, nll, strict=True):
            label = f"blackjax_hmc+weight={'data' if weight == points else f'{weight:g}'}"
            numbers = {"confidence_gap": gap + noise, "ece": abs(gap) + 0.002 + noise, "nll": loss + noise}
            numbers |= {"validation_ece": abs(gap) + 0.003 + noise, "target_weight": weight}
            run = row(label, seed, task="mnist", **(numbers | changed)) | shared
            rows.append(run | {"run": f"{variant}/{run['label']}/jax-cpu/seed{seed}"} | _weight(weight, points))
        scaled = row(
            "temperature", seed, task="mnist", nll=temperature + noise, ece=0.01, r_hat=None, ess_bulk_min=None
        )
        rows.append(scaled | shared | {"run": f"{variant}/temperature/jax-cpu/seed{seed}"} | _weight(points, points))
    return rows


def _weight(weight: float, points: int) -> dict:
    return {"target_weight": float(weight), "weight": "data" if weight == points else f"{weight:g}"}


#: As on MNIST: overfitted networks are overconfident, the more so the wider the prior; the well-trained are not.
NETWORKS = {
    "overfitted": lambda **more: network((-0.13, 0.002, 0.035), (0.34, 0.24, 0.30), temperature=0.26, **more),
    "overfitted, wide prior": lambda **more: network(
        (0.004, 0.037, 0.055), (0.28, 0.52, 0.92), prior=WIDE_PRIOR, temperature=0.26, **more
    ),
    "well trained": lambda **more: network((-0.126, -0.025, 0.004), (0.33, 0.22, 0.215), is_longer=False, **more),
    "well trained, wide prior": lambda **more: network(
        (-0.018, -0.006, -0.003), (0.229, 0.217, 0.216), prior=WIDE_PRIOR, is_longer=False, **more
    ),
}


def usual(**replaced: list[dict]) -> StudyResults:
    made = {name: replaced.get(name.replace(", ", "_").replace(" ", "_")) or make() for name, make in NETWORKS.items()}
    return study_of([run for runs in made.values() for run in runs])


def outcomes(study: StudyResults) -> dict[int, str]:
    return {result.claim.id: result.verdict.outcome for result in judge_claims(OVERCONFIDENCE, study)}


def test_the_questions_are_answered_as_the_networks_were_made():
    study = usual()
    assert outcomes(study) == {13: IN_PART, 51: REPRODUCED, 52: REPRODUCED, 53: REPRODUCED, 54: IN_PART}
    results = {result.claim.id: result for result in judge_claims(OVERCONFIDENCE, study)}
    # With prior sd 1 the chosen n has 0.24 against 0.26 of temperature scaling, with prior sd 10 it has 0.28.
    assert "It holds for 10,000 images, 60 epochs, prior sd 1" in results[54].verdict.condition
    assert results[54].verdict.effect.value.mean == pytest.approx(0.24 - 0.26)
    assert "0.035" in results[51].verdict.reason and "prior sd 10" in results[51].verdict.reason
    assert results[53].verdict.effect.value.mean == pytest.approx(0.004 + 0.13)


@pytest.mark.parametrize(
    ("replaced", "number", "outcome"),
    [
        # One overfitted network that is calibrated, or all of them.
        ({"overfitted": network((-0.13, -0.02, 0.0), (0.3, 0.3, 0.3))}, 51, IN_PART),
        ({"overfitted": network((-0.13, -0.02, 0.011), (0.3, 0.3, 0.3), spread=0.005)}, 51, INCONCLUSIVE),
        ({"well_trained": network((-0.1, -0.02, 0.05), (0.3, 0.3, 0.3), is_longer=False)}, 52, IN_PART),
        # The wider prior is less confident at n = 100, with both trainings.
        (
            {
                "overfitted": network((0.2, 0.002, 0.035), (0.34, 0.24, 0.30)),
                "well_trained": network((0.2, -0.02, 0.0), (0.3, 0.3, 0.3), is_longer=False),
            },
            53,
            NOT_REPRODUCED,
        ),
        # As confident as with the narrow prior, or with more noise than that makes.
        ({"well_trained": network((0.2, -0.02, 0.0), (0.3, 0.3, 0.3), is_longer=False)}, 53, IN_PART),
        (
            {"well_trained": network((-0.02, -0.02, 0.0), (0.3, 0.3, 0.3), is_longer=False, spread=0.01)},
            53,
            INCONCLUSIVE,
        ),
        # Every well-trained network is overconfident; one is perhaps.
        (
            {
                "well_trained": network((-0.1, -0.02, 0.05), (0.3, 0.3, 0.3), is_longer=False),
                "well_trained_wide_prior": network(
                    (-0.01, 0.02, 0.06), (0.3, 0.3, 0.3), prior=WIDE_PRIOR, is_longer=False
                ),
            },
            52,
            NOT_REPRODUCED,
        ),
        ({"well_trained": network((-0.1, -0.02, 0.01), (0.3, 0.3, 0.3), is_longer=False)}, 52, INCONCLUSIVE),
        (
            {"overfitted": network((-0.13, 0.002, 0.035), (0.34, 0.24, 0.30), temperature=0.2)},
            54,
            NOT_REPRODUCED,
        ),
        (
            {"overfitted_wide_prior": network((0.004, 0.03, 0.05), (0.2, 0.5, 0.9), prior=10.0, temperature=0.26)},
            54,
            REPRODUCED,
        ),
    ],
)
def test_other_numbers_give_other_answers(replaced, number, outcome):
    assert outcomes(usual(**replaced))[number] == outcome


def one_seed(name: str, weight: str, seed: int = 42, **values: float) -> StudyResults:
    """The usual networks with hardly any noise, but for other values in one seed."""
    made = {network: make(spread=1e-4) for network, make in NETWORKS.items()}
    hits = [
        run for run in made[name] if run["seed"] == seed and run["weight"] == weight and run["method"] != "temperature"
    ]
    assert len(hits) == 1
    hits[0] |= values
    return study_of([run for runs in made.values() for run in runs])


def test_a_loss_across_that_of_temperature_scaling_decides_nothing():
    close = network((-0.13, 0.002, 0.035), (0.34, 0.2601, 0.30), temperature=0.26)
    for run, noise in zip([run for run in close if run["weight"] == "1000"], (-0.02, 0.0, 0.02), strict=True):
        run["nll"] += noise
    wide = network((0.004, 0.03, 0.05), (0.2, 0.5, 0.9), prior=WIDE_PRIOR, temperature=0.26)
    assert outcomes(usual(overfitted=close, overfitted_wide_prior=wide))[54] == INCONCLUSIVE


@pytest.mark.parametrize(
    ("number", "study", "answer"),
    [
        (51, one_seed("overfitted", "data", confidence_gap=-0.2), "yes"),
        (52, one_seed("well trained, wide prior", "data", confidence_gap=0.3), "yes"),
        (53, one_seed("overfitted, wide prior", "100", confidence_gap=-0.5), "yes"),
        (54, one_seed("overfitted", "1000", nll=0.9), "in part"),
    ],
)
def test_a_single_seed_that_speaks_against_it_is_named(number, study, answer):
    claim = next(claim for claim in OVERCONFIDENCE if claim.id == number)
    (result,) = judge_claims([claim], study, contents_of("calibration").words)
    assert result.verdict.outcome == INCONCLUSIVE, result.verdict.reason
    assert result.robustness == FRAGILE
    assert f"he answer is {answer} without seed 42" in result.fragility


def test_without_an_overconfident_network_there_is_nothing_to_cure():
    calibrated = study_of(
        network((-0.13, -0.02, 0.0), (0.3, 0.3, 0.3)) + network((-0.1, -0.01, 0.0), (0.3, 0.3, 0.3), is_longer=False)
    )
    found = outcomes(calibrated)
    assert (found[13], found[51], found[54]) == (PREMISE_NOT_MET, NOT_REPRODUCED, PREMISE_NOT_MET)


def test_chains_that_have_not_converged_are_no_evidence():
    study = usual(overfitted=network((-0.13, 0.0, 0.035), (0.34, 0.24, 0.3), r_hat=1.2))
    assert outcomes(study)[51] == INCONCLUSIVE


def test_a_study_without_networks_on_mnist_is_not_asked():
    assert set(outcomes(study_of([row("full_mh")])).values()) == {NOT_ASKED}
    with pytest.raises(NotAsked):
        draw_cure(study_of([row("full_mh")]))


def test_the_figure_has_two_panels_for_each_training_and_says_which_premise_is_met():
    drawing = draw_cure(usual())
    titles = [panel.title for panel in drawing.panels]
    assert titles == [
        "10,000 images, 60 epochs: overconfident",
        "10,000 images, 60 epochs",
        "55,000 images, 2 epochs: not overconfident",
        "55,000 images, 2 epochs",
    ]
    assert len(drawing.caption.split()) <= 40
    assert drawing.title.startswith("Networks trained to overfit are overconfident")
    assert any("chosen n=1,000" in line for line in drawing.numbers)
    assert any("chosen n=100." in line for line in drawing.numbers)
    assert draw_cure(usual(overfitted=network((-0.13, -0.02, 0.0), (0.3, 0.3, 0.3)))).title == ""


def test_networks_are_named_in_words():
    names = {network_text(one) for one in usual().all_settings}
    assert "55,000 images, 2 epochs, prior sd 10" in names


def test_the_studies_of_networks_ask_their_own_questions():
    assert [claim.id for claim in contents_of("calibration").claims] == [13, 51, 52, 53, 54]
    assert [spec.name for spec in contents_of("calibration").figures] == ["cure", "convergence", "coverage"]
    assert [claim.id for claim in contents_of("layers").claims] == [20]
