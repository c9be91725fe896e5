"""The page of a report: figures, claims and tables as one HTML file that needs nothing else."""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jinja2
import pandas as pd
from markupsafe import Markup

from implementations.infrastructure.provenance import PACKAGES
from records.display import format_number, setting_names
from records.methods import in_order
from records.setting_runs import CONVERGED
from records.study import StudyResults
from reports import claim_words, tables
from reports.benchmarks import SECTION, Benchmarks, is_met, named, ratio_text
from reports.drawing import clip_of, figure_css, look_of, on_dark
from reports.findings import Finding
from reports.judge import (
    IN_PART,
    INCONCLUSIVE,
    NOT_ASKED,
    NOT_REPRODUCED,
    PREMISE_NOT_MET,
    REPRODUCED,
    ClaimResult,
)
from reports.table_model import Table
from reports.types import Contents, FigureResult, Speed

TEMPLATES = Path(__file__).parent / "templates"

#: The order of the verdicts: surprises for a reader of the paper come first.
SURPRISES = (NOT_REPRODUCED, IN_PART, PREMISE_NOT_MET, INCONCLUSIVE, REPRODUCED, NOT_ASKED)
#: Findings on the first screen.
NUM_FINDINGS = 3
#: With more claims than this, the expected verdicts go below the figure on the first screen.
FEW_CLAIMS = 6
#: Lists of up to this many cases of a claim are not folded.
FEW_CASES = 3


class Argument(NamedTuple):
    """Claims, and the figure next to them."""

    claims: list[ClaimResult]
    figure: FigureResult | None


def arguments_of(claims: Sequence[ClaimResult], figures: Sequence[FigureResult]) -> list[Argument]:
    """The claims in their order, except that claims with the same figure follow the first of them."""
    drawn = {number: figure for figure in reversed(figures) if figure.drawing for number in figure.spec.claims}
    found: dict[object, Argument] = {}
    for result in claims:
        figure = drawn.get(result.claim.id)
        key = result.claim.id if figure is None else figure.spec.name
        found.setdefault(key, Argument([], figure)).claims.append(result)
    return list(found.values())


def page(
    study: StudyResults,
    contents: Contents,
    figures: Sequence[FigureResult],
    claims: Sequence[ClaimResult],
    findings: Sequence[Finding],
    found_tables: Sequence[Table],
    failures: Sequence[str],
    speed: Speed,
    has_run_pages: bool = False,
) -> str:
    """The page as text: ``found_tables`` of every section, ``failures`` of figures and claims."""
    anchors = anchors_of(study)
    asked = [result for result in claims if result.verdict.outcome != NOT_ASKED]
    arguments = arguments_of(asked, figures)
    with_claims = [argument.figure for argument in arguments]
    # A figure that could not be drawn is named among the others.
    others = [figure for figure in figures if figure not in with_claims]
    hero = next((figure for figure in figures if figure.drawing), None)
    sections: dict[str, list[Table]] = {}
    for table in found_tables:
        sections.setdefault(table.section, []).append(table)
    winners = sections.pop("winners", [])
    has_winner = any(row.get("method") for table in winners for row in table.rows)
    headings = {
        "summary": "Summary",
        "who-won": "Who won" if has_winner else "",
        "findings": "Findings" if findings else "",
        "claims": contents.heading if claims else "",
        "figures-section": "More figures" if others else "",
        "comparison": "Settings side by side",
        "missing-section": "What is missing",
        "runs-section": "Every run",
        "speed": SECTION,
        "reproduce": "Reproduce it",
        "definitions": "Definitions",
    }
    title = findings[0].headline.rstrip(".") if findings else study.description or study.name
    script = _read("tables.js") + _read("marks.js")
    drawn = [figure.drawing for figure in [*figures, *speed.figures] if figure.drawing]
    style = _read("style.css") + figure_css(drawn) + _method_css(study.summary["method"])
    names = {
        row["run"]: (name, row["seed"])
        for setting, name in setting_names(study.all_settings).items()
        for row in setting.rows
    }
    environment = templates()
    environment.filters["by_setting"] = partial(by_setting, names=names, anchors=anchors)
    return environment.get_template("page.html").render(
        study=study,
        contents=contents,
        title=title[:1].upper() + title[1:],
        headings={id: heading for id, heading in headings.items() if heading},
        origin=origin(study),
        claims=claims,
        arguments=arguments,
        not_asked=[result for result in claims if result not in asked],
        findings=findings,
        num_findings=NUM_FINDINGS,
        hero=hero,
        # A hero without claims is shown at the top only.
        is_hero_repeated=hero in with_claims,
        others=others,
        figure_sections=list(dict.fromkeys(figure.spec.section for figure in others)),
        verdicts={
            outcome: found
            for outcome in SURPRISES
            if (found := [claim for claim in claims if claim.verdict.outcome == outcome])
        },
        expected=SURPRISES[-2:] if len(asked) > FEW_CLAIMS else (),
        few_cases=FEW_CASES,
        words=claim_words,
        failures=failures,
        statuses=study.summary["status"].value_counts().to_dict(),
        num_converged=sum(len(one.converged) for one in study.all_settings),
        converged=CONVERGED,
        tables=sections,
        winners=winners,
        has_winner=has_winner,
        winner_rule=tables.WINNER_RULE,
        missing=[row for table in found_tables if table.name == "missing" for row in table.rows],
        has_run_pages=has_run_pages,
        speed=speed,
        measured=_measured(speed.benchmarks) if speed.benchmarks else {},
        num_targets=len(speed.benchmarks.targets) if speed.benchmarks else 0,
        missed=[row for row in speed.benchmarks.targets if is_met(row) is False] if speed.benchmarks else [],
        drawing=lambda figure: Markup(figure.drawing.html({run: f"#{anchor}" for run, anchor in anchors.items()})),
        study_file=_study_file(study.name),
        # The policy of the page lets nothing else run or be fetched.
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def templates() -> jinja2.Environment:
    """The templates of pages; everything that they print is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": format_number, "count": count, "named": named, "ratio": ratio_text}
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
    """Where the numbers come from: time, code and machine. A list where runs differ."""
    rows = study.summary
    commits = rows[["git_commit", "git_is_dirty"]].dropna().drop_duplicates().itertuples(index=False)
    machines = rows[["cpu", "num_cpus", "system"]].dropna().drop_duplicates().itertuples(index=False)
    # The end of the last run, not the clock: the same study gives the same page.
    ended = rows["ended_at"].dropna()
    found = {
        "finished": "" if ended.empty else ended.max()[:16].replace("T", " ") + " UTC",
        "commit": ", ".join(_commit(*commit) for commit in commits),
        "machine": ", ".join(_machine(*machine) for machine in machines),
        "versions": ", ".join(
            f"{name} {' and '.join(versions)}"
            for name in ("python", *PACKAGES)
            if len(versions := sorted(rows[f"version_{name}"].dropna().unique()))
        ),
    }
    return {name: text or "unknown" for name, text in found.items()}


def _measured(benchmarks: Benchmarks) -> dict[str, str]:
    """Where the benchmarks come from."""
    return {
        "measured on": _machine(benchmarks.cpu, benchmarks.num_cpus, benchmarks.system),
        "with": ", ".join(f"{name} {version}" for name, version in benchmarks.versions.items()),
        "at commit": _commit(benchmarks.git_commit, benchmarks.git_is_dirty) if benchmarks.git_commit else "unknown",
    }


def _commit(commit: str, is_dirty: bool | None) -> str:
    return commit[:12] + (", changed" if is_dirty else "")


def _machine(cpu: str, num_cpus: int, system: str) -> str:
    return f"{cpu}, {num_cpus} processors, {system}"


def _study_file(name: str) -> str:
    """The file of a study that comes with the suite, or a word for that of a user's own."""
    file = Path("workflows", "studies", f"{name}.yaml")
    return str(file) if (Path(__file__).parents[1] / file).exists() else "STUDY.yaml"


def _method_css(methods: "pd.Series[str]") -> str:
    """The colour and shape of each method's mark in tables, also in the dark."""
    looks = {name: look_of(name) for name in in_order(methods)}
    rules = [
        f".method-{name} {{ --method: {look.colour}; --shape: {clip_of(look.corners)}; }}"
        for name, look in looks.items()
    ]
    dark = [f".method-{name} {{ --method: {on_dark(look.colour)}; }}" for name, look in looks.items()]
    return "\n".join([*rules, "@media screen and (prefers-color-scheme: dark) {", *dark, "}\n"])


def _read(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def count(amount: int, noun: str) -> str:
    """``1 run``, ``2 runs``"""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"
