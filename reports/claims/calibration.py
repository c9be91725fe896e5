"""Figure 3: the mini-batch size as a calibration parameter, and what it does to accuracy."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from scipy.special import stdtrit

from implementations.infrastructure.files import Damaged
from metrics.seeds import ALPHA, Estimate, paired_difference, with_shared_error
from records.display import (
    format_estimate,
    format_given,
    format_name,
    format_number,
    format_value,
    method_name,
    task_name,
)
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.calibrate import batch_settings, choose
from reports.claims.rules import RULES, Rule
from reports.evidence import full_data_of, settings
from reports.questions import Question, lies_above, lies_below, lies_within
from reports.types import (
    IN_PART,
    NOT_REPRODUCED,
    PREMISE_NOT_MET,
    REPRODUCED,
    Claim,
    Evidence,
    NotAsked,
    NothingToShow,
    Verdict,
)
from reports.verdicts import Part, guarded, judge_parts, verdict

#: Accuracies are given in per cent, their differences in percentage points.
POINTS = "percentage points"
#: The paper's n on MNIST.
PAPER_N = 100
#: Methods whose target of weight n is PBNN's, the nearest to the paper's first; the last two sample it exactly.
SAME_TARGET = ("pbnn", "pbnn_cn", "pbnn_cv", "mala", "blackjax_hmc")
#: Images of MNIST: those to test with, those to train with, and how many of the latter each seed keeps for validation.
NUM_TEST, NUM_TRAIN, NUM_VALIDATION = 10_000, 60_000, 5_000
#: Proper scores beside the ECE, by task.
SCORES = {"nll": "NLL", "crps": "CRPS", "brier": "Brier score"}
#: How an n came about, where it is not the paper's.
CHOSEN = "chosen on validation data"
SHOWN = {"ece": "ECE", "nll": "NLL", "crps": "CRPS"}


def _premise(full: SettingRuns, rule: Rule) -> Part:
    evidence = Evidence("confidence gap of full data", full.estimate("confidence_gap"))
    return Part.of("where full data are overconfident", lies_above(evidence, rule["overconfident"]))


def _is_lower(one: SettingRuns, full: SettingRuns, column: str, name: str) -> Question:
    evidence = Evidence(f"{name} at {_n(one)}, minus full data", one.difference(full, column))
    return lies_below(evidence, 0)


def _n(setting: SettingRuns) -> str:
    """``n=5``; of a method whose target's weight is not its batch size, that weight."""
    return f"n={format_given(setting['target_weight'])}"


def _scores(found: Sequence[SettingRuns], full: SettingRuns) -> list[Evidence]:
    """Every number beside those that decide: proper scores against full data, and the curve over n."""
    differences = [
        Evidence(f"{name} at {_n(one)}, minus full data", one.difference(full, column))
        for column, name in SCORES.items()
        for one in found
        if one.has(column)
    ]
    curve = [
        Evidence(f"{name} at {_n(one)}", one.estimate(column))
        for column, name in (("ece", "ECE"), ("ece_by_chance", "ECE by chance"), ("confidence_gap", "confidence gap"))
        for one in [*found, full]
        if one.has(column)
    ]
    return [*differences, *curve]


def _course(full: SettingRuns, *others: SettingRuns) -> str:
    """``ECE 0.08, NLL 0.3, CRPS 0.04 with full data; …``"""
    texts = [
        ", ".join(f"{score} {format_number(one.mean(column), 2)}" for column, score in SHOWN.items() if one.has(column))
        + f" {name}"
        for one, name in ((full, "with full data"), *((one, f"at {_n(one)}") for one in dict.fromkeys(others)))
    ]
    return "; ".join(texts)


@guarded
def _n_calibrates_regression(study: StudyResults) -> Verdict:
    rule = RULES[6]
    full = full_data_of(study, "regression")
    choice = choose(batch_settings(study, "regression", "pbnn"))
    of_paper = next((one for one in choice.candidates if one["batch_size"] == rule["paper_n"]), None)
    if of_paper is None or len(choice.candidates) < 2:
        raise NothingToShow(f"Missing runs: PBNN on regression at n = {rule['paper_n']} and at another n")
    judged = [(of_paper, "the paper's"), (choice.best, CHOSEN)]
    parts = [
        Part.of(f"for the {name} at {_n(one)} ({origin})", _is_lower(one, full, column, name), topic=f"for the {name}")
        for one, origin in judged
        for column, name in (("ece", "ECE"), ("nll", "NLL"), ("crps", "CRPS"))
    ]
    return judge_parts(
        parts,
        [full, *choice.candidates],
        premise=_premise(full, rule),
        numbers=_course(full, of_paper, choice.best),
        conclusions={
            REPRODUCED: "Full data are overconfident and smaller mini-batches better, in ECE and proper scores",
            NOT_REPRODUCED: "Smaller mini-batches are no better calibrated",
            PREMISE_NOT_MET: "Full data are not overconfident here",
        },
        effect=parts[3].questions[0].evidence,
        more=_scores(choice.candidates, full),
        alpha=rule.alpha(study),
    )


def _mnist(study: StudyResults) -> tuple[SettingRuns, SettingRuns]:
    """PBNN as in the paper, and full data."""
    found = settings(study, variant="mnist", method="pbnn", batch_size=100, num_batches=10, weight="batch")
    penalised = max(found, key=lambda one: (len(one.converged), one["num_steps"], one["label"]))
    return penalised, full_data_of(study, "mnist")


def _held_out(study: StudyResults, ours: SettingRuns, theirs: SettingRuns) -> Estimate:
    """Paired difference of the accuracies on images that trained nothing, each of which weighs the same.

    These are the test set, which all seeds share, and the images that each seed draws for validation. Seeds differ in
    the latter, so that their spread has that part of the sampling error in it; the rest is added. With d the share of
    images that one has right and the other wrong it is sqrt(d / n) for n images that all seeds share; those of
    validation come from one pool, which as many seeds as one likes do not leave.
    """
    both = sorted(ours.present("accuracy").keys() & theirs.present("accuracy").keys())
    num_drawn = NUM_VALIDATION * len(both)
    drawn = num_drawn / (num_drawn + NUM_TEST)

    def accuracy(setting: SettingRuns) -> dict[int, float | None]:
        test, validation = setting.values("accuracy"), setting.values("validation_accuracy")
        return {
            seed: None if one is None or other is None else (1 - drawn) * one + drawn * other
            for (seed, one), other in zip(test.items(), validation.values(), strict=True)
        }

    found = ours.behind(paired_difference(accuracy(ours), accuracy(theirs)), theirs)
    share = _share_of_different(study, ours, theirs)
    return with_shared_error(found, math.sqrt(share * (drawn**2 / NUM_TRAIN + (1 - drawn) ** 2 / NUM_TEST)))


def _share_of_different(study: StudyResults, ours: SettingRuns, theirs: SettingRuns) -> float:
    """Of test images that one has right and the other wrong.

    Where the runs' files are not there it is that of independent errors, which is more.
    """
    shares = []
    for row in ours.evidence:
        partner = next((one for one in theirs.evidence if one["seed"] == row["seed"]), None)
        if partner is None:
            continue
        try:
            first, second = (study.curves(one["run"])["is_right"] for one in (row, partner))
        except (Damaged, KeyError, OSError):
            shares.append(sum(one["accuracy"] * (1 - one["accuracy"]) for one in (row, partner)))
        else:
            shares.append(float((first != second).mean()))
    return sum(shares) / len(shares) if shares else 0.0


def _beside_the_papers(paper: float, on_test: Estimate, share: float) -> str:
    """The paper's difference is of one network on one test set: is it such as pairs of that kind show here?"""
    if on_test.mean is None or on_test.error is None:
        return f"The paper's own difference is {format_given(paper)}."
    of_networks = on_test.error * math.sqrt(on_test.num_seeds)
    # One more network, when the mean and the spread of its like come from num_seeds of them.
    of_another = stdtrit(on_test.num_seeds - 1, 1 - ALPHA) * math.sqrt(1 + 1 / on_test.num_seeds)
    spread = of_another * math.hypot(of_networks, 100 * math.sqrt(share / NUM_TEST))
    low, high = on_test.mean - spread, on_test.mean + spread
    return (
        f"The paper's own difference of {format_given(paper)}, of one network on one test set, lies "
        f"{'inside' if low <= paper <= high else 'outside'} what nineteen in twenty such pairs show here, "
        f"{format_number(low, 2)} to {format_number(high, 2)}."
    )


def _least_margin(difference: Estimate) -> str:
    """The end of the interval that lies farther from 0: at this margin two one-sided tests still hold."""
    if difference.low is None or difference.high is None:
        return ""
    least = format_number(max(-difference.low, difference.high), 2)
    return f". The smallest margin at which they count as the same is {least}"


@guarded
def _mnist_accuracy_is_close(study: StudyResults) -> Verdict:
    rule = RULES[7]
    penalised, full = _mnist(study)
    difference = _held_out(study, penalised, full).scaled(100)
    gap = Evidence("accuracy of PBNN minus full data, held-out images", difference, POINTS)
    question = lies_within(gap, -rule["same_accuracy"], rule["same_accuracy"])
    ours, theirs = (one.estimate("accuracy").scaled(100) for one in (penalised, full))
    on_test = penalised.difference(full, "accuracy").scaled(100)
    share = _share_of_different(study, penalised, full)
    numbers = (
        f"{format_estimate(ours)} % with {format_name(penalised)} and {format_estimate(theirs)} % with full data on "
        f"the test set; paired difference on all held-out images {format_estimate(difference)} {POINTS}, with their "
        f"sampling error{_least_margin(difference)}. {_beside_the_papers(rule['paper_difference'], on_test, share)}"
    )
    return verdict(
        [question],
        [penalised, full],
        conclusions={
            True: f"Accuracies are within {rule['same_accuracy']:g} percentage point of each other: {numbers}",
            False: f"Accuracies differ by more than {rule['same_accuracy']:g} percentage point: {numbers}",
        },
        more=[
            Evidence("accuracy of PBNN", ours, "%"),
            Evidence("accuracy with full data", theirs, "%"),
            Evidence("accuracy of PBNN minus full data, on this one test set", on_test, POINTS),
        ],
        alpha=rule.alpha(study),
    )


@guarded
def _mnist_is_less_overconfident(study: StudyResults) -> Verdict:
    rule = RULES[8]
    penalised, full = _mnist(study)
    shift = Evidence("confidence gap of PBNN minus full data", penalised.difference(full, "confidence_gap"))
    parts = [
        Part.of("for the ECE", lies_below(shift, 0), _is_lower(penalised, full, "ece", "ECE")),
        Part.of("for the NLL", _is_lower(penalised, full, "nll", "NLL")),
    ]
    numbers = (
        f"confidence gap {format_value(full, 'confidence_gap')} with full data, "
        f"{format_value(penalised, 'confidence_gap')} with PBNN (+ is overconfident); {_course(full, penalised)}"
    )
    return judge_parts(
        parts,
        [penalised, full],
        premise=_premise(full, rule),
        numbers=numbers,
        conclusions={
            REPRODUCED: "PBNN is less overconfident than full data, and better calibrated",
            NOT_REPRODUCED: "PBNN is no better calibrated than full data",
            PREMISE_NOT_MET: "The full-data posterior of this well-trained network is not overconfident, so there is "
            "nothing to fix",
        },
        more=_scores([penalised, *_other_sizes(study, penalised)], full),
        alpha=rule.alpha(study),
    )


def _other_sizes(study: StudyResults, used: SettingRuns) -> list[SettingRuns]:
    """The same task at other batch sizes."""
    return [one for one in batch_settings(study, "mnist", "pbnn") if one["batch_size"] != used["batch_size"]]


@guarded
def _n_cures_an_overfitted_network(study: StudyResults) -> Verdict:
    """Over every network that was trained for longer than its task asks, and is overconfident for it."""
    rule = RULES[13]
    networks = [network_of(study, variant) for variant in trained_longer(study)]
    overconfident = [one for one in networks if _premise(one.full, rule).answer.at(rule.alpha(study))]
    judged = overconfident or networks[:1]
    parts = [
        Part.of(
            f"for the {name} at {_n(one)} ({origin}{_sampler(one)})"
            + (f" on {task_name(network.full)}" if len(judged) > 1 else ""),
            _is_lower(one, network.full, column, name),
        )
        for network in judged
        for one, origin, column, name in (
            (network.chosen, CHOSEN, "ece", "ECE"),
            (network.chosen, CHOSEN, "nll", "NLL"),
            *((one, "the paper's", "ece", "ECE") for one in network.of_paper),
        )
    ]
    found = judge_parts(
        parts,
        [setting for one in judged for setting in (one.full, *one.candidates)],
        premise=_premise(judged[0].full, rule),
        numbers="; ".join(
            f"on {task_name(one.full)} full data have a confidence gap of "
            f"{format_number(one.full.mean('confidence_gap'), 2)}; {_course(one.full, one.chosen, *one.of_paper)}"
            for one in judged
        ),
        conclusions={
            REPRODUCED: "Full data are overconfident, and a smaller n is the cure, in ECE and NLL",
            NOT_REPRODUCED: "Full data are overconfident, and no smaller n is better",
            PREMISE_NOT_MET: "Full data are not overconfident here",
        },
        more=[number for one in networks for number in _scores(one.candidates, one.full)],
        alpha=rule.alpha(study),
    )
    if len(judged) == 1 or found.outcome != IN_PART:
        return found
    # Of many networks a reason counts; the report lists every part beside it.
    answers = [(part.name, part.answer.at(rule.alpha(study))) for part in parts]
    counts = [
        f"{sum(answer is True for answer in kind)} of {len(kind)} networks for the {name}"
        for name, kind in (
            ("ECE at the chosen n", [answer for part, answer in answers if CHOSEN in part and "ECE" in part]),
            ("NLL there", [answer for part, answer in answers if CHOSEN in part and "NLL" in part]),
            (f"ECE at the paper's n={PAPER_N}", [answer for part, answer in answers if CHOSEN not in part]),
        )
        if kind
    ]
    methods = ", ".join(dict.fromkeys(method_name(one.chosen["method"]) for one in judged))
    condition = f"It holds on {'; on '.join(counts)}"
    return replace(found, condition=condition, reason=f"{condition}. Posteriors of weight n sampled by {methods}.")


def _sampler(setting: SettingRuns) -> str:
    """Who sampled the posterior of weight n, where it is not PBNN on mini-batches of n."""
    return "" if setting["method"] == "pbnn" else f"; sampled with {method_name(setting['method'])}"


class Network(NamedTuple):
    """The posterior of all data, and those of smaller weights."""

    full: SettingRuns
    candidates: list[SettingRuns]
    #: Least mean ECE on validation points.
    chosen: SettingRuns
    #: At n = 100, the nearest to the paper's method.
    of_paper: list[SettingRuns]


def trained_longer(study: StudyResults) -> list[str]:
    """Variants of mnist whose network was trained for longer."""
    found = [one for one in study.variants if study.settings(variant=one, task="mnist")[:1] and "-epochs" in one]
    if not found:
        raise NotAsked(
            "Asked in the studies paper and calibration: no network of this one was trained longer than its task asks"
        )
    return found


def network_of(study: StudyResults, variant: str) -> Network:
    found = sorted(
        (
            one
            for one in settings(study, variant=variant, method=list(SAME_TARGET))
            if one["target_weight"] < one["num_points"]
        ),
        key=lambda one: (
            one["target_weight"],
            -len(one.converged),
            SAME_TARGET.index(one["method"]),
            one["label"],
        ),
    )
    # One for each n.
    candidates = list({one["target_weight"]: one for one in reversed(found)}.values())[::-1]
    if not candidates:
        raise NothingToShow(f"Missing runs: {task_name(variant)} has none at a weight below its number of points")
    of_paper = [one for one in candidates if one["target_weight"] == PAPER_N]
    chosen = min(candidates, key=lambda one: one.mean("validation_ece"))
    return Network(full_data_of(study, variant), candidates, chosen, of_paper[:1])


CALIBRATION = (
    Claim(
        id=6,
        short="Small mini-batches calibrate an overconfident regression",
        statement="Where the posterior of all data is overconfident, smaller mini-batches calibrate it (regression).",
        place='Section "Prediction Calibration Using The Mini-Batch Size n"; Figs 2 and 3a',
        rule=RULES[6].text,
        judge=_n_calibrates_regression,
        registered=RULES[6],
    ),
    Claim(
        id=7,
        short="On MNIST PBNN is nearly as accurate as full data",
        statement="On MNIST the penalty network (n = 100, M = 10) is nearly as accurate as one on all data.",
        place="Caption of Fig. 3 (figure: reliability diagrams): 93.2 % and 93.6 %",
        rule=RULES[7].text,
        judge=_mnist_accuracy_is_close,
        registered=RULES[7],
    ),
    Claim(
        id=8,
        short="On MNIST PBNN is better calibrated than full data",
        statement="On MNIST the penalty network (n = 100, M = 10) is less overconfident than one on all data, and so "
        "better calibrated.",
        place='Fig. 3b; Section "Prediction Calibration Using The Mini-Batch Size n"; Abstract',
        rule=RULES[8].text,
        judge=_mnist_is_less_overconfident,
        registered=RULES[8],
    ),
    Claim(
        id=13,
        short="A smaller n calibrates an overconfident network on MNIST",
        statement="Where a network on MNIST is overconfident, a smaller n, as the weight of its data, calibrates it.",
        place='Fig. 3b; Section "Prediction Calibration Using The Mini-Batch Size n"; Abstract',
        rule=RULES[13].text,
        judge=_n_cures_an_overfitted_network,
        registered=RULES[13],
    ),
)
