"""What the doctor says of a whole record, for the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchwright.doctor.run_history import MOST_RECORDS, Facts, facts_of
from batchwright.doctor.triage import triage
from batchwright.planning.quantity import plan_from_dict
from batchwright.web.columns import Columns
from batchwright.web.record import RunRecord


def findings_of(record: RunRecord) -> list[dict[str, Any]]:
    """The doctor's findings, the first to mend first, in the form that advice has among the events."""
    try:
        facts = facts_of(plan_from_dict(record.plan))
    except (KeyError, TypeError, AttributeError):  # a damaged plan: what needs its numbers is left out
        facts = Facts()
    try:
        found = triage(_records(record.columns), facts, record.events)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a record that no trainer of ours writes
        return []
    return [{**finding.to_dict(), "iteration": finding.began} for finding in found]


def _records(columns: Columns) -> list[dict[str, Any]]:
    """The record's lines again, thinned evenly to as many as the doctor looks at, the last among them."""
    if not columns.rows:
        return []
    rows = np.unique(np.linspace(0, columns.rows - 1, min(columns.rows, MOST_RECORDS)).round().astype(int))
    names = ["iteration", "env_steps", *columns.names()]
    values = {name: columns[name][rows].tolist() for name in names if name in columns}
    return [
        {name: column[i] for name, column in values.items() if np.isfinite(column[i])}
        | {"iteration": int(values["iteration"][i])}
        for i in range(len(rows))
    ]
