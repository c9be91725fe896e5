"""The words that a page makes of a verdict's typed parts and numbers: the one place where they become text."""

from collections.abc import Mapping, Sequence
from typing import Any

from records.display import format_estimate, format_given, format_name, method_name, task_name
from records.setting_runs import SettingRuns
from reports.claim_file import BEFORE, POST_HOC, UNKNOWN
from reports.judge import ClaimResult, Evidence, LeftOut, Part, Verdict
from reports.table_model import Cell, Column, Row, Table

#: What becomes of a part, in words.
ANSWERS: Mapping[bool | None, str] = {True: "It holds", False: "It does not hold", None: "Too close to call"}
HOLDS: Mapping[bool | None, str] = {True: "yes", False: "no", None: "open"}
#: Words between two settings, by the kind of number that compares them.
COMPARED = {"difference": "minus", "ratio": "over"}


def place(settings: Sequence[SettingRuns], kind: str = "value", over: str = "") -> str:
    """Where a number was measured: ``PBNN n=5, M=5 on mnist``, ``MALA minus SGLD on digits``, a sweep by its ends."""
    if not settings:
        return ""
    first, last = settings[0], settings[-1]
    tasks = list(dict.fromkeys(map(task_name, settings)))
    if len(settings) == 1:
        text = format_name(first)
    elif kind in COMPARED and len(tasks) == 1:
        text = f"{format_name(first)} {COMPARED[kind]} {format_name(last)}"
    elif kind in COMPARED:
        return f"{place([first])} {COMPARED[kind]} {place([last])}"
    else:
        column = over or "num_points"
        ends = " to ".join(format_given(float(one[column])) for one in (first, last) if one[column] is not None)
        text = f"{method_name(first['method'])}, {column.replace('_', ' ')} {ends}"
    return f"{text} on {tasks[0]}" if len(tasks) == 1 else text


def part_name(part: Part) -> str:
    """The name of a part, or the settings that tell it from the others."""
    over = next((one.over for one in part.evidence if one.over), "")
    kind = part.evidence[0].kind if part.evidence else "value"
    return ", ".join(filter(None, [part.name, place(part.settings, kind, over)])) or "all"


def counts(verdict: Verdict) -> str:
    """``5 of 8 parts hold, 2 fail, 1 open``; empty for a verdict with a single part."""
    if len(verdict.parts) < 2:
        return ""
    found = {answer: sum(part.holds is answer for part in verdict.parts) for answer in ANSWERS}
    others = [f"{found[answer]} {words}" for answer, words in ((False, "fail"), (None, "open")) if found[answer]]
    return ", ".join([f"{found[True]} of {len(verdict.parts)} parts hold", *others])


def lines(result: ClaimResult) -> list[str]:
    """What a reader sees first of a verdict: how many parts hold, how large the effect is, on how many seeds."""
    failure = f"It could not be judged: {result.failure}" if result.failure else ""
    verdict = result.verdict
    return [line for line in (failure, verdict.note, counts(verdict), effect(verdict), seeds(verdict)) if line]


def strip_note(result: ClaimResult) -> str:
    """The same in a few words: ``5 of 8 parts hold, 2 fail, 1 open; 6 seeds; fragile``."""
    verdict = result.verdict
    is_whole = all(part.holds for part in verdict.parts)
    notes = ("" if is_whole else counts(verdict), seeds(verdict), "fragile" if result.is_fragile else "")
    return "; ".join(filter(None, notes))


def flips(result: ClaimResult) -> list[LeftOut]:
    """What changes the outcome when it is left out."""
    return [one for one in result.fragile if one.outcome != result.verdict.outcome]


def robustness(result: ClaimResult) -> str:
    return "Fragile: leaving out one seed changes the outcome" if result.is_fragile else "With fewer seeds or libraries"


def registration(result: ClaimResult) -> str:
    words = {
        BEFORE: "before the runs",
        POST_HOC: "post hoc, as the rule was added or changed after the commit of the runs",
        UNKNOWN: "unknown, as the commit of the runs is not in this history",
    }
    return f"{words[result.registered]} ({result.rule_sha256[:12]}; at most {result.claim.seeds} seeds)."


def parts_by_answer(verdict: Verdict) -> dict[str, list[str]]:
    """The names of a verdict's parts, by answer."""
    found: dict[str, list[str]] = {}
    for answer, words in ANSWERS.items():
        if names := [part_name(part) for part in verdict.parts if part.holds is answer]:
            found[words] = list(dict.fromkeys(names))
    return found


def seeds(verdict: Verdict) -> str:
    """``3 to 6 seeds``, ``1 seed``; empty where no number decides."""
    if verdict.num_seeds is None:
        return ""
    ends = list(dict.fromkeys(map(str, verdict.num_seeds)))
    return f"{' to '.join(ends)} seed{'' if ends == ['1'] else 's'}"


def effect(verdict: Verdict) -> str:
    """``sd ratio, PBNN n=5 on mnist: 1.02 [0.98, 1.06]``"""
    found = verdict.effect
    if found is None:
        return ""
    what = ", ".join(filter(None, [found.label, place(found.settings, found.kind, found.over)]))
    return f"{what}: {format_estimate(found.value)} {found.unit}".rstrip()


def fragility(left_out: LeftOut, words: Mapping[str, str]) -> str:
    """``without seed 3: inconclusive``"""
    condition = f"without seed {left_out.name}" if left_out.what == "seed" else f"on {left_out.name} alone"
    return f"{condition}: {words.get(left_out.outcome, left_out.outcome)}"


def margins(evidence: Evidence) -> str:
    """``below 0.05``, ``within 0.9 to 1.1``; empty for a number that decides nothing."""
    return f"{evidence.side} {' to '.join(map(format_given, evidence.margins))}".strip() if evidence.margins else ""


def evidence_table(result: ClaimResult) -> Table:
    """Every number of a verdict with its interval and the margins that decide, part by part."""
    verdict = result.verdict
    parts = [*([("premise", verdict.premise)] if verdict.premise else []), *((part_name(p), p) for p in verdict.parts)]
    rows = [_row(one, name) for name, part in parts for one in part.evidence]
    used = {id(one) for _, part in parts for one in part.evidence}
    rows += [_row(one, "shown only") for one in verdict.evidence if id(one) not in used]
    return Table(
        f"evidence-{result.claim.id}",
        f"Evidence of claim {result.claim.id}",
        rows,
        [
            Column("what", "number", lambda row: Cell(row["what"], row["place"])),
            Column("value", "mean", "estimate"),
            Column("margins", "claimed"),
            Column("holds", "holds?", style=_answer_style),
            Column("num_seeds", "seeds", "number"),
            Column("part", "part"),
        ],
        file="",
    )


def _row(evidence: Evidence, part: str) -> dict[str, Any]:
    where = place(evidence.settings, evidence.kind, evidence.over)
    return {
        "what": ", ".join(filter(None, [evidence.label, evidence.unit])),
        "place": where,
        "part": part if part not in ("all", where) else None,
        "value": evidence.value,
        "margins": margins(evidence) or None,
        "holds": HOLDS[evidence.holds] if evidence.margins else None,
        "num_seeds": evidence.value.num_seeds,
    }


def _answer_style(row: Row) -> str:
    return {"no": "missed", "open": "unresolved"}.get(row["holds"] or "", "")
