"""Chooses the safe remedy that `--doctor act` applies, from metrics that do not depend on the machine."""

from __future__ import annotations

from collections.abc import Mapping

from batchwright.doctor import batch_findings, entropy_findings, outcome_findings
from batchwright.doctor.finding import Finding
from batchwright.doctor.harm import HEALTHY, verdict
from batchwright.doctor.run_history import RunHistory
from batchwright.doctor.triage import Symptom

DOUBLE_ROLLOUT, HALVE_ROLLOUT, SLOW_ENTROPY = "double the rollout", "halve the rollout", "slow the entropy anneal"

# In this order; only the first that is found is applied.
REMEDIES: Mapping[Symptom, str] = {
    entropy_findings.entropy_collapse: SLOW_ENTROPY,
    batch_findings.rollout_too_small: DOUBLE_ROLLOUT,
    batch_findings.rollout_too_large: HALVE_ROLLOUT,
    outcome_findings.wild_swings: DOUBLE_ROLLOUT,
}


def choose_remedy(history: RunHistory) -> tuple[str, Finding] | None:
    """The remedy and the finding it answers; None where no safe remedy applies, or where the return needs none."""
    if verdict(history).state == HEALTHY:
        return None
    for symptom, remedy in REMEDIES.items():
        finding = symptom(history)
        if finding is None or (remedy == SLOW_ENTROPY and not history.facts.number("entropy_start")):
            continue
        return remedy, finding
    return None
