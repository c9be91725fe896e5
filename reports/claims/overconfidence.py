"""The study `calibration`: which networks on MNIST are overconfident given all data, and what n does about it."""

import itertools
from collections.abc import Callable, Sequence

from implementations.tasks import TASKS
from records.display import format_given, format_number, format_range, format_value
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.claims.calibration import CALIBRATION, PAPER_N, Network, network_of
from reports.claims.rules import RULES, Rule
from reports.evidence import ended_well, full_data_of, settings
from reports.questions import Question, lies_above, lies_below
from reports.types import (
    NOT_REPRODUCED,
    PREMISE_NOT_MET,
    REPRODUCED,
    Claim,
    Evidence,
    NotAsked,
    NothingToShow,
    Verdict,
)
from reports.verdicts import Part, guarded, judge_parts


def networks(study: StudyResults) -> list[str]:
    """The variants of mnist, in the order of the study."""
    found = [one for one in study.variants if study.settings(variant=one, task="mnist")]
    if not found:
        raise NotAsked("Asked in the study calibration: this one has no network on MNIST")
    return found


def training_of(setting: SettingRuns) -> str:
    """``10,000 images, 60 epochs``"""
    training = TASKS["mnist"].training
    assert training is not None, "it has a network"
    return f"{setting['num_points']:,} images, {setting['num_epochs'] or training.num_epochs} epochs"


def network_text(setting: SettingRuns) -> str:
    return f"{training_of(setting)}, prior sd {setting['prior_scale']:g}"


def _is_trained_longer(setting: SettingRuns) -> bool:
    return setting["num_epochs"] is not None


def _full_data(study: StudyResults, is_wanted: Callable[[SettingRuns], bool]) -> list[SettingRuns]:
    found = [full for full in (full_data_of(study, variant) for variant in networks(study)) if is_wanted(full)]
    if not found:
        raise NotAsked("The study has no such network")
    return found


def _gap(full: SettingRuns) -> Evidence:
    return Evidence(f"confidence gap given all data, {network_text(full)}", full.estimate("confidence_gap"))


def _judge_gaps(
    study: StudyResults,
    rule: Rule,
    found: Sequence[SettingRuns],
    question: Callable[[Evidence, float], Question],
    conclusions: dict[str, str],
) -> Verdict:
    """One part for each network: on which side of the margin is its confidence gap?"""
    ends = (end(found, key=lambda one: one.mean("confidence_gap")) for end in (min, max))
    return judge_parts(
        [Part.of(f"for {network_text(one)}", question(_gap(one), rule["overconfident"])) for one in found],
        found,
        numbers="confidence gap given all data "
        + " to ".join(f"{format_value(one, 'confidence_gap')} ({network_text(one)})" for one in ends),
        conclusions=conclusions,
        alpha=rule.alpha(study),
    )


@guarded
def _overfitted_is_overconfident(study: StudyResults) -> Verdict:
    return _judge_gaps(
        study,
        RULES[51],
        _full_data(study, _is_trained_longer),
        lies_above,
        {REPRODUCED: "All of them are overconfident", NOT_REPRODUCED: "None of them is overconfident"},
    )


@guarded
def _well_trained_is_not(study: StudyResults) -> Verdict:
    return _judge_gaps(
        study,
        RULES[52],
        _full_data(study, lambda one: not _is_trained_longer(one)),
        lies_below,
        {REPRODUCED: "None of them is overconfident", NOT_REPRODUCED: "All of them are overconfident"},
    )


@guarded
def _prior_decides(study: StudyResults) -> Verdict:
    by_training: dict[str, list[SettingRuns]] = {}
    lacking = []
    for variant in networks(study):
        network = network_of(study, variant)
        lacking += [] if network.of_paper else [network_text(network.full)]
        for one in network.of_paper:
            by_training.setdefault(training_of(one), []).append(one)
    families = {
        training: sorted(family, key=lambda one: float(one["prior_scale"]))
        for training, family in by_training.items()
        if len(family) > 1
    }
    if not families:
        raise NothingToShow(f"Missing runs: no two networks differ in the prior alone at n = {PAPER_N}")
    parts = [
        Part.of(
            f"with {training}",
            *(
                lies_above(
                    Evidence(
                        f"confidence gap at n={PAPER_N}, {training}, prior sd {wide['prior_scale']:g} minus "
                        f"{narrow['prior_scale']:g}",
                        wide.difference(narrow, "confidence_gap"),
                    ),
                    0,
                )
                for narrow, wide in itertools.pairwise(family)
            ),
        )
        for training, family in families.items()
    ]
    return judge_parts(
        parts,
        [one for family in families.values() for one in family],
        numbers=f"confidence gap at n={PAPER_N} "
        + "; ".join(
            f"{' to '.join(format_number(one.mean('confidence_gap'), 2) for one in family)} from prior sd "
            f"{' to '.join(format_given(one['prior_scale']) for one in family)} with {training}"
            for training, family in families.items()
        )
        + (f". Left out, as no chain there has converged: {'; '.join(lacking)}" if lacking else ""),
        conclusions={
            REPRODUCED: "The wider the prior, the more confident the network at the same n",
            NOT_REPRODUCED: "A wider prior does not make the network more confident",
        },
        alpha=RULES[53].alpha(study),
    )


def overconfident(study: StudyResults, rule: Rule) -> list[Network]:
    """The networks whose confidence gap given all data lies above the margin."""
    found = [network_of(study, variant) for variant in networks(study)]
    return [one for one in found if _premise(one, rule).answer.at(rule.alpha(study))]


def _premise(network: Network, rule: Rule) -> Part:
    return Part.of("where full data are overconfident", lies_above(_gap(network.full), rule["overconfident"]))


def scaled_of(study: StudyResults, network: Network) -> SettingRuns:
    """Temperature scaling of the same network: one draw, to which no gate applies."""
    return settings(study, ended_well, variant=network.full["variant"], method="temperature")[0]


@guarded
def _n_beats_temperature(study: StudyResults) -> Verdict:
    rule = RULES[54]
    found = overconfident(study, rule)
    judged = found or [network_of(study, networks(study)[0])]
    pairs = [(one, scaled_of(study, one)) for one in judged]
    nll = [
        Evidence(
            f"NLL at n={format_given(one.chosen['target_weight'])} minus temperature scaling, {network_text(one.full)}",
            one.chosen.difference(scaled, "nll"),
        )
        for one, scaled in pairs
    ]
    return judge_parts(
        [
            Part.of(f"for {network_text(one.full)}", lies_below(evidence, 0))
            for one, evidence in zip(judged, nll, strict=True)
        ],
        [one for network, scaled in pairs for one in (network.full, network.chosen, scaled)],
        premise=_premise(judged[0], rule),
        numbers=f"NLL minus that of temperature scaling {format_range((one.value.mean or 0.0 for one in nll), 2)}",
        conclusions={
            REPRODUCED: "The n chosen on validation images beats temperature scaling",
            NOT_REPRODUCED: "Temperature scaling, which needs no chain, is better",
            PREMISE_NOT_MET: "No network is overconfident given all data",
        },
        more=[
            Evidence(f"ECE of {name}, {network_text(network.full)}", one.estimate("ece"))
            for network, scaled in pairs
            for one, name in (
                (network.chosen, f"n={format_given(network.chosen['target_weight'])}"),
                (scaled, "temperature scaling"),
            )
        ],
        alpha=rule.alpha(study),
    )


OVERCONFIDENCE = (
    *(claim for claim in CALIBRATION if claim.id == 13),
    *(
        Claim(
            id=number,
            short=short,
            statement=statement,
            place="",
            rule=RULES[number].text,
            judge=judge,
            registered=RULES[number],
        )
        for number, short, statement, judge in (
            (
                51,
                "Networks trained to overfit are overconfident",
                "Given all data, a network that was trained to overfit is overconfident, whatever the prior.",
                _overfitted_is_overconfident,
            ),
            (
                52,
                "Networks with their task's default training are not overconfident",
                "Given all data, a network with its task's default training is not overconfident, whatever the prior.",
                _well_trained_is_not,
            ),
            (
                53,
                "The wider the prior, the more confident the network",
                "At the same n, a network is the more confident the wider its prior.",
                _prior_decides,
            ),
            (
                54,
                "The n chosen on validation beats temperature scaling",
                "Where a network is overconfident, the n chosen on validation images predicts better than temperature "
                "scaling.",
                _n_beats_temperature,
            ),
        )
    ),
)
