"""Figure 3: the mini-batch size as a calibration parameter, and what it does to accuracy."""

from metrics.seeds import Estimate
from reports.calibrate import batch_settings, choose, full_data
from reports.evidence import (
    Question,
    Setting,
    contradictions,
    difference,
    estimate,
    every,
    guarded,
    interval,
    lies_above,
    lies_below,
    lies_within,
    settings,
    verdict,
)
from reports.parts import Claim, Evidence, NothingToShow, Verdict
from reports.study import StudyResults

#: The paper's two accuracies, 93.2 % and 93.6 %, which it calls similar, differ by 0.4 points; either has a standard
#: error of 0.25 points on 10,000 images. A whole point is more than both together.
SAME_ACCURACY = 0.01


@guarded
def _n_calibrates_regression(study: StudyResults) -> Verdict:
    full = full_data(study, "regression")
    candidates = batch_settings(study, "regression", "pbnn")
    choice = choose(candidates)
    smallest, best, largest = choice.candidates[0], choice.best, choice.candidates[-1]
    if smallest is largest:
        raise NothingToShow(f"Missing runs: pbnn on regression has one batch size only, {best['batch_size']}")
    premise = Evidence("confidence gap of full data", estimate(full, "confidence_gap"))
    gain = Evidence(
        f"ECE at n = {best['batch_size']}, chosen on validation points, minus full data", difference(best, full, "ece")
    )
    control = Evidence(
        f"confidence gap at n = {largest['batch_size']} minus n = {smallest['batch_size']}",
        difference(largest, smallest, "confidence_gap"),
    )
    questions = [lies_above(premise, 0), lies_below(gain, 0), lies_above(control, 0)]
    numbers = (
        f"ECE {interval(estimate(full, 'ece'))} with full data, {interval(estimate(best, 'ece'))} at n = "
        f"{best['batch_size']}, the choice of the validation points; paired difference {interval(gain.value)}"
    )
    return verdict(
        questions,
        [full, *choice.candidates],
        holds=every(question.holds for question in questions),
        conclusions={
            True: f"Full data are overconfident by {interval(premise.value)}, and n controls it: {numbers}.",
            False: f"Against it: {contradictions(questions)}. {numbers[0].upper()}{numbers[1:]}.",
        },
        more=[
            Evidence(f"{name} at n = {one['batch_size']}", estimate(one, column))
            for column, name in (("ece", "ECE"), ("confidence_gap", "confidence gap"))
            for one in choice.candidates
        ],
    )


def _mnist(study: StudyResults) -> tuple[Setting, Setting]:
    """pbnn as in the paper, and full data."""
    found = settings(study, variant="mnist", method="pbnn", batch_size=100, num_batches=10, weight="batch")
    penalised = max(found, key=lambda one: (len(one.runs), one["num_steps"], one["label"]))
    return penalised, full_data(study, "mnist")


@guarded
def _mnist_accuracy_is_close(study: StudyResults) -> Verdict:
    penalised, full = _mnist(study)
    gap = Evidence("accuracy of pbnn minus full data", difference(penalised, full, "accuracy"))
    question = lies_within(gap, -SAME_ACCURACY, SAME_ACCURACY)
    ours, theirs = estimate(penalised, "accuracy"), estimate(full, "accuracy")
    numbers = (
        f"{_percent(ours)} with pbnn (n = 100, M = 10) and {_percent(theirs)} with full data, "
        f"paired difference {interval(gap.value)}"
    )
    return verdict(
        [question],
        [penalised, full],
        holds=question.holds,
        conclusions={
            True: f"Accuracies are within {SAME_ACCURACY * 100:g} percentage point of each other: {numbers}.",
            False: f"Accuracies differ by more than {SAME_ACCURACY * 100:g} percentage point: {numbers}.",
        },
        more=[Evidence("accuracy of pbnn", ours), Evidence("accuracy with full data", theirs)],
    )


def _percent(value: Estimate) -> str:
    return "no value" if value.mean is None else f"{value.mean:.1%}"


@guarded
def _mnist_is_less_overconfident(study: StudyResults) -> Verdict:
    penalised, full = _mnist(study)
    premise = Evidence("confidence gap with full data", estimate(full, "confidence_gap"))
    shift = Evidence("confidence gap of pbnn minus full data", difference(penalised, full, "confidence_gap"))
    gain = Evidence("ECE of pbnn minus full data", difference(penalised, full, "ece"))
    questions = [lies_above(premise, 0), lies_below(shift, 0), lies_below(gain, 0)]
    own = estimate(penalised, "confidence_gap")
    numbers = (
        f"confidence gap {interval(premise.value)} with full data, {interval(own)} with pbnn (+ is overconfident); "
        f"ECE {interval(estimate(full, 'ece'))} and {interval(estimate(penalised, 'ece'))}"
    )
    return verdict(
        questions,
        [penalised, full],
        holds=every(question.holds for question in questions),
        conclusions={
            True: f"pbnn is less overconfident than full data, and better calibrated: {numbers}.",
            False: f"{_failure(questions)}: {numbers}.",
        },
        more=[Evidence("confidence gap of pbnn", own), *_other_sizes(study, penalised)],
    )


def _failure(questions: list[Question]) -> str:
    overconfident, less, better = (question.holds for question in questions)
    if less is False:
        return "pbnn is more confident than full data"
    parts = []
    if not overconfident:
        parts.append("Full data are not seen to be overconfident here")
    if better is False:
        parts.append("pbnn is less confident but no better calibrated, as n = 100 goes past the right confidence")
    return ", and ".join(parts)


def _other_sizes(study: StudyResults, used: Setting) -> list[Evidence]:
    """The same task at other batch sizes."""
    others = [one for one in batch_settings(study, "mnist", "pbnn") if one["batch_size"] != used["batch_size"]]
    return [Evidence(f"confidence gap at n = {one['batch_size']}", estimate(one, "confidence_gap")) for one in others]


CALIBRATION = (
    Claim(
        id=6,
        statement="Where the posterior of all data is overconfident, smaller mini-batches calibrate it (regression).",
        place='Section "Prediction Calibration Using The Mini-Batch Size n"; Figs 2 and 3a',
        rule="regression: the confidence gap of full data lies above 0; at the n chosen on validation points, the "
        "paired difference of the test ECE against full data lies below 0; and the gap at the largest n lies "
        "above that at the smallest. Not reproduced if one of them lies on the other side.",
        judge=_n_calibrates_regression,
    ),
    Claim(
        id=7,
        statement="On MNIST the penalty network (n = 100, M = 10) is nearly as accurate as one on all data.",
        place="Caption of Fig. 3 (figure: reliability diagrams): 93.2 % and 93.6 %",
        rule=f"mnist: the paired difference of the accuracies lies within ± {SAME_ACCURACY * 100:g} percentage "
        "point. Not reproduced if it lies outside.",
        judge=_mnist_accuracy_is_close,
    ),
    Claim(
        id=8,
        statement="On MNIST the penalty network (n = 100, M = 10) is less overconfident than one on all data, and so "
        "better calibrated.",
        place='Fig. 3b; Section "Prediction Calibration Using The Mini-Batch Size n"; Abstract',
        rule="mnist: the confidence gap of full data lies above 0, pbnn's paired difference to it below 0, and "
        "that of the ECE below 0, since too little confidence is no cure for too much. Not reproduced if one "
        "lies on the other side.",
        judge=_mnist_is_less_overconfident,
    ),
)
