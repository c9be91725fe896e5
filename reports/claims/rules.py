"""The rules by which claims are judged, from a file that is older than the runs."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from metrics.looks import looks
from metrics.seeds import ALPHA
from records.study import StudyResults

FILE = Path(__file__).with_name("rules.yaml")
#: Keys of an entry that are not margins.
_WORDS = ("seeds", "rule")


@dataclass(frozen=True)
class Rule:
    """How one claim is judged."""

    id: int
    text: str
    #: Numbers that decide, by name, those that all rules share among them.
    margins: tuple[tuple[str, float], ...]
    #: Seeds at the first look, and those beyond which none counts.
    start: int
    at_most: int

    def __getitem__(self, name: str) -> float:
        return dict(self.margins)[name]

    def alpha(self, study: StudyResults) -> float:
        """Chance of a wrong answer on either side at one look: all looks together have that of an interval."""
        return ALPHA / len(study.looks or looks(self.start, self.at_most))

    @cached_property
    def sha256(self) -> str:
        """Of what is on file; ``reports.registration.code_sha256`` is that of the code which applies it."""
        content = [self.id, self.text, self.margins, self.start, self.at_most]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def parse_rules(text: str) -> dict[int, Rule]:
    """The rules of a file's text, by the claim's number."""
    content: dict[str, Any] = yaml.safe_load(text)
    found = {}
    for number, entry in content["claims"].items():
        margins = content["shared"] | {name: value for name, value in entry.items() if name not in _WORDS}
        # Only what its own text or gate speaks of: another rule's margin is no concern of this one.
        own = tuple(
            (name, value)
            for name, value in sorted(margins.items())
            if name in entry or name in ("max_r_hat", "min_ess") or f"{{{name}}}" in entry["rule"]
        )
        words = entry["rule"].strip().format(**dict(own))
        found[int(number)] = Rule(int(number), words, own, entry["seeds"]["start"], entry["seeds"]["at_most"])
    return found


RULES = parse_rules(FILE.read_text(encoding="utf-8"))
