"""The state that a run begins with: of its last good checkpoint, or fresh; its record is never emptied in silence.

| record | checkpoints | what happens |
|---|---|---|
| none | none | the run starts |
| some | none was ever written | it was killed before its first one: it starts anew, the record is kept beside |
| some | lost or damaged | refused, unless `from_start` is asked for; then as above, the damaged ones beside it |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from batchwright.core.errors import UserError
from batchwright.core.files import free_name_beside
from batchwright.core.safe_open import explain_refusal
from batchwright.planning.quantity import counted
from batchwright.runs import checkpoints
from batchwright.runs.finished_run import evaluation_of
from batchwright.runs.initial_params import init_state, read_initial
from batchwright.runs.learner import Learner, SavedCheckpoint, StateT
from batchwright.runs.process_group import current_group
from batchwright.runs.recorder import RunRecorder
from batchwright.runs.versions import versions
from batchwright.watch.metric_log import EVALUATION_SECONDS, read_events, read_metrics

STARTED_ANEW = "started_anew"
"""The detail of a `resume` event that says that the events before it are of an abandoned attempt."""


@dataclass(frozen=True)
class StartOptions:
    """What the user allowed for the start of a run."""

    trust: bool = False
    """Whether code that a stranger's run names may be imported."""
    from_start: bool = False
    """Whether a run that lost its checkpoints starts anew; its record is kept beside."""


def start_or_resume(learner: Learner[StateT], recorder: RunRecorder, start: StartOptions) -> StateT:
    """The state to train on from; shows and records where it comes from."""
    fresh = learner.start()
    template = learner.checkpoint_template(fresh)
    folder = recorder.run.checkpoints
    found = checkpoints.load_last(folder, template, lambda text: recorder.on_warning("checkpoint", 0, text))
    if found is None:
        _start_anew(recorder, start)
        fresh, texts = _initialised(learner, recorder, fresh)
        recorder.show_plan_warnings()
        for text in texts:
            recorder.events.record("init", 0, text)
            recorder.display.note(text)
        return fresh
    arrays, manifest, checkpoint = found
    if start.from_start:
        raise UserError(
            f"{recorder.run} has a good checkpoint, of iteration {manifest['iteration']}; --from-start is for runs "
            "that lost theirs.",
            [f"batchwright resume {recorder.run}", "train anew in another --run-dir"],
        )
    _warn_of_other_versions(manifest["versions"], recorder)
    _warn_of_other_processes(manifest, recorder)
    state: StateT = jax.tree.map(
        lambda new, old: jnp.asarray(new) if isinstance(old, jax.Array) else new, arrays, template
    )
    state = learner.load(state, SavedCheckpoint(checkpoint, folder / checkpoints.SHARED, manifest))
    recorder.resume_callbacks(state, manifest)
    iteration = int(state.counters.iteration)
    dropped = recorder.cut_after(iteration - 1)
    text = f"resumed after iteration {iteration}" + (f"; {dropped} later records are made again" if dropped else "")
    recorder.events.record("resume", iteration, text)
    past = read_metrics(recorder.run.metrics_path)
    if learner.finished(state) and past and past[-1]["iteration"] == iteration - 1:
        if EVALUATION_SECONDS not in past[-1]:  # the process ended before the last evaluation did
            recorder.last_record = past[-1]
        else:
            recorder.evaluation = evaluation_of(read_events(recorder.run.events_path), iteration)
    recorder.restore(past)
    recorder.display.header(recorder.run, text)
    _warn_of_holes(past, iteration, recorder)
    return state


def _initialised(learner: Learner[StateT], recorder: RunRecorder, fresh: StateT) -> tuple[StateT, list[str]]:
    """The fresh state with what `--init-from` names, and sentences about it; as it is where nothing is named."""
    named = recorder.plan.get("init_from")
    if named is None:
        return fresh, []
    initial = read_initial(named)
    if initial.digest != recorder.plan.get("init_digest"):
        raise UserError(
            f"{named} holds other parameters than when this run was planned.", ["train anew in another --run-dir"]
        )
    return init_state(fresh, initial, str(recorder.plan.task.name))


def _start_anew(recorder: RunRecorder, start: StartOptions) -> None:
    """Makes room for a run from its start and says so; the record of an earlier attempt is kept beside."""
    run = recorder.run
    has_record, has_checkpoints = run.metrics_path.stat().st_size > 0, checkpoints.has_any(run.checkpoints)
    if not has_record and not has_checkpoints:
        recorder.cut_after(-1)  # episodes of an iteration whose record was not written any more
        return
    records = counted(len(read_metrics(run.metrics_path)), "record")
    lost = has_checkpoints or _names_checkpoints(read_events(run.events_path))
    if lost and not start.from_start:
        raise UserError(
            f"{run} has {records} and no usable checkpoint: to go on would be to start anew.",
            [f"batchwright resume {run} --from-start (keeps the record beside as metrics.<time>.jsonl)"],
        )
    kept = []
    with explain_refusal(run.path, "write"):
        if has_record:
            kept += recorder.keep_beside()
        for folder in (run.checkpoints, run.best):
            if checkpoints.has_any(folder):
                kept.append(free_name_beside(folder))
                folder.rename(kept[-1])
    recorder.restore([])
    why = "its checkpoints are lost" if lost else "it was stopped before its first checkpoint"
    text = f"started anew: {why}; {records} kept in {' and '.join(path.name for path in kept)}"
    recorder.events.record("resume", 0, text, **{STARTED_ANEW: True})
    recorder.display.note(text, warning=lost)


def _names_checkpoints(events: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the events of the last attempt speak of a checkpoint."""
    starts = [index for index, event in enumerate(events) if event.get(STARTED_ANEW)]
    return any(event["kind"] in ("checkpoint", "finished") for event in events[starts[-1] if starts else 0 :])


def _warn_of_holes(past: Sequence[Mapping[str, Any]], iteration: int, recorder: RunRecorder) -> None:
    """Says which iterations the record lacks: they were trained, and cannot be written again."""
    missing = sorted(set(range(iteration)) - {record["iteration"] for record in past})
    if missing:
        text = (
            f"metrics.jsonl lacks {counted(len(missing), 'record')} of iterations {missing[0]} to {missing[-1]}: it "
            "was cut or damaged. The training is not affected; curves have a hole there"
        )
        recorder.on_warning("record", iteration, text)


def _warn_of_other_versions(saved: dict[str, str], recorder: RunRecorder) -> None:
    changed = [f"{name} {saved.get(name)} -> {now}" for name, now in versions().items() if saved.get(name) != now]
    if changed:
        text = f"the checkpoint was made with other versions ({', '.join(changed)}): expect other last digits"
        recorder.on_warning("versions", 0, text)


def _warn_of_other_processes(manifest: Mapping[str, Any], recorder: RunRecorder) -> None:
    """Sums over another number of processes round otherwise."""
    before, now = manifest.get("processes", 1), current_group().processes
    if before != now:
        text = f"the checkpoint was made by {counted(before, 'process')}, {now} go on: expect other last digits"
        recorder.on_warning("processes", 0, text)
