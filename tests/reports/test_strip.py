"""The strip of verdicts: where a claim holds, in a line that a reader takes in at once."""

import pytest

from reports.contents import CONTENTS, PAPER
from reports.strip import short, where
from reports.types import IN_PART, Verdict
from reports.verdicts import FAILS, HOLDS, OPEN
from tests.reports.studies import claim

CLAIMS = {one.id: one for contents in (PAPER, *CONTENTS.values()) for one in contents.claims}
#: Of a line beside the figure.
MAX_LETTERS = 78


def test_every_claim_of_the_suite_has_a_short_name_of_its_own():
    names = [one.short for one in CLAIMS.values()]
    assert len(set(names)) == len(CLAIMS)
    assert all(text and len(text) <= MAX_LETTERS and not text.endswith(".") for text in names)
    assert short(claim(101)) == "Statement 101", "one of a user's own is called by its statement"


@pytest.mark.parametrize(
    ("holds", "fails", "num_open", "text"),
    [
        # What tells the cases apart is said once, and details that do not are left out.
        (
            ("with σ² estimated at M=10", "with σ² estimated for a finite data set at M=10, η=5e−5 and at M=10"),
            ("with σ² estimated at M=2",),
            1,
            "with σ² estimated at M=10; not with σ² estimated at M=2; 1 case too close to call",
        ),
        (
            ("for the ECE at n=5 (the paper's, by HMC (blackjax)) and at n=10 (chosen)",),
            ("for the CRPS at n=5",),
            0,
            "for the ECE at n=5 and n=10; not for the CRPS at n=5",
        ),
        # One name that begins like another is another.
        (("on linear and on linear-own",), ("on mnist",), 0, "on linear and linear-own; not on mnist"),
        (("on regression and mnist",), ("on linear",), 0, "on regression and mnist; not on linear"),
        # Cases that details alone tell apart are said once, and neither hold nor fail where they do both.
        (
            ("on linear with M=5, η=0.0002 and with M=10, η=0.0002 and with M=5, η=0.0013 and with M=10, η=0.0013",),
            ("on linear with M=2, η=0.0002 and with M=2, η=0.0013",),
            0,
            "on linear with M=5 and M=10; not on linear with M=2",
        ),
        (
            ("with σ² known", "with σ² estimated at M=5, η=5e−5 and at M=10, η=5e−5"),
            ("with σ² estimated at M=2, η=5e−5 and at M=5, η=0.0013",),
            0,
            "with σ² known, with σ² estimated at M=10; not with σ² estimated at M=2; mixed with σ² estimated at M=5",
        ),
        (("on linear with M=2", "on linear with M=5"), ("on mnist",), 0, "on linear with M=2 and M=5; not on mnist"),
        # Without the details a case would hold and not hold.
        (("on linear (N = 1,000)",), ("on linear (N = 10)",), 0, "on linear (N = 1,000); not on linear (N = 10)"),
        (tuple(f"with M={number}" for number in range(4)), ("with M=9",), 0, "in 4 cases; not with M=9"),
        (tuple(f"on linear (N = {number})" for number in range(4)), ("on linear (N = 9)",), 0, "in 4 of 5 cases"),
    ],
)
def test_where_a_claim_holds_is_said_in_a_line(holds, fails, num_open, text):
    cases = {HOLDS: holds, FAILS: fails, **({OPEN: ("here",)} if num_open else {})}
    answers = [*((name, True) for name in holds), *((name, False) for name in fails), *[("here", None)] * num_open]
    assert where(Verdict(IN_PART, "", cases=cases, answers=tuple(answers))) == text
