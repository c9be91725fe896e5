"""Was a rule there before the runs that it judges? The history of the code tells."""

import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from reports.claims.rules import FILE, Rule, parse_rules

ROOT = Path(__file__).parents[1]
BEFORE, POST_HOC, UNKNOWN = "before the runs", "post hoc", "unknown"


def registration(rule: Rule | None, commits: Mapping[str, bool]) -> str:
    """In words: ``before the runs``, ``post hoc: …`` or ``unknown: …``.

    ``commits`` are those of the code that made the runs, each with whether that code was changed without a commit.
    """
    if rule is None:
        return f"{UNKNOWN}: the rule is not on file"
    if not commits:
        return f"{UNKNOWN}: no runs, or of code that is in no commit"
    for commit, is_dirty in sorted(commits.items()):
        found = rules_at(commit)
        short = commit[:12]
        if found is None:
            return f"{UNKNOWN}: commit {short} of the runs is not in this history"
        if rule.id not in found:
            return f"{POST_HOC}: at commit {short} of the runs there was no such rule"
        if found[rule.id] != rule.sha256:
            return f"{POST_HOC}: the rule has changed since commit {short} of the runs"
        if is_dirty:
            return f"{UNKNOWN}: the runs' code had changes that are in no commit"
    return BEFORE


@lru_cache
def rules_at(commit: str) -> dict[int, str] | None:
    """SHA-256 of every rule at a commit, none where the file was not there; None where the commit is not."""
    if not commit.isalnum() or _git("cat-file", "-e", f"{commit}^{{commit}}") is None:
        return None
    text = _git("show", f"{commit}:{FILE.relative_to(ROOT).as_posix()}")
    return {} if text is None else {number: rule.sha256 for number, rule in parse_rules(text).items()}


def _git(*arguments: str) -> str | None:
    """What git answers, None where it has no answer or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
