"""The published studies as README and documentation show them: all in ``reports/published``, whatever their names."""

import json
import textwrap
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from records.study import StudyResults
from reports.contents import contents_of
from reports.findings import Finding, findings_of, main_findings_of
from reports.judging import FRAGILE, stands
from reports.page import SENTENCE_END, SURPRISES, enumerated
from reports.publish import PUBLISHED, first_figure
from reports.strip import DETAIL, short
from reports.types import NOT_ASKED, OUTCOMES, REPRODUCED
from reports.verdicts import FAILS, HOLDS, OPEN
from workflows.markdown import table, text

#: Its claims are what the suite is about; it stands before the others.
PAPER = "paper"
#: Characters of a verdict's line that say where a claim holds: what fits beside it.
MAX_WHERE = 145


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

    @property
    def findings(self) -> list[Finding]:
        """In the words of today, from its numbers."""
        return findings_of(self.results)

    @cached_property
    def picture(self) -> tuple[str, str]:
        """Title and file of the figure that its report begins with; empty where it has none."""
        name, title = first_figure(self.folder) or ("", "")
        return title, name and f"figures/{name}.png"

    @property
    def counts(self) -> str:
        """``10 reproduced, 8 reproduced in part``, in that order; what it does not ask is not counted."""
        words = contents_of(self.name).words
        found = Counter(claim["verdict"] for claim in self.claims)
        outcomes = [words.get(outcome, outcome) for outcome in OUTCOMES if outcome != NOT_ASKED]
        return ", ".join(f"{found[outcome]} {outcome}" for outcome in outcomes if found[outcome])


def published_studies(folder: Path = PUBLISHED) -> list[Published]:
    """All of them, the paper's first."""
    names = sorted((path.parent.name for path in folder.glob("*/claims.json")), key=lambda name: (name != PAPER, name))
    return [Published(folder / name) for name in names]


def short_findings(studies: list[Published]) -> str:
    """What there is to remember of all of them."""
    found = [one for study in studies for one in main_findings_of(study.results)]
    return "".join(f"- **{text(one.headline)}** {text(one.text)}\n" for one in found)


def studies_table(studies: list[Published], root: str) -> str:
    """One row per study: its report below ``root``, what it is about, and how its claims were judged."""
    rows = [
        [
            f"[{study.name}]({root}/{study.name}/report.html)",
            text(study.about["description"]),
            study.counts,
        ]
        for study in studies
    ]
    return table(["report", "about", "verdicts"], rows)


def surprising_verdicts(studies: list[Published]) -> str:
    """The claims of the paper that were not simply reproduced, one short line each.

    A claim that the first study does not ask about has its verdict from another one that does.
    """
    paper, *others = studies
    of_paper = set(contents_of(PAPER).claims)
    asked = {
        claim["id"]: (claim, study.name)
        for study in reversed(others)
        for claim in study.claims
        if claim["id"] in {one.id for one in of_paper.intersection(contents_of(study.name).claims)}
        and claim["verdict"] != NOT_ASKED
    }
    found = [
        asked.get(one["id"], (one, paper.name)) if one["verdict"] == NOT_ASKED else (one, paper.name)
        for one in paper.claims
    ]
    claims = [claim for claim, _ in found]
    rest = sorted(
        (one for one in claims if one["verdict"] != REPRODUCED),
        key=lambda one: (SURPRISES.index(one["verdict"]), one["id"]),
    )
    names = {one.id: short(one) for one in of_paper}
    rows = [
        [
            str(one["id"]),
            text(one.get("short") or names.get(one["id"]) or one["statement"].rstrip(".")),
            f"**{one['verdict']}**",
            text(where(one)),
        ]
        for one in rest
    ]
    sources = Counter(name for claim, name in found if claim["verdict"] == REPRODUCED)
    by_study = ", ".join(f"{count} in `{name}`" for name, count in sources.items())
    said = f"{len(claims) - len(rest)} of {len(claims)} claims are reproduced ({by_study}). The others:\n\n"
    return (
        said
        + table(["", "claim of the paper, in short", "verdict", "where it holds, or why not"], rows)
        + _weak(claims)
    )


def where(claim: dict[str, Any]) -> str:
    """Where a claim holds and where not, or why it was not judged, in at most MAX_WHERE characters.

    A ``claims.json`` that does not say it has the reason, whose numbers are left out.
    """
    found = claim.get("where")
    if not found:
        sentences = SENTENCE_END.split(claim["reason"])
        cases = [
            start + _first_case(sentence.removeprefix(words))
            for sentence in sentences
            for words, start in ((HOLDS, ""), (FAILS, "not "))
            if sentence.startswith(words)
        ]
        if cases and any(sentence.startswith(OPEN) for sentence in sentences):
            cases.append("others too close to call")
        found = "; ".join(cases) or claim["reason"].partition(":")[0]
    return textwrap.shorten(found.rstrip("."), MAX_WHERE, placeholder=" …")


def _first_case(cases: str) -> str:
    """Of several the first, without details; the report has them all."""
    first, *others = enumerated(cases.strip().rstrip("."))
    return DETAIL.sub("", first) + (" and elsewhere" if others else "")


def _weak(claims: list[dict[str, Any]]) -> str:
    """Which verdicts hang on a single seed, or are lost among all claims."""
    kinds = {
        f"{FRAGILE.partition(':')[0]} (leaving out one seed changes the verdict)": [
            one for one in claims if one["robustness"] == FRAGILE
        ],
        "Does not survive Holm's correction over all claims": [
            one for one in claims if one["p_adjusted"] is not None and not stands(one["p_adjusted"])
        ],
    }
    told = [f"{words}: {', '.join(str(one['id']) for one in found)}." for words, found in kinds.items() if found]
    return f"\n{' '.join(told)}\n" if told else ""


def findings_page(studies: list[Published]) -> str:
    """A page of the documentation: every study with its first figure and all its findings."""
    intro = (
        "---\nhide: [navigation]\n---\n\n# What we found\n\nEvery study that is published with the code, with its main "
        "figure and its findings. A finding is left out if the numbers do not support it. The reports have intervals, "
        "verdicts with their rules, and every run.\n\n"
    )
    return intro + "\n".join(map(_section, studies))


def hero(study: Published) -> str:
    """The first figure of a study's report below its message; pages of the documentation turn it dark themselves."""
    title, file = study.picture
    return f"**{text(title)}**\n\n![{text(title)}](published/{study.name}/{file})\n" if file else ""


def _section(study: Published) -> str:
    return (
        f"## {study.name}\n\n{_sentence(study.about['description'])} Verdicts: {study.counts}.\n"
        f"[Open the report](published/{study.name}/report.html)\n\n{hero(study)}\n"
        + "".join(f"- **{text(one.headline)}** {text(one.text)}\n" for one in study.findings)
    )


def _sentence(words: str) -> str:
    return text(words[:1].upper() + words[1:]).rstrip(".") + "."
