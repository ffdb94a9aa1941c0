"""The replay plan: updates per iteration, what each draws, return decomposition, and the bytes of all of it."""

from __future__ import annotations

from dataclasses import replace

from batchwright.config.load import Resolved
from batchwright.config.schema import REPLAY
from batchwright.core.errors import UserError
from batchwright.core.machine import Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.memory import DEFAULT_BUFFER_SHARE, GOOD_SHARE, TransitionBytes, show_bytes, transition_bytes
from batchwright.planning.on_policy_learning import settle_running
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.process_memory import settle_process, settle_replay_total
from batchwright.planning.quantity import counted
from batchwright.planning.redistribution import settle_redistribution
from batchwright.planning.replay_learning import CHECKPOINT_STEPS, REPLAY_DEFAULTS, settle_replay_objective
from batchwright.planning.thread_plan import settle_replay_threads

STEPS_PER_ITERATION = 32
REDISTRIBUTED_STEPS_PER_ITERATION = 100
LARGEST_DEFAULT_BUFFER = 1_000_000


def plan_replay(resolved: Resolved, task: TaskFacts, machine: Machine, measured: dict[str, str] | None = None) -> Plan:
    """The plan of a replay run; a buffer that does not fit in memory is refused."""
    ledger = Ledger(resolved, measured)
    ledger.refuse_foreign(REPLAY)
    algo = ledger.config.algo
    _refuse_wrong_actions(algo, task)
    steps = _collection(ledger)
    if ledger.stated("reward_only"):
        _settle_reward_updates(ledger, steps, task)
    else:
        _updates(ledger, steps, task, machine)
        settle_redistribution(ledger, task)
    total = ledger.setting("total_steps", REPLAY_DEFAULTS[algo].total_steps, "a first run on two cores")
    iterations = ledger.settle_iterations(total, steps)
    warmup = ledger.setting(
        "warmup_steps", min(10_000, total // 20), "random actions first: 5% of the run, at most 10000"
    )
    if warmup >= total:
        raise UserError(
            f"{warmup} warm-up steps leave nothing of {total} steps to learn from.",
            [f"--warmup-steps {total // 20}", f"--total-steps {warmup * 20}"],
        )
    updating = max(0, (iterations * steps - warmup) // steps) * int(
        ledger.quantities["updates_per_iteration"].value or 0
    )
    ledger.settle("total_updates", updating, "updates", f"after {counted(warmup, 'warm-up step')}")
    if not updating:
        ledger.remark(
            f"no update is made: {warmup} of {iterations * steps} steps are warm-up, one iteration takes {steps}."
        )
    settle_replay_objective(ledger, task)
    settle_running(ledger, task, CHECKPOINT_STEPS)
    settle_replay_threads(ledger, task, machine)
    ledger.adopt_rest()
    _memory(ledger, task, machine, int(total))
    return Plan(
        REPLAY,
        algo,
        ledger.quantities,
        tuple(ledger.checks),
        tuple(ledger.remarks),
        tuple(ledger.alternatives),
        task,
        machine.describe(),
    )


def _refuse_wrong_actions(algo: str, task: TaskFacts) -> None:
    fits = REPLAY_DEFAULTS[algo].discrete
    if task.discrete is not None and task.discrete != fits:
        kind, other = ("discrete", "dqn") if task.discrete else ("continuous", "sac")
        raise UserError(
            f"{algo} is for {'discrete' if fits else 'continuous'} actions; {task.name or 'this task'} has "
            f"{kind} ones.",
            [f"--algo {other}", "--algo ppo"],
        )


def _collection(ledger: Ledger) -> int:
    """Environment steps per iteration."""
    envs = ledger.setting(
        "num_envs", 1, "replay needs no parallel environments for variety, and one gives the freshest data"
    )
    updates = ledger.stated("updates_per_iteration")
    together, reason = (
        STEPS_PER_ITERATION,
        "collected before each round of updates: 64 learned less, fewer take longer (docs/adr/0025)",
    )
    if ledger.stated("redistribute"):
        together, reason = REDISTRIBUTED_STEPS_PER_ITERATION, "as many as in the official code of RRD"
    if updates:
        rate = "about one" if updates % envs else "one"
        together, reason = updates, f"{counted(updates, 'update')} / {counted(envs, 'env')}: {rate} update per step"
    rollout_steps = ledger.setting("rollout_steps", max(1, together // envs), reason)
    ledger.settle(
        "steps_per_iteration",
        envs * rollout_steps,
        "steps",
        f"{counted(envs, 'env')} x {counted(rollout_steps, 'step')}",
    )
    return int(envs * rollout_steps)


def _settle_reward_updates(ledger: Ledger, steps: int, task: TaskFacts) -> None:
    """Updates of a reward network alone: no transitions are drawn for a policy."""
    for name in ("transitions_per_update", "hold"):
        origin = ledger.resolved.origin(name)
        if origin is not None and origin.kind != "preset":
            raise UserError(
                f"{ledger.place(name)} is for updates of a policy; --reward-only makes none.",
                [ledger.without(name), "leave out --reward-only"],
            )
    ledger.settle("transitions_per_update", 0, "transitions", "no policy is updated: the reward network learns alone")
    settle_redistribution(ledger, task)
    updates = int(ledger.setting("updates_per_iteration", steps, "one reward update per environment step"))
    ledger.settle(
        "updates_per_step",
        round(updates / steps, 6),
        "updates per step",
        f"{counted(updates, 'reward update')} / {counted(steps, 'step')}",
    )
    parts, length = (int(ledger.quantities[n].value or 1) for n in ("subsequences_per_update", "subsequence_timesteps"))
    ledger.settle(
        "reuse",
        round(updates * parts * length / steps, 4),
        "draws per transition",
        f"{counted(updates, 'update')} x {parts * length} timesteps drawn / {steps} collected, on average",
    )


def _updates(ledger: Ledger, steps: int, task: TaskFacts, machine: Machine) -> None:
    hold = ledger.stated("hold")
    drawn = ledger.setting(
        "transitions_per_update",
        REPLAY_DEFAULTS[ledger.config.algo].transitions_per_update,
        "a common size for replayed transitions",
    )
    if hold is not None:
        _hold(ledger, steps, task, machine)
    else:
        ledger.setting("updates_per_iteration", steps, "one update per environment step")
    updates = int(ledger.quantities["updates_per_iteration"].value or 1)
    drawn = int(ledger.quantities["transitions_per_update"].value or drawn)
    ratio = updates / steps
    ledger.settle(
        "updates_per_step",
        round(ratio, 6),
        "updates per step",
        f"{counted(updates, 'update')} / {counted(steps, 'step')} (UTD)",
    )
    ledger.settle(
        "reuse",
        round(ratio * drawn, 4),
        "draws per transition",
        f"{counted(updates, 'update')} x {drawn} drawn / {steps} collected, on average",
    )
    ledger.check(
        "update-ratio",
        0.05 <= ratio <= 4,
        f"{ratio:.3g} updates per environment step; 0.05-4 is typical, more overfits the buffer, fewer waste it",
        "official SAC 1, DQN 0.25, REDQ 20 with ensembles",
    )


def _hold(ledger: Ledger, steps: int, task: TaskFacts, machine: Machine) -> None:
    """Keeps the quantity of `--hold` at its value without the flags."""
    hold = ledger.stated("hold")
    plain = ledger.resolved.before_flags
    plain = replace(plain, task=ledger.config.task, experience=replace(plain.experience, hold=None))
    if plain.replay.redistribute is None:
        plain = replace(plain, replay=replace(plain.replay, redistribute=ledger.stated("redistribute")))
    origins = dict(ledger.resolved.before_origins)
    if plain.replay.redistribute:
        origins["redistribute"] = ledger.resolved.origins["redistribute"]
    before = plan_replay(Resolved(plain, origins, (), (), plain), task, machine)
    flags = {name for name, origin in ledger.resolved.origins.items() if origin.kind == "flag"}
    if hold == "reuse":
        _refuse_with(ledger, flags, "updates_per_iteration", hold)
        drawn = int(ledger.quantities["transitions_per_update"].value or 1)
        updates = max(1, round(before["reuse"] * steps / drawn))
        reason = f"held: {before['reuse']:g} draws per transition as before x {steps} steps / {drawn}"
        ledger.settle("updates_per_iteration", updates, "updates", reason, "--hold reuse")
        return
    if hold == "transitions-per-update":
        _refuse_with(ledger, flags, "transitions_per_update", hold)
        drawn = before["transitions_per_update"]
        ledger.settle("transitions_per_update", drawn, "transitions", "held as before", f"--hold {hold}")
    if hold == "total-steps":
        _refuse_with(ledger, flags, "total_steps", hold)
    ledger.setting("updates_per_iteration", steps, "one update per environment step")


def _refuse_with(ledger: Ledger, flags: set[str], name: str, hold: str) -> None:
    if name in flags:
        flag = f"--{name.replace('_', '-')}"
        raise UserError(
            f"--hold {hold} settles {name}, and {flag} {ledger.stated(name)} sets it too.",
            [f"leave out {flag}", f"leave out --hold {hold}"],
        )


def _memory(ledger: Ledger, task: TaskFacts, machine: Machine, total_steps: int) -> None:
    """Bytes of one batch, of an iteration's draws and of the buffer, at the stored type."""
    wanted = ledger.stated("replay_transitions")
    capacity = min(LARGEST_DEFAULT_BUFFER, total_steps) if wanted is None else wanted
    with_next = bool(ledger.setting("store_next_obs", False, "neighbours share frames", unit=""))
    _check_capacity(ledger, capacity)
    frames = _stacked_frames(ledger, task, with_next)
    if task.obs_shape is None:
        ledger.setting("replay_transitions", capacity, "the whole run, at most a million")
        ledger.setting("replay_on", "device", "beside the updates", unit="")
        ledger.remark("memory is not planned: name an environment, or --obs-shape and --action-size.")
        return
    dtype = _stored_dtype(ledger, task)
    discrete = REPLAY_DEFAULTS[ledger.config.algo].discrete if task.discrete is None else task.discrete
    one = transition_bytes(task.obs_shape, dtype, task.action_size or 1, discrete)
    stored = one.stored(with_next, frames)
    others, why = settle_process(ledger, task, machine)
    process = int(ledger.quantities["process_bytes"].value or 0)
    room = machine.ram_bytes * GOOD_SHARE - process  # what environments take is an estimate: it refuses no buffer
    fits = max(0, int(room // stored))
    half = min(fits, int(machine.ram_bytes * DEFAULT_BUFFER_SHARE // stored))
    if wanted is None and capacity > half:
        ledger.remark(
            f"the buffer is cut from {capacity} to the {max(1, half)} transitions of {show_bytes(half * stored)}, at "
            f"most {DEFAULT_BUFFER_SHARE:.0%} of {show_bytes(machine.ram_bytes)} RAM: the rest is for updates, "
            f"environments and other programs. --replay-transitions takes up to {fits} ({GOOD_SHARE:.0%} of RAM in "
            "all)."
        )
        capacity = max(1, half)
    _write_bytes(ledger, one, stored, with_next, frames, dtype)
    if capacity * stored > room:
        raise UserError(
            f"a buffer of {capacity} transitions x {stored} B = {show_bytes(capacity * stored)} does not fit in "
            f"{GOOD_SHARE:.0%} of {show_bytes(machine.ram_bytes)} RAM beside {show_bytes(process)} of the process; the "
            f"largest that fits is {fits} transitions.",
            [f"--replay-transitions {fits}"] if fits else ["--obs-dtype uint8", "--ram-gb N"],
        )
    share = f"at most {DEFAULT_BUFFER_SHARE:.0%} of RAM"
    ledger.setting("replay_transitions", capacity, f"the whole run, at most a million, {share}")
    ledger.settle(
        "buffer_bytes",
        capacity * stored,
        "bytes",
        f"{capacity} transitions x {stored} B = {show_bytes(capacity * stored)}",
    )
    _settle_place(ledger, machine, capacity * stored)
    held = others + capacity * stored
    settle_replay_total(ledger, task, machine, held, f"{why} + {show_bytes(capacity * stored)} buffer")


def _stored_dtype(ledger: Ledger, task: TaskFacts) -> str:
    """The type of the environment's observations; without an environment the stated type."""
    stated = ledger.stated("obs_dtype")
    if task.name is None or task.obs_dtype is None:
        return stated or task.obs_dtype or "float32"
    if stated not in (None, task.obs_dtype):
        origin = ledger.resolved.origin("obs_dtype")
        if origin is None or origin.kind != "preset":
            raise UserError(
                f"--obs-dtype is defined by {task.name} itself: {task.obs_dtype}.", ["leave out --obs-dtype"]
            )
        ledger.remark(f"observations of {task.name} are stored as {task.obs_dtype}, not as the {stated} of {origin}.")
    return task.obs_dtype


def _settle_place(ledger: Ledger, machine: Machine, buffer_bytes: int) -> None:
    """On the device where half its memory holds the buffer; without a GPU the device is the machine itself."""
    memory = machine.gpus[0].memory_bytes if machine.gpus else None
    fits = memory is None or buffer_bytes <= memory / 2
    why = "no GPU: RAM is the device's memory" if memory is None else f"against half of {show_bytes(memory)} on the GPU"
    ledger.setting("replay_on", "device" if fits else "host", f"{show_bytes(buffer_bytes)}, {why}", unit="")


def _check_capacity(ledger: Ledger, capacity: int) -> None:
    drawn = int(ledger.quantities["transitions_per_update"].value or 1)
    ledger.check(
        "buffer-holds-a-batch",
        capacity >= drawn,
        f"a buffer of {counted(capacity, 'transition')} for updates that draw {drawn}: every update sees repeats",
        "transitions are drawn from a buffer of many episodes",
    )


def _stacked_frames(ledger: Ledger, task: TaskFacts, with_next: bool) -> int:
    """Frames of an observation that are stored once each; 1 where it is stored whole."""
    stated = ledger.stated("stacked_frames")
    if stated is None and task.stacked_frames == 1:
        return 1
    if with_next and stated not in (None, 1):
        raise UserError(
            f"{ledger.place('store_next_obs')} stores whole observations; {ledger.place('stacked_frames')} stores each "
            "frame once.",
            [ledger.without("store_next_obs"), ledger.without("stacked_frames")],
        )
    reason = f"frames stacked by {task.name}; only the newest frame of each observation is stored"
    frames = int(
        ledger.setting("stacked_frames", 1, "whole observations, as their successors are stored apart")
        if with_next
        else ledger.setting("stacked_frames", task.stacked_frames, reason)
    )
    if task.obs_shape is not None and task.obs_shape[0] % frames:
        divisors = [n for n in range(1, task.obs_shape[0] + 1) if task.obs_shape[0] % n == 0]
        raise UserError(
            f"{ledger.place('stacked_frames')} does not divide the first axis of observations of shape "
            f"{','.join(map(str, task.obs_shape))}.",
            [f"--stacked-frames {min(divisors, key=lambda n: (abs(n - frames), -n))}"],
        )
    return frames


def _write_bytes(ledger: Ledger, one: TransitionBytes, stored: int, with_next: bool, frames: int, dtype: str) -> None:
    drawn = int(ledger.quantities["transitions_per_update"].value or 0)
    updates = int(ledger.quantities["updates_per_iteration"].value or 0)
    shared = "with its next observation" if with_next else "next observations shared with the neighbour"
    ledger.settle(
        "transition_bytes",
        stored,
        "bytes",
        f"stored: {_obs_bytes(one, frames)} ({dtype}), {one.action} B action, {shared}",
    )
    batch = drawn * one.batch
    if drawn:
        ledger.settle(
            "batch_bytes",
            batch,
            "bytes",
            f"{drawn} transitions x {one.batch} B = {show_bytes(batch)}; "
            f"{show_bytes(drawn * one.batch_without_next)} without next observations",
        )
    traffic, without_next = batch, drawn * one.batch_without_next
    parts = ledger.quantities.get("subsequences_per_update")
    if parts is not None:
        timesteps = int(parts.value or 0) * int(ledger.quantities["subsequence_timesteps"].value or 0)
        rest = timesteps * one.batch_without_next
        ledger.settle(
            "rrd_batch_bytes",
            timesteps * one.batch,
            "bytes",
            f"{timesteps} timesteps x {one.batch} B = {show_bytes(timesteps * one.batch)}; "
            f"{show_bytes(rest)} without next observations",
        )
        traffic += timesteps * one.batch
        without_next += rest
    ledger.settle(
        "traffic_bytes_per_iteration",
        traffic * updates,
        "bytes",
        f"{counted(updates, 'update')} x {show_bytes(traffic)} = {show_bytes(traffic * updates)}: moved, never held "
        f"at once; {show_bytes(without_next)} per update and {show_bytes(without_next * updates)} without next "
        "observations",
    )


def _obs_bytes(one: TransitionBytes, frames: int) -> str:
    if frames == 1:
        return f"{one.obs} B observation"
    return f"{one.obs // frames} B, the newest of {frames} stacked frames"
