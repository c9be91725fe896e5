"""The strip of verdicts: where a claim holds, in a line that a reader takes in at once."""

import pytest

from reports.contents import CONTENTS, PAPER
from reports.strip import SHORT, short, where
from reports.verdicts import FAILS, HOLDS, OPEN
from tests.reports.studies import claim

CLAIMS = {one.id: one for contents in (PAPER, *CONTENTS.values()) for one in contents.claims}
#: Of a line beside the figure.
MAX_LETTERS = 65


def test_every_claim_has_a_short_name_and_every_short_name_a_claim():
    assert SHORT.keys() == CLAIMS.keys()
    assert all(len(text) <= MAX_LETTERS and not text.endswith(".") for text in SHORT.values())
    assert short(claim(101)) == "Statement 101", "one of a user's own is called by its statement"


@pytest.mark.parametrize(
    ("holds", "fails", "still_open", "text"),
    [
        ((), (), (), ""),
        # What tells the cases apart is said once, and details that do not are left out.
        (
            ("with M=10", "with M=10, N finite"),
            ("with M=2", "with M=2, N finite"),
            ("with M=5",),
            "with M=10; not with M=2; 1 case too close to call",
        ),
        (("for the ECE at n=5 (the paper's)", "for the ECE at n=10"), ("for the CRPS at n=5",), (),
         "for the ECE at n=5 and n=10; not for the CRPS at n=5"),
        (("on regression", "on mnist"), ("on linear",), (), "on regression and mnist; not on linear"),
        # Without the details a case would hold and not hold.
        (("on linear (N = 1,000)",), ("on linear (N = 10)",), (), "on linear (N = 1,000); not on linear (N = 10)"),
        (
            tuple(f"with M={number}" for number in range(4)), ("with M=9",), ("here", "there"),
            "in 4 cases; not with M=9; 2 cases too close to call",
        ),
    ],
)  # fmt: skip
def test_where_a_claim_holds_is_said_in_a_line(holds, fails, still_open, text):
    cases = {words: names for words, names in ((HOLDS, holds), (FAILS, fails), (OPEN, still_open)) if names}
    assert where(cases) == text
