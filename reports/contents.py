"""Which claims, figures and findings belong to the report of which study."""

from records.study import StudyResults
from reports.claims import CLAIMS
from reports.claims.overconfidence import OVERCONFIDENCE
from reports.claims.rivals import RIVALS
from reports.claims.tall import TALL
from reports.figures import CALIBRATION_FIGURES, FIGURES, LAYERS_FIGURES, RIVALS_FIGURES, TALL_FIGURES
from reports.findings.calibration import OF_CALIBRATION
from reports.findings.layers import OF_LAYERS
from reports.findings.paper import OF_PAPER
from reports.findings.rivals import OF_RIVALS
from reports.findings.tall import OF_TALL
from reports.types import IN_PART, NOT_REPRODUCED, REPRODUCED, Contents, Finding, NothingToShow

PAPER = Contents(CLAIMS, FIGURES, OF_PAPER)
_QUESTIONS = ("Questions and verdicts", "question", {REPRODUCED: "yes", IN_PART: "in part", NOT_REPRODUCED: "no"})
CONTENTS = {
    "calibration": Contents(OVERCONFIDENCE, CALIBRATION_FIGURES, OF_CALIBRATION, *_QUESTIONS),
    "layers": Contents(tuple(claim for claim in CLAIMS if claim.id == 20), LAYERS_FIGURES, OF_LAYERS),
    "tall": Contents(TALL, TALL_FIGURES, OF_TALL, *_QUESTIONS),
    "rivals": Contents(RIVALS, RIVALS_FIGURES, OF_RIVALS, *_QUESTIONS, has_leaderboard=True),
}


def contents_of(study: str) -> Contents:
    """Those of a study by name; one without any of its own is asked what the paper claims."""
    return CONTENTS.get(study, PAPER)


def findings_of(study: StudyResults) -> list[Finding]:
    """Those that the study has the runs for, and whose words its numbers bear out; numbers do not choose words."""
    found = []
    for rule in contents_of(study.name).findings:
        try:
            found.append(rule(study))
        except NothingToShow:
            continue
    return found
