"""The page of a report: what was drawn, judged and tabulated, as one HTML file that needs nothing else."""

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup

from implementations.infrastructure.provenance import PACKAGES
from records.display import format_estimate, format_number, setting_names
from records.methods import in_order
from records.setting_runs import CONVERGED
from records.study import StudyResults
from reports import tables
from reports.benchmarks import SECTION, Benchmarks, is_met, named, ratio_text
from reports.contents import contents_of
from reports.drawing import clip_of, figure_css, look_of, on_dark
from reports.findings import Finding
from reports.judging import family_text
from reports.strip import short, where
from reports.table_model import Table
from reports.types import (
    IN_PART,
    INCONCLUSIVE,
    NOT_ASKED,
    NOT_REPRODUCED,
    PREMISE_NOT_MET,
    REPRODUCED,
    ClaimResult,
    FigureResult,
    Speed,
    Verdict,
)
from reports.verdicts import FAILS, HOLDS, OPEN

TEMPLATES = Path(__file__).parent / "templates"

#: What a reader of the paper does not expect stands first.
SURPRISES = (NOT_REPRODUCED, IN_PART, PREMISE_NOT_MET, INCONCLUSIVE, REPRODUCED, NOT_ASKED)
#: Of the bottom line.
NUM_SENTENCES = 3
#: Claims that have room beside a figure.
FEW_CLAIMS = 6
#: Words of a reason that a reader takes in without a fold.
MAX_REASON = 60
SENTENCE_END, INTERVAL = re.compile(r"(?<=\.) (?=[^\W\d])"), re.compile(r"\[.*\]")
OUTER_SEMICOLON = re.compile(r";(?![^(]*\))")
#: Cases of a claim that are listed; of more, a reader unfolds the list.
FEW_CASES = 3


class Argument(NamedTuple):
    """Claims, and the figure that stands beside them."""

    claims: list[ClaimResult]
    figure: FigureResult | None


def arguments_of(claims: Sequence[ClaimResult], figures: Sequence[FigureResult]) -> list[Argument]:
    """The claims in their order, but for those that share a figure: they follow the first of them."""
    drawn = {number: figure for figure in reversed(figures) if figure.drawing for number in figure.spec.claims}
    found: dict[object, Argument] = {}
    for result in claims:
        figure = drawn.get(result.claim.id)
        key = result.claim.id if figure is None else figure.spec.name
        found.setdefault(key, Argument([], figure)).claims.append(result)
    return list(found.values())


def headings_of(
    study: StudyResults, has_winners: bool, has_findings: bool, has_claims: bool, has_figures: bool
) -> dict[str, str]:
    """The sections of the page in their order, by id: what stands above each, and in the navigation."""
    found = {"summary": "Summary"}
    found |= {"who-won": "Who won"} if has_winners else {}
    found |= {"findings": "Findings"} if has_findings else {}
    found |= {"claims": contents_of(study.name).heading} if has_claims else {}
    found |= {"figures-section": "More figures"} if has_figures else {}
    return found | {
        "comparison": "Settings side by side",
        "missing-section": "What is missing",
        "runs-section": "Every run",
        "speed": SECTION,
        "reproduce": "Reproduce it",
        "definitions": "Definitions",
    }


def page(
    study: StudyResults,
    figures: Sequence[FigureResult],
    claims: Sequence[ClaimResult],
    found_tables: Sequence[Table],
    failures: Sequence[str],
    speed: Speed,
    findings: Sequence[Finding] = (),
    run_pages: Collection[str] = (),
) -> str:
    """The page as text: ``found_tables`` are those that have a file, ``failures`` what of it failed.

    ``run_pages`` are the runs that have a page of their own (``reports.run_page``).
    """
    environment = templates()
    environment.filters |= {"estimate": format_estimate, "parted": parted, "named": named, "ratio": ratio_text}
    environment.filters |= {"enumerated": enumerated, "num_cases": num_cases, "short": short, "where": where}
    script = _read("tables.js") + _read("marks.js")
    style = _read("style.css") + _colours(study, [*figures, *speed.figures])
    anchors = anchors_of(study)
    names = {
        row["run"]: (name, row["seed"])
        for setting, name in setting_names(study.all_settings).items()
        for row in setting.rows
    }
    environment.filters["by_setting"] = partial(by_setting, names=names, anchors=anchors)
    asked = [result for result in claims if result.verdict.outcome != NOT_ASKED]
    arguments = arguments_of(asked, figures)
    beside = [argument.figure for argument in arguments]
    # What could not be drawn is named among the others.
    others = [figure for figure in figures if figure not in beside]
    sections: dict[str, list[Table]] = {}
    for table in (*found_tables, tables.runs_table(study, anchors, run_pages), tables.budget_table(study)):
        sections.setdefault(table.section, []).append(table)
    winners = sections.pop("winners", [])
    has_winners = any(row.get("method") for table in winners for row in table.rows)
    hero = next((figure for figure in figures if figure.drawing), None)
    return environment.get_template("page.html").render(
        study=study,
        origin=origin(study),
        headings=headings_of(study, has_winners, bool(findings), bool(claims), bool(others)),
        others=others,
        sections=list(dict.fromkeys(figure.spec.section for figure in others)),
        contents=contents_of(study.name),
        claims=claims,
        arguments=arguments,
        not_asked=[result for result in claims if result not in asked],
        findings=findings,
        title=_title(study, findings),
        bottom_line=bottom_line(findings),
        hero=hero,
        # One that no claim has beside it stands at the top alone.
        is_hero_repeated=hero in beside,
        verdicts={
            outcome: [claim for claim in claims if claim.verdict.outcome == outcome]
            for outcome in SURPRISES
            if any(claim.verdict.outcome == outcome for claim in claims)
        },
        # Where there are many, what surprises stands beside the figure and the others below it.
        expected=SURPRISES[-2:] if len(asked) > FEW_CLAIMS else (),
        few_cases=FEW_CASES,
        family={result.claim.id: family_text(result, claims) for result in claims},
        failures=failures,
        statuses=study.summary["status"].value_counts().to_dict(),
        num_converged=sum(len(one.converged) for one in study.all_settings),
        converged=CONVERGED,
        tables=sections,
        winners=winners,
        winner_rule=tables.WINNER_RULE,
        missing=[row for table in found_tables if table.name == "missing" for row in table.rows],
        has_run_pages=bool(run_pages),
        speed=speed,
        **(_benchmark_parts(speed.benchmarks) if speed.benchmarks else {}),
        anchors=anchors,
        drawing=lambda figure: Markup(figure.drawing.html({run: f"#{id_}" for run, id_ in anchors.items()})),
        study_file=_study_file(study.name),
        # Both are files of ours; the policy lets nothing else run or be fetched.
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _title(study: StudyResults, findings: Sequence[Finding]) -> str:
    """The first of the findings; of a study without any, what it is about."""
    text = findings[0].headline.rstrip(".") if findings else study.description or study.name
    return text[:1].upper() + text[1:]


def templates() -> jinja2.Environment:
    """The templates of pages; everything that they print is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": format_number, "count": count}
    return environment


def anchors_of(study: StudyResults) -> dict[str, str]:
    """The id of each run's row, by the run."""
    return {run: f"run-{position}" for position, run in enumerate(study.summary["run"], start=1)}


def by_setting(
    runs: Iterable[str], names: Mapping[str, tuple[str, int]], anchors: Mapping[str, str]
) -> dict[str, list[tuple[int, str]]]:
    """Settings by name, each with its seeds and the ids of their rows; a run without a row by its folder."""
    found: dict[str, list[tuple[int, str]]] = {}
    for run in runs:
        if run in names:
            setting, seed = names[run]
            found.setdefault(setting, []).append((seed, anchors[run]))
        else:
            found.setdefault(run, [])
    return found


def origin(study: StudyResults) -> dict[str, str]:
    """Where the numbers come from: when they were made, by which code, on what. A list where runs differ."""
    rows = study.summary
    commits = [
        _commit(commit, is_dirty)
        for commit, is_dirty in rows[["git_commit", "git_is_dirty"]].dropna().drop_duplicates().itertuples(index=False)
    ]
    machines = rows[["cpu", "num_cpus", "system"]].dropna().drop_duplicates().itertuples(index=False)
    found = {
        "finished": ", ".join(_finished(rows)),
        "commit": ", ".join(commits),
        "machine": ", ".join(_machine(*machine) for machine in machines),
        "versions": ", ".join(
            f"{name} {' and '.join(versions)}"
            for name in ("python", *PACKAGES)
            if len(versions := sorted(rows[f"version_{name}"].dropna().unique()))
        ),
    }
    return {name: text or "not on file" for name, text in found.items()}


def _commit(commit: str, is_dirty: bool) -> str:
    return commit[:12] + (", changed" if is_dirty else "")


def _machine(cpu: str, num_cpus: int, system: str) -> str:
    return f"{cpu}, {num_cpus} processors, {system}"


def _finished(rows: pd.DataFrame) -> list[str]:
    """The end of the last run: the clock of the study, so that the same study gives the same page."""
    ended = rows["ended_at"].dropna()
    return [] if ended.empty else [ended.max()[:16].replace("T", " ") + " UTC"]


def _study_file(name: str) -> str:
    """The file of a study that comes with the suite, or a word for that of a user's own."""
    file = Path("workflows", "studies", f"{name}.yaml")
    return str(file) if (Path(__file__).parents[1] / file).exists() else "STUDY.yaml"


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _colours(study: StudyResults, figures: Sequence[FigureResult]) -> str:
    """Of methods, with their shapes, and of all drawings in the dark."""
    looks = {name: look_of(name) for name in in_order(study.summary["method"])}
    return "".join(
        [
            *(
                f".method-{name} {{ --method: {look.colour}; --shape: {clip_of(look.corners)}; }}\n"
                for name, look in looks.items()
            ),
            "@media screen and (prefers-color-scheme: dark) {\n",
            *(f".method-{name} {{ --method: {on_dark(look.colour)}; }}\n" for name, look in looks.items()),
            "}\n",
            figure_css([figure.drawing for figure in figures if figure.drawing]),
        ]
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def parted(verdict: Verdict) -> tuple[str, str]:
    """A reason in two: what it says, and numbers that can wait. Of one that holds in part, its cases say the first."""
    reason, numbers = verdict.reason, verdict.numbers
    if verdict.cases:
        return "", numbers
    if numbers and len(reason.split()) > MAX_REASON:
        return reason[: -len(numbers)].rstrip(": ") + ".", numbers
    sentences = SENTENCE_END.split(reason)
    first = next((place for place, one in enumerate(sentences) if INTERVAL.search(one)), len(sentences))
    if len(reason.split()) <= MAX_REASON or not first:
        return reason, ""
    return " ".join(sentences[:first]), " ".join(sentences[first:])


def num_cases(verdict: Verdict, words: str) -> int:
    """How many parts have the answer that ``words`` stand for; some are listed together."""
    wanted = {HOLDS: True, FAILS: False, OPEN: None}[words]
    return sum(answer is wanted for _, answer in verdict.answers)


def enumerated(numbers: str) -> list[str]:
    """The parts of a long sentence between its semicolons, but not of what is in brackets."""
    return [part.strip() for part in OUTER_SEMICOLON.split(numbers)]


def bottom_line(findings: Sequence[Finding]) -> list[str]:
    """What there is to the title, which is the first of the findings, and then the others."""
    if not findings:
        return []
    first = SENTENCE_END.split(findings[0].text)[0]
    return [first, *(finding.headline for finding in findings[1:NUM_SENTENCES])]


def count(amount: int, noun: str) -> str:
    """``1 run``, ``2 runs``"""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def _benchmark_parts(benchmarks: Benchmarks) -> dict[str, Any]:
    """What the page shows of them beside their figures."""
    commit = benchmarks.git_commit and _commit(benchmarks.git_commit, bool(benchmarks.git_is_dirty))
    return {
        "measured": {
            "machine": _machine(benchmarks.cpu, benchmarks.num_cpus, benchmarks.system),
            "versions": ", ".join(f"{name} {version}" for name, version in benchmarks.versions.items()),
            "commit": commit or "not on file",
        },
        "num_targets": len(benchmarks.targets),
        "missed": [row for row in benchmarks.targets if is_met(row) is False],
    }
