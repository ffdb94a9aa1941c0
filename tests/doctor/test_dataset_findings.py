"""The doctor on runs that learn from recorded data: each finding on a run with the fault and on one without."""

import pytest

from batchwright.doctor.run_history import Facts
from batchwright.doctor.triage import triage

PLAN = {"regime": "dataset", "workers": 2, "samples_per_step": 8, "learning_rate": 1e-4, "iterations": 20}


def records(count: int = 20, **changes: object) -> list[dict]:
    """A run whose loss falls and whose loader keeps up; a function of the iteration changes a metric."""
    rows = []
    for k in range(count):
        row = {"iteration": k, "env_steps": 8 * k, "loss": 2.0 / (1 + k), "gradient_norm": 1.0}
        row |= {"update_seconds": 1.0, "loader_seconds": 0.01}
        rows.append(row | {name: change(k) for name, change in changes.items()})  # type: ignore[operator]
    return rows


def names(rows: list[dict], events: list[dict] = []) -> list[str]:  # noqa: B006 - never changed
    return [finding.name for finding in triage(rows, Facts(PLAN), events)]


def test_a_healthy_run_has_no_findings() -> None:
    assert names(records()) == []


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"loader_seconds": lambda k: 0.8}, "loader-starved"),
        ({"loss": lambda k: 2.0 + 0.01 * (k % 3)}, "loss-not-falling"),
        ({"gradient_norm": lambda k: 1.0 + k}, "gradient-norm-rising"),
        (
            {"accelerator_memory_bytes": lambda k: 93, "accelerator_memory_limit_bytes": lambda k: 100},
            "device-memory-near-limit",
        ),
    ],
)
def test_each_fault_is_named(changes: dict, finding: str) -> None:
    assert names(records(**changes)) == [finding]


def test_a_rung_is_told_with_the_flags_that_avoid_it() -> None:
    rung = {"kind": "rung", "iteration": 3, "message": "out of memory", "samples_per_step": 6}
    event = rung | {"gradient_checkpointing": True, "precision": "fp32"}
    found = triage(records(), Facts(PLAN), [event])
    assert [(one.name, one.alarm) for one in found] == [("rung-taken", False)]
    assert found[0].flags == ("--samples-per-step 6 --gradient-checkpointing",)


def test_a_loss_that_is_not_finite_is_a_danger() -> None:
    event = {"kind": "non-finite", "iteration": 3, "message": "loss nan, gradient norm nan; update 7 is left out"}
    assert names(records(), [event]) == ["loss-not-finite"]
