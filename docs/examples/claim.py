"""A claim of our own: with the gradient in the proposal, the penalty chain is still as wide as it should be."""

from records.display import format_estimate
from records.study import StudyResults
from reports.evidence import settings
from reports.questions import lies_within
from reports.types import Claim, Evidence, Verdict
from reports.verdicts import guarded, verdict

#: A difference of a tenth is not seen in a figure.
SAME_WIDTH = 0.1


@guarded
def _is_as_wide(study: StudyResults) -> Verdict:
    found = settings(study, variant="regression", method="pbnn_mala")
    widths = [Evidence(f"sd ratio of {one['label']}", one.estimate("sd_ratio")) for one in found]
    questions = [lies_within(width, 1 - SAME_WIDTH, 1 + SAME_WIDTH) for width in widths]
    numbers = ", ".join(format_estimate(width.value) for width in widths)
    return verdict(
        questions,
        found,
        conclusions={True: f"It is: sd ratio {numbers}.", False: f"It is not: sd ratio {numbers}."},
    )


CLAIM = Claim(
    id=101,
    short="Penalised MALA samples its target",
    statement="Penalised MALA samples the tempered posterior of the regression.",
    place="PBNN MH acceptance",
    rule=f"The predictive sd of every setting of pbnn_mala lies within {SAME_WIDTH} of the exact one.",
    judge=_is_as_wide,
)
