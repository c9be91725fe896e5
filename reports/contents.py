"""Which claims and figures belong to the report of which study."""

from reports.claims import CLAIMS
from reports.claims.overconfidence import OVERCONFIDENCE
from reports.claims.rivals import RIVALS
from reports.claims.tall import TALL
from reports.figures import CALIBRATION_FIGURES, FIGURES, LAYERS_FIGURES, RIVALS_FIGURES, TALL_FIGURES
from reports.types import IN_PART, NOT_REPRODUCED, REPRODUCED, Contents

PAPER = Contents(CLAIMS, FIGURES)
_QUESTIONS = ("Questions and verdicts", "question", {REPRODUCED: "yes", IN_PART: "in part", NOT_REPRODUCED: "no"})
CONTENTS = {
    "calibration": Contents(OVERCONFIDENCE, CALIBRATION_FIGURES, *_QUESTIONS),
    "layers": Contents(tuple(claim for claim in CLAIMS if claim.id == 20), LAYERS_FIGURES),
    "tall": Contents(TALL, TALL_FIGURES, *_QUESTIONS),
    "rivals": Contents(RIVALS, RIVALS_FIGURES, *_QUESTIONS, has_leaderboard=True),
}


def contents_of(study: str) -> Contents:
    """Those of a study by name; one without any of its own is asked what the paper claims."""
    return CONTENTS.get(study, PAPER)
