"""Figure 1: what mini-batch noise does to the answer, and what the penalty does about it."""

from collections.abc import Sequence
from typing import Any

from records.display import format_estimate, format_range, format_settings
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.claims.rules import RULES, Rule
from reports.evidence import settings
from reports.questions import Question, all_hold, lies_below, lies_within, opposite
from reports.types import NOT_REPRODUCED, REPRODUCED, Claim, Evidence, Verdict
from reports.verdicts import Part, guarded, judge_parts

#: What the settings of Fig. 1 share.
FIXED = ("batch_size", "weight", "preconditioner")
#: The paper's estimate, and the same with the finite-population factor.
ESTIMATED = ["batches", "batches_finite"]


def is_right(setting: SettingRuns, name: str, rule: Rule) -> tuple[Question, Question]:
    """Has the predictive band the width and the place of the exact one?"""
    width = Evidence(f"sd ratio to the exact posterior, {name}", setting.estimate("sd_ratio"))
    place = Evidence(f"error of the mean, {name}", setting.bias(), "RMS sd")
    return lies_within(width, 1 - rule["width"], 1 + rule["width"]), lies_below(place, rule["place"])


def _is_wrong(name: str, questions: Sequence[Question]) -> Part:
    """One of the two suffices."""
    return Part(name, tuple(questions), lambda answers: opposite(all_hold(answers)))


def _widths(found: Sequence[SettingRuns]) -> str:
    return ", ".join(f"{format_estimate(one.estimate('sd_ratio'))} with {_named(one)}" for one in found)


def _ranges(known: Sequence[SettingRuns], estimates: Sequence[SettingRuns]) -> str:
    """Widths with the variance known, and with it estimated from each number of mini-batches."""
    texts = []
    if known:
        places = [one.bias().mean or 0.0 for one in known]
        texts.append(f"{_range(known)} with the variance known (mean off by {format_range(places, 2)} sd)")
    for num_batches in dict.fromkeys(one["num_batches"] for one in estimates):
        texts.append(f"{_range([one for one in estimates if one['num_batches'] == num_batches])} with M={num_batches}")
    return ", ".join(texts)


def _range(found: Sequence[SettingRuns]) -> str:
    return format_range(one.mean("sd_ratio") for one in found)


def _estimate_of(setting: SettingRuns) -> str:
    """The paper's estimate, which takes n M points for none of the data, the one that does not, or none."""
    if setting["variance"] == "oracle":
        return "with σ² known"
    return f"with σ² estimated{' for a finite data set' if setting['variance'] == 'batches_finite' else ''}"


def _briefly(setting: SettingRuns, estimates: Sequence[SettingRuns]) -> str:
    """``M=10, η=0.0002``, without the one M of the known variance."""
    alone = len({one["num_batches"] for one in estimates}) == 1
    return format_settings(setting, *FIXED, "variance", *(["num_batches"] if alone else []))


def _middle_step(estimates: Sequence[SettingRuns]) -> float:
    steps = sorted({float(one["step_size"]) for one in estimates})
    return steps[len(steps) // 2]


def _least_flattered(estimates: Sequence[SettingRuns]) -> SettingRuns:
    """The most mini-batches at the middle step, and of these the estimate that has no bias of its own.

    The other is too large where n M is a good part of the data, and a width that is right with it is two errors that
    cancel.
    """
    middle = _middle_step(estimates)
    return max(
        (one for one in estimates if one["step_size"] == middle),
        key=lambda one: (one["num_batches"], one["variance"] == "batches_finite"),
    )


def _in_order(found: Sequence[SettingRuns]) -> list[SettingRuns]:
    return sorted(found, key=lambda one: (one["num_batches"], one["variance"] or "", one["step_size"]))


def _named(setting: SettingRuns) -> str:
    return format_settings(setting, *FIXED)


@guarded
def _naive_is_biased(study: StudyResults) -> Verdict:
    rule = RULES[1]
    found = _in_order(settings(study, variant="linear", method="naive", batch_size=2, weight="data"))
    parts = [_is_wrong(f"with {_named(one)}", is_right(one, f"naive, {_named(one)}", rule)) for one in found]
    return judge_parts(
        parts,
        found,
        numbers=f"the ratio of the predictive sd to the exact one is {_widths(found)}",
        conclusions={
            REPRODUCED: "Without the penalty the band is not the exact one",
            NOT_REPRODUCED: "Even without the penalty the band is the exact one",
        },
        alpha=rule.alpha(study),
    )


@guarded
def _penalty_removes_the_bias(study: StudyResults) -> Verdict:
    rule = RULES[2]
    wanted: dict[str, Any] = {"variant": "linear", "method": "pbnn", "batch_size": 2, "weight": "data"}
    known = _in_order(settings(study, **wanted, variance="oracle"))
    estimates = _in_order(settings(study, **wanted, variance=ESTIMATED))
    questions = {
        one: is_right(one, f"variance {'known' if one in known else 'estimated'}, {_named(one)}", rule)
        for one in [*known, *estimates]
    }
    parts = [
        Part.of(
            f"{_estimate_of(one)} at {_briefly(one, among)}",
            *questions[one],
            topic=_estimate_of(one),
        )
        for among in (known, estimates)
        for one in among
    ]
    return judge_parts(
        parts,
        [*known, *estimates],
        numbers=f"the ratio of the predictive sd to the exact one is {_ranges(known, estimates)}",
        conclusions={
            REPRODUCED: "With the penalty the band is the exact one",
            NOT_REPRODUCED: "Some bias is left",
        },
        effect=questions[_least_flattered(estimates)][0].evidence,
        alpha=rule.alpha(study),
    )


BIAS = (
    Claim(
        id=1,
        short="Without the penalty, mini-batches give the wrong distribution",
        statement="A chain that takes a mini-batch's loss difference for the full one samples the wrong distribution.",
        place='Section "Biased Posterior Sampling Because Of Mini-Batches"; Fig. 1 (figure: penalty_linear_regression)',
        rule=RULES[1].text,
        judge=_naive_is_biased,
        registered=RULES[1],
    ),
    Claim(
        id=2,
        short="The penalty removes the bias of mini-batches",
        statement="A penalty of half the loss difference's variance removes this bias at the same mini-batch size.",
        place='Section "Noise Penalty Theory", equation: random walk penalty acceptance; Fig. 1; Algorithm 1',
        rule=RULES[2].text,
        judge=_penalty_removes_the_bias,
        registered=RULES[2],
    ),
)
