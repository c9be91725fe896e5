"""Seeds that were published before are no longer from before the runs, once the rule or its code has changed."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from records.summary import read_rows
from reports import ledger, registration
from reports.claims import CLAIMS
from reports.claims.rules import parse_rules
from reports.judging import judge_claims
from reports.ledger import Publication, enter, publications, published_before
from reports.registration import seen_before
from tests.reports.test_claims import study, world

RULE = "shared: {max_r_hat: 1.05}\nclaims:\n  1:\n    seeds: {start: 4, at_most: 4}\n    rule: {text}\n"
JUDGE = "reports/claims/bias.py"


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """A made-up repository: a function that commits the text of the rule and the code of the judge."""
    rules = tmp_path / "reports" / "claims" / "rules.yaml"
    rules.parent.mkdir(parents=True)
    monkeypatch.setattr(registration, "ROOT", tmp_path)
    monkeypatch.setattr(registration, "FILE", rules)
    registration.rules_at.cache_clear()
    registration._code_sha256.cache_clear()

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        return subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *arguments], capture_output=True, text=True, check=True
        ).stdout.strip()

    def make(text: str, code: str) -> str:
        rules.write_text(RULE.replace("{text}", text))
        (tmp_path / JUDGE).write_text(code)
        git("add", ".")
        git("commit", "--quiet", "--allow-empty", "--message", "a commit")
        # What is here is what was committed last.
        registration._code_sha256.cache_clear()
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    yield make
    registration.rules_at.cache_clear()
    registration._code_sha256.cache_clear()


def claim_of(text: str):
    """A claim of the file that is made up, with that rule as it is now."""
    rule = parse_rules(RULE.replace("{text}", text))[1]
    return replace(next(claim for claim in CLAIMS if claim.id == 1), registered=rule)


def published(*commits: str) -> list[Publication]:
    return [Publication("2026-01-02", list(commits), [0, 1])]


def test_seeds_that_were_published_before_say_what_has_changed_since(commit):
    first = commit("above 1", "bound = 1")
    told = f"same seeds (0, 1) first published on 2026-01-02, run by commit {first[:12]}"
    commit("above 1", "# A comment.\nbound = 1")
    assert seen_before(claim_of("above 1"), published(first)) == ""
    assert seen_before(claim_of("above 1"), []) == ""
    commit("above 1", "bound = 2")
    assert seen_before(claim_of("above 1"), published(first)) == f"{told}; the code that judges has changed since"
    commit("above 3", "bound = 1")
    assert seen_before(claim_of("above 3"), published(first)) == f"post hoc: {told}; the rule has changed since"
    (other,) = parse_rules(RULE.replace("  1:", "  2:").replace("{text}", "above 1")).values()
    assert seen_before(replace(claim_of("above 1"), registered=other), published(first)) == (
        f"post hoc: {told}; there was no such rule then"
    )
    unknown = seen_before(claim_of("above 3"), published("0" * 40))
    assert unknown.startswith("unknown: ") and unknown.endswith("is not in this history")


def test_running_the_same_seeds_again_does_not_make_a_rule_older(commit, tmp_path, monkeypatch):
    """The runs are of the present code, but what they say has been public since before it was written."""
    first, beside = commit("above 1", "bound = 1"), commit("above 1", "bound = 1")
    now = commit("above 1", "bound = 2")
    claim = claim_of("above 1")
    monkeypatch.setattr(ledger, "FILE", tmp_path / "ledger.json")
    again = study([row | {"git_commit": now, "git_is_dirty": False} for row in world()])

    def said(judged) -> str:
        (result,) = judge_claims([claim], judged)
        return result.registration

    assert said(again) == "before the runs; 3 of 4 seeds"
    # Of the seeds 0 to 2 that it rests on, the first; other runs of that publication are of another commit.
    enter(ledger.FILE, again.name, [{"git_commit": first, "seed": 0}, {"git_commit": beside, "seed": 9}])
    assert said(again).startswith("same seeds (0) first published on ")
    assert said(again).endswith("; the code that judges has changed since; 3 of 4 seeds")
    # The publication itself is judged as ever, and so are seeds that nobody has seen.
    itself = study([row | {"git_commit": first, "git_is_dirty": False} for row in world()])
    assert said(itself) == (
        f"before the runs; 3 of 4 seeds; the code that judges has changed since commit {first[:12]} of the runs"
    )
    new = study([row | {"git_commit": now, "git_is_dirty": False, "seed": row["seed"] + 20} for row in world()])
    assert said(new) == "before the runs; 3 of 4 seeds"


def test_the_ledger_keeps_the_first_publication_of_every_seed(tmp_path):
    file = tmp_path / "ledger.json"
    enter(
        file,
        "mine",
        [{"git_commit": "a", "seed": "0"}, {"git_commit": "b", "seed": "1"}, {"git_commit": "", "seed": "7"}],
    )
    enter(file, "mine", [{"git_commit": "c", "seed": "1"}, {"git_commit": "c", "seed": "2"}])
    enter(file, "other", [{"git_commit": "c", "seed": "0"}])
    before = file.read_text()
    enter(file, "mine", [{"git_commit": "d", "seed": "2"}, {"seed": "8"}])
    assert file.read_text() == before
    found = publications("mine", file)
    assert [(one.commits, one.seeds) for one in found] == [(["a", "b"], [0, 1]), (["c"], [2])]
    assert json.loads(before).keys() == {"mine", "other"}
    assert publications("none", file) == []


def test_every_published_seed_is_in_the_ledger():
    for summary in ledger.FILE.parent.glob("*/summary.csv"):
        name = Path(summary).parent.name
        seeds = {int(row["seed"]) for row in read_rows(summary) if row["git_commit"]}
        assert seeds <= {seed for one in publications(name) for seed in one.seeds}, name
        assert published_before(name, seeds, ["of these runs"])
