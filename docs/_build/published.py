"""The published studies as README and documentation show them: all in ``reports/published``, whatever their names."""

import csv
import json
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from docs._build.markdown import table, text
from records.display import format_number, method_name, task_name
from records.study import StudyResults
from records.usage import WORK, budget, read_usage
from reports.contents import contents_of
from reports.findings import Finding, findings_of, main_findings_of
from reports.publish import PUBLISHED, first_figure
from reports.judge import IN_PART, INCONCLUSIVE, NOT_ASKED, NOT_REPRODUCED, PREMISE_NOT_MET, REPRODUCED

STUDIES = Path(__file__).parents[2] / "workflows" / "studies"
#: The study of the paper's claims, which README and documentation show before the others.
PAPER = "paper"
#: Verdicts as tables list them: those on claims, and those on the questions of a study of its own.
VERDICTS = (REPRODUCED, "yes", IN_PART, "in part", NOT_REPRODUCED, "no", PREMISE_NOT_MET, INCONCLUSIVE)
#: Verdicts on claims that were not reproduced, the most surprising first.
SURPRISES = (NOT_REPRODUCED, IN_PART, PREMISE_NOT_MET, INCONCLUSIVE, NOT_ASKED)
#: Chance of a wrong verdict among all claims: a p-value is that of one of a verdict's two sides.
ERROR_RATE = 0.05
#: Criterion of the table of winners: it does not depend on the machine.
CRITERION = "ess_per_million_evaluations"
#: A kind of work has a row of its own if it takes this share of some study's time.
LEAST = 0.02


@dataclass(frozen=True)
class Published:
    """A study that is kept with the code."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def about(self) -> dict[str, Any]:
        """Where it comes from, and its claims."""
        content: dict[str, Any] = json.loads((self.folder / "claims.json").read_text(encoding="utf-8"))
        return content

    @property
    def claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.about["claims"]
        return found

    @cached_property
    def results(self) -> StudyResults:
        return StudyResults.load(self.folder)

    @cached_property
    def picture(self) -> tuple[str, str]:
        """Title and file of the figure that its report begins with; empty where it has none."""
        name, title = first_figure(self.folder) or ("", "")
        return title, name and f"figures/{name}.svg"

    @property
    def counts(self) -> str:
        """``10 reproduced, 8 reproduced in part``; claims that it does not ask about are not counted."""
        words = contents_of(self.name).words
        found = Counter(words.get(claim["verdict"], claim["verdict"]) for claim in self.claims)
        return ", ".join(f"{found[verdict]} {verdict}" for verdict in VERDICTS if found[verdict])


def published_studies(folder: Path = PUBLISHED) -> list[Published]:
    """All of them, the paper's first."""
    names = sorted((path.parent.name for path in folder.glob("*/claims.json")), key=lambda name: (name != PAPER, name))
    return [Published(folder / name) for name in names]


# Findings


def short_findings(studies: list[Published]) -> str:
    return _bullets([one for study in studies for one in main_findings_of(study.results)])


def _bullets(findings: list[Finding]) -> str:
    return "".join(f"- **{text(one.headline)}** {text(one.text)}\n" for one in findings)


def findings_page(studies: list[Published]) -> str:
    """A page of the documentation: every study with its first figure and all its findings."""
    intro = (
        "---\nhide: [navigation]\n---\n\n# What we found\n\nEvery study that is published with the code, with its main "
        "figure and its findings. A finding is left out if the numbers do not support it. The reports have intervals, "
        "verdicts with their rules, and every run.\n\n"
    )
    return intro + "\n".join(map(_section, studies))


def _section(study: Published) -> str:
    about = study.about["description"]
    return (
        f"## {study.name}\n\n{text(about[:1].upper() + about[1:]).rstrip('.')}. Verdicts: {study.counts}.\n"
        f"[Open the report](published/{study.name}/report.html)\n\n{hero(study)}\n{_bullets(findings_of(study.results))}"
    )


def hero(study: Published) -> str:
    """The first figure of a study's report below its message."""
    title, file = study.picture
    return f"**{text(title)}**\n\n![{text(title)}](published/{study.name}/{file})\n" if file else ""


# Verdicts


def studies_table(studies: list[Published], root: str) -> str:
    """One row per study: its report below ``root``, its description, and its verdicts."""
    rows = [
        [f"[{study.name}]({root}/{study.name}/report.html)", text(study.about["description"]), study.counts]
        for study in studies
    ]
    return table(["report", "about", "verdicts"], rows)


def surprising_verdicts(studies: list[Published]) -> str:
    """The claims of the paper that were not simply reproduced, one short line each.

    The verdict on a claim that the first study does not ask about is that of a study that does.
    """
    paper, *others = studies
    found = [_asked(claim, paper, others) for claim in paper.claims]
    claims = [claim for claim, _ in found]
    rest = [claim for outcome in SURPRISES for claim in claims if claim["verdict"] == outcome]
    rows = [
        [str(one["id"]), text(one.get("short") or one["statement"]), f"**{one['verdict']}**", text(where(one))]
        for one in rest
    ]
    sources = Counter(name for claim, name in found if claim["verdict"] == REPRODUCED)
    by_study = ", ".join(f"{count} in `{name}`" for name, count in sources.items())
    return (
        f"{len(claims) - len(rest)} of {len(claims)} claims are reproduced ({by_study}). The others:\n\n"
        + table(["", "claim of the paper, in short", "verdict", "how much of it holds, or why not"], rows)
        + _weak(claims)
    )


def _asked(claim: dict[str, Any], paper: Published, others: list[Published]) -> tuple[dict[str, Any], str]:
    """The verdict on a claim, and the study that gives it."""
    if claim["verdict"] == NOT_ASKED:
        for study in others:
            for other in study.claims:
                if other["statement"] == claim["statement"] and other["verdict"] != NOT_ASKED:
                    return other, study.name
    return claim, paper.name


def where(claim: dict[str, Any]) -> str:
    """How many parts of a claim hold, or why it was not judged."""
    if claim["premise"] and not claim["premise"]["holds"]:
        return "what it presumes is not so here"
    answers = Counter(part["holds"] for part in claim["parts"])
    told = [f"{answers[True]} of {len(claim['parts'])} parts hold"]
    told += [f"{answers[False]} fail"] if answers[False] else []
    told += [f"{answers[None]} too close to call"] if answers[None] else []
    return ", ".join(told) if claim["parts"] else claim["note"]


def _weak(claims: list[dict[str, Any]]) -> str:
    """Which verdicts depend on a single seed, or are lost among all claims."""
    kinds = {
        "Fragile (leaving out one seed changes the verdict)": [one for one in claims if one["is_fragile"]],
        "Does not survive Holm's correction over all claims": [
            one for one in claims if one["p_adjusted"] is not None and 2 * one["p_adjusted"] > ERROR_RATE
        ],
    }
    told = [f"{words}: {', '.join(str(one['id']) for one in found)}." for words, found in kinds.items() if found]
    return f"\n{' '.join(told)}\n" if told else ""


# Winners, and how long studies take


def winners_table(published: Path = PUBLISHED) -> str:
    """One row per published study and target: the method with most effective draws per evaluation, bias in bounds."""
    rows = []
    for path in sorted(published.glob("*/tables/winners.csv")):
        study = path.parents[1].name
        with path.open(encoding="utf-8", newline="") as file:
            found = [row for row in csv.DictReader(file) if row["criterion"] == CRITERION and row.get("method")]
        for row in found:
            names = map(text, (task_name(row["variant"]), row["target"], method_name(row["method"])))
            value = format_number(float(row["value"]), 2)
            rows.append([f"[{study}](../published/{study}/report.html)", *names, value, text(_lead(row))])
    headings = ["study", "task", "target", "winner", "effective draws per million evaluations"]
    return table([*headings, "times as many as the next"], rows)


def _lead(row: dict[str, str]) -> str:
    if not row.get("lead"):
        return "no other candidate"
    is_clear = "" if row["is_clear"] == "True" else ", not resolved"
    return f"{format_number(float(row['lead']), 2)} ({method_name(row['rival_method'])}{is_clear})"


def durations_table(studies: Path = STUDIES, published: Path = PUBLISHED) -> str:
    """One row per study of the suite: its description, and the processor time of the published runs."""
    rows = []
    for file in sorted(studies.glob("*.yaml")):
        seconds = sum(budget(read_usage(published / file.stem)).values())
        description = yaml.safe_load(file.read_text(encoding="utf-8"))["description"]
        rows.append([f"`{file.stem}`", text(description), f"{seconds / 60:.0f}" if seconds else ""])
    return table(["study", "about", "processor minutes"], rows)


def budgets_table(published: Path = PUBLISHED) -> str:
    """One row per kind of work: its share of the processor time of every published study."""
    found = {path.parent.name: budget(read_usage(path.parent)) for path in sorted(published.glob("*/usage.log"))}
    budgets = {name: seconds for name, seconds in found.items() if seconds}
    totals = {name: sum(seconds.values()) for name, seconds in budgets.items()}
    shares = {
        kind: [budgets[name].get(kind, 0.0) / total for name, total in totals.items()]
        for kind in dict.fromkeys(kind for seconds in budgets.values() for kind in seconds)
    }
    large = sorted((kind for kind in shares if max(shares[kind]) >= LEAST), key=lambda kind: -sum(shares[kind]))
    rest = [1 - sum(shares[kind][place] for kind in large) for place in range(len(totals))]
    rows = [[kind, text(WORK.get(kind, "")), *map(_percent, shares[kind])] for kind in large]
    rows += [["the rest", "", *map(_percent, rest)]]
    rows += [["all", "processor seconds", *(f"{total:,.0f}" for total in totals.values())]]
    return table(["work", "what it is", *totals], rows)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share else ""
