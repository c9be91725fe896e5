"""Claims on file: what makes a rule another rule, and whether it was there before the runs."""

import json
import subprocess
from pathlib import Path

import pytest

from implementations.infrastructure.errors import SettingError
from records.setting_runs import MAX_R_HAT, MIN_ESS
from reports import claim_file
from reports.claim_file import BEFORE, FILE, POST_HOC, UNKNOWN, claim_of, claims_of, parse_claims, registered
from reports.judge import NOT_REPRODUCED, REPRODUCED, verdict_of
from reports.publish import PUBLISHED
from tests.reports.worlds import paper_world, study

TEXT = FILE.read_text(encoding="utf-8")
#: A claim as it was on file when code judged it, and the same as data.
OLD = """
shared: {max_r_hat: 1.05, min_ess: 400, width: 0.1}
claims:
  1:
    seeds: {start: 4, at_most: 4}
    far: 0.3
    rule: it lies within {width} and not beyond {far}
"""
NEW = """
shared: {max_r_hat: 1.05, min_ess: 400, width: 0.1}
claims:
  1:
    studies: [paper]
    short: It is near
    statement: It is near.
    seeds: 4
    margins: {far: 0.3}
    rule: it lies within {width} and not beyond {far}
    runs: {method: pbnn}
    parts:
      - ask: [{column: sd_ratio, within: width, around: 1}]
"""


def test_published_rules_are_still_the_same():
    for path in PUBLISHED.glob("*/claims.json"):
        published = {one["id"]: one["rule_sha256"] for one in json.loads(path.read_text())["claims"]}
        assert published == {claim.id: claim.rule_sha256 for claim in claims_of(path.parent.name)}


def test_every_study_has_its_claims_and_others_are_asked_what_the_paper_claims():
    assert [claim.id for claim in claims_of("paper")] == list(range(1, 21))
    assert [claim.id for claim in claims_of("calibration")] == [13, 51, 52, 53, 54]
    assert [claim.id for claim in claims_of("layers")] == [20]
    assert claims_of("my_own") == claims_of("paper")
    for claim in (*claims_of("paper"), *claims_of("tall"), *claims_of("rivals")):
        assert claim.statement and claim.short and "{" not in claim.rule


def test_the_gate_is_that_of_the_file():
    assert (claim_of(1).margins["max_r_hat"], claim_of(1).margins["min_ess"]) == (MAX_R_HAT, MIN_ESS)


@pytest.mark.parametrize(
    ("old", "new", "touched"),
    [
        ("  width: 0.1", "  width: 0.2", {1, 2, 9, 10, 17, 20, 41}),
        ("same_accuracy: 1.0", "same_accuracy: 2.0", {7}),
        ("seeds: 16", "seeds: 8", {6}),
        ("lies above 0 and that of log", "lies above 1 and that of log", {3}),
        # Words for the reader are no part of a rule.
        ("short: The penalty costs acceptance", "short: It costs", set()),
    ],
)
def test_a_rule_is_another_when_its_text_margin_or_seeds_are(old, new, touched):
    assert old in TEXT
    found = parse_claims(TEXT.replace(old, new, 1))
    assert {number for number, claim in found.items() if claim.rule_sha256 != claim_of(number).rule_sha256} == touched


def test_a_margin_is_changed_in_one_place():
    world = study(paper_world())
    wider = parse_claims(TEXT.replace("  width: 0.1", "  width: 0.9", 1))[1]
    assert verdict_of(claim_of(1), world).outcome == REPRODUCED
    assert verdict_of(wider, world).outcome == NOT_REPRODUCED


def test_an_entry_is_all_that_a_claim_takes():
    verdict = verdict_of(parse_claims(NEW)[1], study([one for one in paper_world() if one["task"] == "linear"]))
    assert verdict.outcome == REPRODUCED and len(verdict.evidence) == 8


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("column: sd_ratio", "colum: sd_ratio", "no key 'colum'; did you mean 'column'?"),
        ("column: sd_ratio", "column: sd_ration", "no column 'sd_ration'; did you mean 'sd_ratio'?"),
        ("within: width", "within: widht", "no margin 'widht'; did you mean 'width'?"),
        ("column: sd_ratio", "column: sd_ratio, take: firts", "no take 'firts'; did you mean 'first'?"),
        ("{method: pbnn}", "{methd: pbnn}", "no column 'methd'; did you mean 'method'?"),
    ],
)
def test_a_name_that_means_nothing_is_refused(old, new, complaint):
    with pytest.raises(SettingError) as error:
        parse_claims(NEW.replace(old, new))
    assert str(error.value) == f"claims.yaml, claim 1: {complaint}"


@pytest.fixture
def commit(tmp_path, monkeypatch):
    """A made-up repository: a function that commits the files it is given and returns the commit's name."""
    monkeypatch.setattr(claim_file, "ROOT", tmp_path)
    monkeypatch.setattr(claim_file, "FILE", tmp_path / "reports" / "claims.yaml")

    def git(*arguments: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def make(**files: str) -> str:
        for name, text in files.items():
            path = tmp_path / {"old": claim_file.OLD_FILE, "new": "reports/claims.yaml"}[name]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git("add", ".")
        git("commit", "--quiet", "--allow-empty", "--message", "a commit")
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    claim_file._claims_at.cache_clear()
    yield make
    claim_file._claims_at.cache_clear()


def test_a_rule_that_was_not_there_at_the_commit_of_the_runs_is_post_hoc(commit):
    (claim,) = parse_claims(NEW).values()
    nothing = commit()
    as_code, as_other_code = commit(old=OLD), commit(old=OLD.replace("0.3", "0.2"))
    as_data, as_other_data = commit(new=NEW), commit(new=NEW.replace("around: 1", "around: 2"))
    in_other_words = commit(new=NEW.replace("It is near.", "It is not far."))
    for made, answer in (
        ({nothing: False}, POST_HOC),
        ({as_code: False}, BEFORE),
        ({as_other_code: False}, POST_HOC),
        ({as_data: False}, BEFORE),
        # The text of the rule is the same, what is judged is not.
        ({as_other_data: False}, POST_HOC),
        ({in_other_words: False}, BEFORE),
        ({as_code: False, as_data: False}, BEFORE),
        ({as_data: False, as_other_code: False}, POST_HOC),
        # Its code was changed without a commit; or is in no commit of this history.
        ({as_data: True}, UNKNOWN),
        ({"0" * 40: False}, UNKNOWN),
        ({"--help": False}, UNKNOWN),
        ({}, UNKNOWN),
    ):
        assert registered(claim, made) == answer


def test_published_verdicts_were_registered_before_their_runs():
    history = subprocess.run(["git", "-C", str(Path(__file__).parent), "rev-parse", "--is-shallow-repository"],
                             capture_output=True, text=True)  # fmt: skip
    if history.stdout.strip() != "false":
        pytest.skip("no whole history here")
    commit = json.loads((PUBLISHED / "paper" / "claims.json").read_text())["commit"]
    assert {registered(claim, {commit: False}) for claim in claims_of("paper")} == {BEFORE}
