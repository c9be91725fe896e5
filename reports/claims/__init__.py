"""The paper's claims, each with the verdict that a study's runs give it.

What is claimed is written in our words; the place says where in *Data Subsampling for Bayesian Neural Networks*
(Kawasaki, Adu-Gyamfi, Holzmann), with the paper's own labels. Only converged runs count, unless a rule says otherwise.
"""

from collections.abc import Sequence
from typing import Any

from reports.claims.bias import BIAS
from reports.claims.calibration import CALIBRATION
from reports.claims.cost import COST
from reports.claims.noise import NOISE
from reports.claims.samplers import SAMPLERS
from reports.claims.targets import TARGETS
from reports.strip import short, where
from reports.types import Claim, ClaimResult, Evidence

CLAIMS: tuple[Claim, ...] = tuple(
    sorted((*BIAS, *NOISE, *CALIBRATION, *TARGETS, *COST, *SAMPLERS), key=lambda claim: claim.id)
)


def as_json(results: Sequence[ClaimResult]) -> list[dict[str, Any]]:
    """The content of claims.json."""
    return [
        {
            "id": claim.id,
            "short": short(claim),
            "where": where(verdict) if verdict.cases else "",
            "statement": claim.statement,
            "place": claim.place,
            "rule": claim.rule,
            "rule_sha256": claim.registered.sha256 if claim.registered else None,
            "code_sha256": result.code_sha256,
            "max_seeds": max(result.looks, default=claim.registered.at_most if claim.registered else None),
            "looks": list(result.looks),
            "registration": result.registration,
            "verdict": verdict.outcome,
            "reason": verdict.reason,
            "condition": verdict.condition or None,
            "effect": _number(verdict.effect) if verdict.effect else None,
            "robustness": result.robustness,
            "fragility": result.fragility,
            "would_change": verdict.would_change,
            "p_value": verdict.p_value,
            "p_adjusted": result.p_adjusted,
            "evidence": [_number(one) for one in verdict.evidence],
            "runs": list(verdict.runs),
            "failure": result.failure,
        }
        for result in results
        for claim, verdict in [(result.claim, result.verdict)]
    ]


def _number(evidence: Evidence) -> dict[str, Any]:
    names = ("mean", "low", "high", "num_seeds", "num_missing")
    numbers = {name: getattr(evidence.value, name) for name in names}
    return {"label": evidence.label, **numbers, "unit": evidence.unit}
