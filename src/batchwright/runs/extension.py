"""Gives a run more steps: its plan is lengthened, and everything that its schedules then do differently is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchwright.config.load import resolve
from batchwright.config.save import to_yaml
from batchwright.config.schema import RECORDED
from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.machine import probe_machine
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import explain_refusal, read_plain
from batchwright.core.trust import check_trust, remember
from batchwright.planning.make import make_plan
from batchwright.planning.plan import Plan
from batchwright.runs import checkpoints
from batchwright.runs.engine_learner import learning_rate_factor
from batchwright.runs.finished_run import read_finished
from batchwright.runs.launch import open_run
from batchwright.watch.metric_log import EventLog
from batchwright.watch.run_end import EXTENDED

LENGTHS = ("total_steps", "total_episodes", "iterations", "actual_steps", "actual_episodes", "total_updates")
"""Numbers of a plan that say how long a run is. All others stay as they are when it becomes longer."""
DERIVED_BYTES = ("buffer_bytes", "traffic_bytes_per_iteration", "batch_bytes")


def extend_run(path: str | Path, length: dict[str, int], on_message: Callable[[str], None], trust: bool) -> None:
    """Writes the plan of a run anew for another length, `total_steps` or `total_episodes`; messages say what differs.

    The run itself is not trained here: `continue_run` goes on to the new end.
    """
    run, resolved, plan = open_run(path)
    if plan.regime == RECORDED:
        raise UserError(f"{run} is the run of a reward model: it cannot be extended.", ["batchwright rrd DATA"])
    check_trust(run, resolved.config.task.env, trust)
    (name, value) = next(iter(length.items()))
    if plan.get(name) == value:
        return
    _refuse_other_unit(run, plan, name)
    _refuse_stopped(run, plan)
    done = _done(run)
    wanted = resolve({name: value}, config_file=run.config_path, content=read_plain(run.config_path))
    machine = probe_machine()
    before, after = make_plan(resolved, machine, plan.task), make_plan(wanted, machine, plan.task)
    changed = {key: after.quantities[key] for key in LENGTHS if key in after.quantities}
    longer = replace(plan, quantities={**plan.quantities, **changed})
    _refuse_too_short(run, longer, done, name, value)
    messages = [_length_text(plan, longer), *_schedule_texts(plan, longer, done), *_kept_texts(before, after, plan)]
    with run.lock(), explain_refusal(run.path, "write"):
        write_atomically(run.plan_path, longer.to_json().encode())
        write_atomically(run.config_path, to_yaml(wanted).encode())
        remember(run, wanted.config.task.env)
        with EventLog(run.events_path) as events:
            events.record(EXTENDED, done["iteration"], "; ".join(messages))
    for message in messages:
        on_message(message)


def _done(run: RunDir) -> dict[str, int]:
    """What the last good checkpoint has behind it."""
    found = checkpoints.load_named(run.checkpoints, lambda text: None)
    arrays: dict[str, Any] = {} if found is None else found[0]
    return {name: int(arrays.get(f".counters.{name}", 0)) for name in ("iteration", "env_steps", "episodes")}


def _refuse_other_unit(run: RunDir, plan: Plan, name: str) -> None:
    if plan.get(name) is None:
        other = "total_episodes" if name == "total_steps" else "total_steps"
        flag = f"--{other.replace('_', '-')}"
        raise UserError(
            f"{run} counts its length by {flag} ({plan.get(other)}).",
            [f"batchwright resume {run} {flag} {2 * int(plan.get(other) or 1)}"],
        )


def _refuse_stopped(run: RunDir, plan: Plan) -> None:
    finished = read_finished(run, plan)
    if finished is not None and finished.solved:
        raise UserError(
            f"{run} stopped because its return reached {plan['stop_return']:g} (--stop-return): it would stop again.",
            [f"batchwright train {plan.task.name} --init-from {run}"],
        )


def _refuse_too_short(run: RunDir, plan: Plan, done: dict[str, int], name: str, value: int) -> None:
    iterations = plan.get("iterations")
    has = done["env_steps"] if name == "total_steps" else done["episodes"]
    behind = done["iteration"] > iterations if iterations is not None else has > value
    if behind:
        raise UserError(
            f"{run} has {has:,} {name.removeprefix('total_')} behind it already, more than {value:,}.",
            [f"batchwright resume {run} --{name.replace('_', '-')} {2 * has}"],
        )


def _length_text(plan: Plan, longer: Plan) -> str:
    name = "total_steps" if plan.get("total_steps") else "total_episodes"
    text = f"{name} {plan[name]:,} -> {longer[name]:,}"
    if longer.get("iterations") is not None:
        text += f", {plan['iterations']} -> {longer['iterations']} iterations"
    return text


def _schedule_texts(plan: Plan, longer: Plan, done: dict[str, int]) -> list[str]:
    """How schedules that go by the length of the run differ from those of a run that was planned so from the start."""
    progress = [_progress(one, done) for one in (plan, longer)]
    found, at = [], f"after iteration {done['iteration']}"
    schedule = plan.get("learning_rate_schedule")
    if schedule in ("linear", "cosine"):
        rates = [plan["learning_rate"] * learning_rate_factor(schedule, share) for share in progress]
        found.append(f"learning_rate ({schedule}) is {rates[0]:.3g} {at} and goes on from {rates[1]:.3g}")
    if plan.get("clip_schedule") == "linear":
        clips = [plan["clip_range"] * (1.0 - share) for share in progress]
        found.append(f"clip_range (linear) is {clips[0]:.3g} {at} and goes on from {clips[1]:.3g}")
    share = plan.get("entropy_anneal")
    moves = plan.get("entropy_start") != plan.get("entropy_end") and plan.get("entropy_episodes") is None
    if share and moves:
        found.append(f"the entropy coefficient falls over the last {share:.0%} of the longer run")
    if plan.algo == "dqn" and plan.get("epsilon_share") and plan["epsilon_start"] != plan["epsilon_end"]:
        until = plan["epsilon_share"] * longer["total_steps"]
        found.append(f"epsilon reaches its end after {until:,.0f} steps")
    if plan.get("doctor") == "act":
        found.append("--doctor act decides at other iterations")
    if found:
        found.append("a run that was planned this long from the start would differ in the part already trained")
    return found


def _progress(plan: Plan, done: dict[str, int]) -> float:
    iterations = plan.get("iterations")
    share = done["iteration"] / iterations if iterations else done["env_steps"] / plan["total_steps"]
    return min(1.0, float(share))


def _kept_texts(before: Plan, after: Plan, plan: Plan) -> list[str]:
    """Numbers that stay, and that a run planned this long from the start would have otherwise."""
    found = []
    for name, quantity in after.quantities.items():
        if name in (*LENGTHS, *DERIVED_BYTES) or name not in plan.quantities or name not in before.quantities:
            continue
        if quantity.value != before.quantities[name].value and quantity.value != plan[name]:
            found.append(f"{name} stays {plan[name]}; planned this long from the start it would be {quantity.value}")
    return found
