"""What the doctor says of a run, and which of its remedies helps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from batchwright.api.jax_setup import keep_programs
from batchwright.api.reports import message_printer
from batchwright.core.run_dir import FOREIGN_JOB, RunDir
from batchwright.core.safe_open import checked_path, read_json
from batchwright.planning.plan import plan_from_dict

if TYPE_CHECKING:
    from batchwright.doctor.diagnosis import Diagnosis
    from batchwright.tuning.remedy_trials import Trials


def diagnose(run: str | Path, trainer: str | None = None) -> Diagnosis:
    """What is wrong with a run: finished, unfinished or crashed; damage to its record is said, not raised.

    `run` is a run directory of ours, or a log of `trainer` (sb3, cleanrl, rl_games; recognised where it is not named):
    TensorBoard files or CSV.
    """
    from batchwright.doctor.diagnosis import Diagnosis
    from batchwright.doctor.logs.names import in_trainer_settings
    from batchwright.doctor.logs.read import find_log, read_log
    from batchwright.doctor.run_history import Facts, facts_of
    from batchwright.doctor.triage import triage
    from batchwright.watch.metric_log import read_events, read_metrics
    from batchwright.watch.run_end import END_TEXT, INTERRUPTED, run_end

    found = RunDir(checked_path(run))
    ours = any(os.path.lexists(path) for path in (found.metrics_path, found.plan_path))
    if trainer is not None or (not ours and find_log(found.path)):
        log = read_log(found.path, trainer)
        findings = [log.with_trainer_settings(finding) for finding in triage(log.records, log.facts)]
        return Diagnosis(str(found), f"log of {log.trainer}", len(log.records), findings, (), log.unknown)
    if not ours:
        RunDir.open(run)  # raises what is wrong with the path
    remarks = []
    try:
        facts = facts_of(plan_from_dict(read_json(found.plan_path)))
    except (OSError, ValueError) as error:
        facts = Facts()
        remarks.append(f"the plan cannot be read ({error}): findings that need its numbers are left out")
    records, events = read_metrics(found.metrics_path), read_events(found.events_path)
    for name, lines in (("metrics.jsonl", records), ("events.jsonl", events)):
        if lines.unreadable:
            remarks.append(f"{lines.unreadable} lines of {name} cannot be read and were passed over")
    end = run_end(events, records[-1]["iteration"] + 1 if records else 0, facts.number("iterations"))
    status = "unfinished" if end in (None, INTERRUPTED) else END_TEXT.get(end, end)
    findings = triage(records, facts, events)
    if (found.path / FOREIGN_JOB).is_file():
        findings = [in_trainer_settings("rl_games", finding) for finding in findings]
    return Diagnosis(str(found), status, len(records), findings, remarks)


def try_remedies(
    run: str | Path, *, share: float = 0.5, most: int = 3, trust: bool = False, quiet: bool = False
) -> Trials:
    """Trains a run again with each of the doctor's first remedies, for a share of its steps; which one helped.

    Same seed, same schedules; the trials lie in the folder `RUN-trials` and are read again where they are there.
    """
    keep_programs()
    from batchwright.tuning.remedy_trials import try_remedies as try_each

    findings = diagnose(run).findings
    return try_each(run, findings, share=share, most=most, trust=trust, on_message=message_printer(quiet))
