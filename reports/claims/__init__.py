"""The paper's claims, each with the verdict that a study's runs give it.

What is claimed is written in our words; the place says where in *Data Subsampling for Bayesian Neural Networks*
(Kawasaki, Adu-Gyamfi, Holzmann), with the paper's own labels. Only converged runs count.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from reports.claims.bias import BIAS
from reports.claims.calibration import CALIBRATION
from reports.claims.cost import COST
from reports.claims.noise import NOISE
from reports.claims.targets import TARGETS
from reports.parts import Claim, Verdict
from reports.study import StudyResults

CLAIMS: tuple[Claim, ...] = tuple(sorted((*BIAS, *NOISE, *CALIBRATION, *TARGETS, *COST), key=lambda claim: claim.id))


def judge_all(study: StudyResults) -> list[tuple[Claim, Verdict]]:
    """Every claim with its verdict, in their order."""
    return [(claim, claim.judge(study)) for claim in CLAIMS]


def as_json(judged: Sequence[tuple[Claim, Verdict]]) -> list[dict[str, Any]]:
    """The content of claims.json."""
    return [
        {
            "id": claim.id,
            "statement": claim.statement,
            "place": claim.place,
            "rule": claim.rule,
            "verdict": verdict.outcome,
            "reason": verdict.reason,
            "evidence": [{"label": one.label, **asdict(one.value), "unit": one.unit} for one in verdict.evidence],
            "runs": list(verdict.runs),
        }
        for claim, verdict in judged
    ]
