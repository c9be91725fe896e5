"""What the study `rivals` found: every method on the same targets."""

from collections import Counter

import pandas as pd

from records.display import format_estimate, format_rounded, method_name
from records.methods import facts_of
from records.setting_runs import SettingRuns, one_backend
from records.study import StudyResults
from reports.claims.rivals import best_pairs, lost_targets, target_of
from reports.evidence import require
from reports.leaderboard import CRITERION, leaderboards, target_text
from reports.tables import MARGIN, why_not
from reports.types import Finding

BOUND = f"A bias is small within {MARGIN} RMS sd of the reference in the mean and {100 * MARGIN:.0f} % in the sd."
#: The winner's curse: whoever is best of many by chance looks better than it is.
SELECTION = "The best are chosen among many methods on the seeds that measure them, which favours the larger field."


def _boards(study: StudyResults) -> dict[str, pd.DataFrame]:
    """The ranked rows of every leaderboard that has any, by target: ``logistic, w = 100``."""
    found = {
        _target(name.removeprefix("leaderboard_")): board[board["rank"].notna()]
        for name, board in leaderboards(study).items()
    }
    return {target: board for target, board in found.items() if len(board)}


def _target(name: str) -> str:
    variant, _, weight = name.rpartition("-w")
    return target_text(variant, float(weight))


def _mini_batches_win(study: StudyResults) -> Finding:
    """Of the chains; draws of the Gaussian at the mode take no evaluations and are no chain."""
    pairs, lost = best_pairs(study), lost_targets(study)
    require(bool(pairs))
    found = [ours.ratio(theirs, CRITERION) for ours, theirs in pairs]
    ratios = [ratio.mean or 0.0 for ratio in found]
    numbers = [
        f"{format_estimate(ratio)} on {target_text(*target_of(ours))} ({method_name(ours['method'])} over "
        f"{method_name(theirs['method'])})"
        for ratio, (ours, theirs) in zip(found, pairs, strict=True)
    ]
    low, high = (format_rounded(end(ratios)) for end in (min, max))
    without = f" On {' and on '.join(lost)} no chain on mini-batches has a small bias." if lost else ""
    return Finding(
        "Where a small bias is acceptable, mini-batches give more effective draws per evaluation than full data on "
        f"{sum(ratio.low is not None and ratio.low > 1 for ratio in found)} of {len(ratios) + len(lost)} targets.",
        f"The best chain on mini-batches gives {low} to {high} times as many effective draws per evaluation as the "
        f"best on full data.{without} By target: {'; '.join(numbers)}. {BOUND} {SELECTION}",
    )


def _winners(study: StudyResults) -> Finding:
    first: dict[str, str] = {}
    is_free = False
    for target, board in _boards(study).items():
        priced = board[board[CRITERION].notna()]
        is_free |= len(priced) < len(board)
        if len(priced):
            first[target] = priced.iloc[0]["method"]
    require(len(set(first.values())) > 1)
    texts = [f"{method_name(method)} on {target}" for target, method in first.items()]
    aside = " (Laplace, which draws from a Gaussian and reads nothing, aside)" if is_free else ""
    return Finding(
        "No method is best on every target.",
        f"Most effective draws per evaluation with a small bias{aside}: {'; '.join(texts)}.",
    )


def _who_drops_out(study: StudyResults) -> Finding:
    """Methods that are within the bound on every target they ran on, and those that are on none."""
    within: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for board in leaderboards(study).values():
        for _, row in board[board["is_within_bound"].notna()].iterrows():
            judged[row["method"]] += 1
            within[row["method"]] += bool(row["is_within_bound"])
    never = [method for method in judged if not within[method]]
    always = [method for method in judged if within[method] == judged[method]]
    require(bool(never) and bool(always))
    return Finding(
        f"Of {len(judged)} methods, {len(always)} have a small bias wherever it could be measured, and {len(never)} "
        "nowhere.",
        f"Nowhere: {', '.join(map(method_name, never))}.",
    )


def _proxy_of(setting: SettingRuns) -> str | None:
    """Its control variates, ``none`` among them; None of a method that has no such setting."""
    card = facts_of(setting["method"]).settings
    own = dict(word.split("=", 1) for word in setting["label"].split("+")[1:])
    return own.get("proxy", card["proxy"].default) if "proxy" in card else None


def _control_variates_repair(study: StudyResults) -> Finding:
    """The same method with as many steps on the same target, with and without control variates."""
    found: dict[tuple[str, tuple[str, float], int], dict[bool, SettingRuns]] = {}
    for one in one_backend(study.all_settings):
        if one.ok and (proxy := _proxy_of(one)) is not None:
            found.setdefault((one["method"], target_of(one), one["num_steps"]), {})[proxy != "none"] = one
    pairs = [sides for sides in found.values() if len(sides) == 2]
    right = {side: sum(why_not(sides[side]) is None for sides in pairs) for side in (True, False)}
    require(right[True] > right[False])
    methods = dict.fromkeys(method_name(sides[True]["method"]) for sides in pairs)
    read = [
        f"{method_name(sides[True]['method'])} on {target_text(*target_of(sides[True]))}: "
        + " and ".join(format_rounded(sides[side].mean("audit_mean_points")) for side in (False, True))
        for sides in pairs
        if all(one.has("audit_mean_points") for one in sides.values())
    ]
    points = f" Points per decision, without and with them: {'; '.join(read)}." if read else ""
    return Finding(
        f"Control variates repair other tests on mini-batches too: with as many steps, {right[True]} of {len(pairs)} "
        f"cases converge to a small bias, and {right[False]} without them.",
        f"The cases are {', '.join(methods)}, each on every target with both.{points}",
    )


OF_RIVALS = (_mini_batches_win, _control_variates_repair, _winners, _who_drops_out)
