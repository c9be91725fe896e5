"""Which claims and figures belong to the report of which study."""

from reports.claim_file import claims_of
from reports.figures import CALIBRATION_FIGURES, FIGURES, LAYERS_FIGURES, RIVALS_FIGURES, TALL_FIGURES
from reports.judge import IN_PART, NOT_REPRODUCED, REPRODUCED
from reports.types import Contents

PAPER = Contents(claims_of("paper"), FIGURES)
#: The heading and words of studies whose claims are their own.
_QUESTIONS = ("Questions and verdicts", "question", {REPRODUCED: "yes", IN_PART: "in part", NOT_REPRODUCED: "no"})
CONTENTS = {
    "calibration": Contents(claims_of("calibration"), CALIBRATION_FIGURES, *_QUESTIONS),
    "layers": Contents(claims_of("layers"), LAYERS_FIGURES),
    "tall": Contents(claims_of("tall"), TALL_FIGURES, *_QUESTIONS),
    "rivals": Contents(claims_of("rivals"), RIVALS_FIGURES, *_QUESTIONS, has_leaderboard=True),
}


def contents_of(study: str) -> Contents:
    """Those of a study by name; a study without any of its own is asked what the paper claims."""
    return CONTENTS.get(study, PAPER)
