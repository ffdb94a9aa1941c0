"""The doctor's findings over a whole record, for the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from batchwright.doctor.run_history import MOST_RECORDS, Facts, facts_of
from batchwright.doctor.triage import triage
from batchwright.planning.plan import plan_from_dict
from batchwright.web.columns import Columns
from batchwright.web.record import RunRecord


def findings_of(record: RunRecord) -> list[dict[str, Any]]:
    """The doctor's findings in the order in which to fix them, in the form of advice events."""
    try:
        facts = facts_of(plan_from_dict(record.plan))
    except ValueError:  # a damaged plan: findings that need its numbers are skipped
        facts = Facts()
    try:
        found = triage(_records(record.columns), facts, record.events)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # a damaged record
        return []
    return [{**finding.to_dict(), "iteration": finding.began} for finding in found]


def _records(columns: Columns) -> list[dict[str, Any]]:
    """The records behind the columns, thinned evenly to the number that the doctor uses."""
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
