"""Was a rule there before the runs that it judges? The history of the code tells."""

import ast
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from reports.claims.rules import FILE, Rule, parse_rules
from reports.ledger import Publication
from reports.types import Claim

ROOT = Path(__file__).parents[1]
CLAIMS = "reports/claims/"
IMPORTED = ("metrics/", "reports/")
#: Code that decides every claim, beside the file with its judge and what such files import from IMPORTED.
SHARED_CODE = (
    "metrics/looks.py",
    "metrics/seeds.py",
    "records/setting_runs.py",
    "reports/evidence.py",
    "reports/judging.py",
    "reports/questions.py",
    "reports/verdicts.py",
)
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


def code_sha256(claim: Claim, commit: str = "") -> str | None:
    """SHA-256 of the code that judges a claim, as it is here or at a commit; None for a judge that is not the suite's.

    Comments, docstrings and layout are no part of it; the words of a reason are. Another Python may have another.
    """
    module = claim.judge.__module__.replace(".", "/") + ".py"
    return _code_sha256(module, commit) if module.startswith(CLAIMS) else None


@lru_cache
def _code_sha256(module: str, commit: str) -> str:
    found: dict[str, str] = {}
    pending = [module, *SHARED_CODE]
    while pending:
        name = pending.pop()
        if name in found:
            continue
        text = _git("show", f"{commit}:{name}") if commit else _read(ROOT / name)
        tree = ast.parse(text or "")
        if name.startswith(CLAIMS):
            imported = (node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
            names = (f"{one.replace('.', '/')}.py" for one in imported)
            pending += [one for one in names if one.startswith(IMPORTED)]
        found[name] = _bare(tree)
    return hashlib.sha256("\n".join(found[name] for name in sorted(found)).encode()).hexdigest()


def _read(path: Path) -> str:
    """What a package imports by its own name is no file."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _bare(tree: ast.Module) -> str:
    """Code without comments and docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def code_changed(claim: Claim, commits: Mapping[str, bool]) -> str:
    """Since which of the runs' commits the code that judges has changed, in words; empty if since none."""
    ours = code_sha256(claim)
    for commit in sorted(commits):
        if ours is not None and rules_at(commit) is not None and code_sha256(claim, commit) != ours:
            return f"the code that judges has changed since commit {commit[:12]} of the runs"
    return ""


def seen_before(claim: Claim, earlier: Sequence[Publication]) -> str:
    """What has changed since the same seeds were first published, in words; empty if nothing.

    Between their first run and this one the rule and its code may have been made to suit what they say.
    """
    rule = claim.registered
    changed = ""
    for publication, commit in ((one, commit) for one in earlier for commit in one.commits):
        seeds = ", ".join(map(str, publication.seeds))
        told = f"same seeds ({seeds}) first published on {publication.date}, run by commit {commit[:12]}"
        found = rules_at(commit)
        if found is None:
            return f"{UNKNOWN}: {told}, which is not in this history"
        if rule is not None and rule.id not in found:
            return f"{POST_HOC}: {told}; there was no such rule then"
        if rule is not None and found[rule.id] != rule.sha256:
            return f"{POST_HOC}: {told}; the rule has changed since"
        if not changed and code_sha256(claim, commit) != code_sha256(claim):
            changed = f"{told}; the code that judges has changed since"
    return changed


def _git(*arguments: str) -> str | None:
    """What git answers, None where it has no answer or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout
