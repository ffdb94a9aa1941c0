"""Which safe remedy a run wants, decided from metrics that two identical runs share: no times, no memory."""

from __future__ import annotations

from collections.abc import Mapping

from batchwright.doctor import batches, exploration, outcome
from batchwright.doctor.finding import Finding
from batchwright.doctor.run_history import RunHistory
from batchwright.doctor.triage import Symptom

DOUBLE_ROLLOUT, HALVE_ROLLOUT, SLOW_ENTROPY = "double the rollout", "halve the rollout", "slow the entropy anneal"

# S2's batch rule and its word on collapse; the first that is found is applied, one at a time.
REMEDIES: Mapping[Symptom, str] = {
    exploration.entropy_collapse: SLOW_ENTROPY,
    batches.rollout_too_small: DOUBLE_ROLLOUT,
    batches.rollout_too_large: HALVE_ROLLOUT,
    outcome.wild_swings: DOUBLE_ROLLOUT,
}


def wanted(case: RunHistory) -> tuple[str, Finding] | None:
    """The remedy and the finding that asks for it; None where nothing that is safe would help."""
    for symptom, remedy in REMEDIES.items():
        finding = symptom(case)
        if finding is None or (remedy == SLOW_ENTROPY and not case.facts.number("entropy_start")):
            continue
        return remedy, finding
    return None
