"""The claims in ``claims.yaml``, and whether the rule of one was there before the runs that it judges."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from implementations.infrastructure.errors import SettingError, unknown
from records.columns import COLUMNS, DERIVED

ROOT = Path(__file__).parents[1]
FILE = Path(__file__).with_name("claims.yaml")
#: Where the rules were before; the published runs are of commits that have this file.
OLD_FILE = "reports/claims/rules.yaml"
#: The study whose claims are those of every study that no claim names.
PAPER = "paper"
#: Keys of an entry that do not say how a claim is judged.
WORDS = ("studies", "short", "statement", "place", "seeds", "looks", "rule", "margins")
#: Keys that do (docs/extend.md explains them): which runs are put side by side, and which of their numbers are held
#: against what, in which parts.
RUNS = ("runs", "without", "gate", "has", "pick", "versus", "over", "same", "factor", "alone")
SIDES = ("above", "below", "within", "outside")
NUMBERS = ("column", "what", "take", *SIDES, "around")
TAKES = (
    *("value", "first", "last", "difference", "first - last", "last - first", "last / first"),
    *("each step", "exponent", "measured"),
)
PARTS = ("parts", "name", "each", "holds_if", "optional", "ask", "premise", "also_show", "special")
KEYS = (*RUNS, *NUMBERS, *PARTS)

#: Was the rule on file before the runs? Unknown where the code of the runs is in no commit of this history.
BEFORE, POST_HOC, UNKNOWN = "before", "post hoc", "unknown"


@dataclass(frozen=True)
class Claim:
    """An entry of ``claims.yaml``."""

    id: int
    #: The studies whose reports list it.
    studies: tuple[str, ...]
    statement: str
    #: In a few words.
    short: str
    #: Section, figure or equation of the paper; empty where the claim is not the paper's.
    place: str
    #: How it is judged, for the reader.
    rule: str
    #: Of more, none counts.
    seeds: int
    #: How often it was to be judged as seeds come in; each time spends an equal part of the chance of error.
    num_looks: int
    margins: Mapping[str, float]
    #: Of number, rule, margins and seeds.
    rule_sha256: str
    #: The rule as data: what ``judged_parts`` reads.
    entry: Mapping[str, Any]

    def number(self, name: str | float) -> float:
        """A margin by its name, or the number itself."""
        return self.margins[name] if isinstance(name, str) else name


@cache
def _content() -> tuple[dict[int, Claim], dict[str, dict[str, str]]]:
    text = FILE.read_text(encoding="utf-8")
    return parse_claims(text), _parsed(text)["quantities"]


def claim_of(number: int) -> Claim:
    return _content()[0][number]


def claims_of(study: str) -> tuple[Claim, ...]:
    """The claims that a study's report lists, by number; of a study that none names, the paper's."""
    found = sorted(_content()[0].values(), key=lambda claim: claim.id)
    return tuple(one for one in found if study in one.studies) or tuple(one for one in found if PAPER in one.studies)


def quantities() -> dict[str, dict[str, str]]:
    """What the numbers of a column are called (``what``), and their unit."""
    return _content()[1]


def parse_claims(text: str) -> dict[int, Claim]:
    """The claims of a file's text, by number; also of OLD_FILE, whose entries had no words and kept margins loose."""
    content = _parsed(text)
    return {int(number): _claim(int(number), entry, content["shared"]) for number, entry in content["claims"].items()}


def _parsed(text: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return content


def _claim(number: int, entry: Mapping[str, Any], shared: Mapping[str, float]) -> Claim:
    if isinstance(entry["seeds"], dict):
        looks = [entry["seeds"]["start"], entry["seeds"]["at_most"]]
        own = {name: value for name, value in entry.items() if name not in ("seeds", "rule")}
        entry = {"seeds": entry["seeds"], "rule": entry["rule"]}
    else:
        looks = entry.get("looks", [entry["seeds"]])
        own = entry.get("margins", {})
    margins = {**shared, **own}
    # Only what its own text or the gate speaks of: another rule's margin is no concern of this one.
    named = sorted(
        (name, value)
        for name, value in margins.items()
        if name in own or name in ("max_r_hat", "min_ess") or f"{{{name}}}" in entry["rule"]
    )
    rule = entry["rule"].strip().format(**margins)
    registered = json.dumps([number, rule, named, looks[0], looks[-1]])
    judged = {name: value for name, value in entry.items() if name not in WORDS}
    _check_names(f"claim {number}", judged, margins)
    return Claim(
        id=number,
        studies=tuple(entry.get("studies", ())),
        statement=entry.get("statement", ""),
        short=entry.get("short", ""),
        place=entry.get("place", ""),
        rule=rule,
        seeds=looks[-1],
        num_looks=len(looks),
        margins=margins,
        rule_sha256=hashlib.sha256(registered.encode()).hexdigest(),
        entry=judged,
    )


def _check_names(where: str, entry: Mapping[str, Any], margins: Mapping[str, float]) -> None:
    """Refuse a name that means nothing: a mistyped column or margin would decide otherwise, or nothing, in silence."""
    runs = entry.get("runs", [])
    selections = [*(runs if isinstance(runs, list) else [runs]), entry.get("without", {}), entry.get("versus", {})]
    columns = [name for one in selections if isinstance(one, dict) for name in one]
    bounds = [entry[side] for side in SIDES if isinstance(entry.get(side), str)]
    for kind, names, valid in (
        ("key", list(entry), KEYS),
        ("column", [*columns, entry.get("column", "run")], [*COLUMNS, *DERIVED]),
        ("margin", bounds, margins),
        ("take", [entry.get("take", "value")], TAKES),
    ):
        if wrong := [name for name in names if name not in valid]:
            raise SettingError(f"claims.yaml, {where}: {unknown(kind, wrong[0], valid)}")
    premise = [entry["premise"]] if "premise" in entry else []
    for level in (*entry.get("parts", ()), *entry.get("ask", ()), *entry.get("also_show", ()), *premise):
        _check_names(where, level, margins)


def registered(claim: Claim, commits: Mapping[str, bool]) -> str:
    """Was the rule on file, as it is, at all commits of the runs? Of each it is given whether the code was changed."""
    answers = {_at(claim, commit, is_dirty) for commit, is_dirty in commits.items()}
    return next((one for one in (POST_HOC, UNKNOWN, BEFORE) if one in answers), UNKNOWN)


def _at(claim: Claim, commit: str, is_dirty: bool) -> str:
    found = _claims_at(commit)
    if found is None:
        return UNKNOWN
    then = found.get(claim.id)
    # Until claims were data, code applied the rule: there is nothing to compare with.
    if then is None or then.rule_sha256 != claim.rule_sha256 or (then.studies and then.entry != claim.entry):
        return POST_HOC
    return UNKNOWN if is_dirty else BEFORE


@cache
def _claims_at(commit: str) -> dict[int, Claim] | None:
    """The claims on file at a commit; None where the commit is not in this history."""
    if not commit.isalnum() or _git("cat-file", "-e", f"{commit}^{{commit}}") is None:
        return None
    texts = (_git("show", f"{commit}:{path}") for path in (FILE.relative_to(ROOT).as_posix(), OLD_FILE))
    return next((parse_claims(text) for text in texts if text is not None), {})


def _git(*arguments: str) -> str | None:
    """What git answers, None where it has no answer or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
