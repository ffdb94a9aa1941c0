"""The on-policy plan: how much to collect, how to split it into minibatches, how often to reuse it."""

from __future__ import annotations

import contextlib

from batchwright.config.load import Resolved
from batchwright.config.schema import FIELDS, ON_POLICY, flag_of
from batchwright.core.errors import UserError
from batchwright.core.machine import Machine
from batchwright.planning import exact, on_policy_learning, rules, scaling
from batchwright.planning.agent_plan import num_agents_of, settle_agents, settle_groups
from batchwright.planning.defaults import DEFAULT_TOTAL_STEPS, DEFAULTS, ENTROPY_START, EPISODES_PER_ROLLOUT
from batchwright.planning.ledger import Ledger
from batchwright.planning.memory_plan import refuse_memory_contradictions, seq_length_of, settle_memory
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.planning.process_memory import settle_on_policy_memory
from batchwright.planning.process_plan import default_envs, refuse_unspreadable, settle_processes
from batchwright.planning.quantity import counted
from batchwright.planning.split import (
    Split,
    auto_minibatch,
    auto_minibatch_reason,
    largest_divisor,
    least_rows,
    near_equal_split,
)


def plan_on_policy(
    resolved: Resolved,
    task: TaskFacts,
    machine: Machine,
    *,
    divide_exactly: bool = False,
    measured: dict[str, str] | None = None,
) -> Plan:
    """Every number of an on-policy run; `divide_exactly` for trainers whose minibatch must divide the rollout."""
    ledger = Ledger(resolved, measured)
    ledger.refuse_foreign(ON_POLICY)
    _refuse_contradictions(ledger)
    refuse_memory_contradictions(ledger)
    refuse_unspreadable(ledger)
    held = scaling.Held()
    if scaling.needs_reference(resolved):
        held = scaling.held_values(resolved, _plan_without_flags(resolved, task, machine))
    if ledger.config.experience.by_episodes:
        _plan_episodes(ledger, task)
    else:
        _plan_steps(ledger, task, held, divide_exactly)
    _learning(ledger, task, held)
    if not divide_exactly:  # another trainer's memory is its own
        settle_on_policy_memory(ledger, task, machine)
    rules.check_on_policy(ledger, task, machine)
    if scaling.changes_only_num_envs(ledger):
        with contextlib.suppress(UserError):  # preset or file alone make no plan: there is nothing to compare with
            scaling.remark_num_envs(ledger, _plan_without_flags(resolved, task, machine))
    return Plan(
        ON_POLICY,
        ledger.config.algo,
        ledger.quantities,
        tuple(ledger.checks),
        tuple(ledger.remarks),
        tuple(ledger.alternatives),
        task,
        machine.describe(),
    )


def _plan_without_flags(resolved: Resolved, task: TaskFacts, machine: Machine) -> Plan:
    return plan_on_policy(scaling.without_flags(resolved), task, machine)


def _plan_steps(ledger: Ledger, task: TaskFacts, held: scaling.Held, divide_exactly: bool) -> None:
    """Rollouts of a fixed number of steps."""
    defaults = DEFAULTS[ledger.config.algo]
    envs, rounded = default_envs(ledger, defaults.num_envs)
    num_envs = ledger.setting("num_envs", envs, f"a start; training measures what the machine handles{rounded}")
    num_agents = num_agents_of(ledger, task)
    settle_processes(ledger, num_envs, num_agents)
    seq_length = seq_length_of(ledger)
    _settle_rollout_steps(ledger, task, held, num_envs * num_agents, seq_length)
    rollout_steps = int(ledger.quantities["rollout_steps"].value or 1)
    factors = f"{counted(num_envs, 'env')} x {counted(rollout_steps, 'step')}"
    factors += settle_agents(ledger, task)
    settle_groups(ledger, task)
    settle_memory(ledger)
    rollout = num_envs * rollout_steps * num_agents
    ledger.settle("rollout_transitions", rollout, "transitions", factors)
    if held.minibatch is not None and rollout < held.minibatch:
        enough = _steps_for(ledger, held.minibatch)
        raise UserError(
            f"--hold transitions-per-update keeps {held.minibatch} per update, and {factors} = {rollout} are fewer.",
            [f"--rollout-steps {enough}", ledger.without("rollout_steps")],
        )
    if held.rollout not in (None, rollout) and not _by_flag(ledger, "rollout_steps"):
        ledger.remark(f"held only nearly: {held.rollout} transitions per rollout before, {rollout} now ({factors}).")
    if divide_exactly:
        exact.settle_minibatches(ledger, num_envs, rollout_steps, num_agents, seq_length)
    else:
        _settle_minibatches(ledger, held, rollout, seq_length)
    _epochs_and_totals(ledger, held, num_envs * rollout_steps)


def _settle_rollout_steps(ledger: Ledger, task: TaskFacts, held: scaling.Held, per_step: int, seq_length: int) -> None:
    """Stated, held, or the default; a multiple of the sequence length."""
    if held.rollout is not None and not _by_flag(ledger, "rollout_steps"):
        steps = max(1, round(held.rollout / per_step))
        steps = max(1, round(steps / seq_length)) * seq_length
        reason = f"held: {held.rollout} transitions as before / {per_step} per step"
        ledger.settle("rollout_steps", steps, "steps", reason, "--hold transitions-per-update")
        return
    default, why = DEFAULTS[ledger.config.algo].steps(task.discrete)
    steps = ledger.setting("rollout_steps", -(-default // seq_length) * seq_length, why)
    if steps % seq_length:
        low, high = max(1, steps // seq_length) * seq_length, -(-steps // seq_length) * seq_length
        fixes = [f"--rollout-steps {value}" for value in sorted({low, high})]
        raise UserError(
            f"{counted(steps, 'rollout step')} cannot be cut into sequences of {seq_length}.",
            [*fixes, f"--seq-length {largest_divisor(steps, seq_length)}"],
        )


def _settle_minibatches(ledger: Ledger, held: scaling.Held, rollout: int, seq_length: int, when: str = "") -> None:
    """Near-equal minibatches of whole sequences, none tiny; `when` prefixes reasons that hold only at full length."""
    rows, least = rollout // seq_length, least_rows(seq_length)
    stated_size, stated_parts = ledger.stated("minibatch_transitions"), ledger.stated("minibatches")
    if stated_parts is not None and stated_size is not None:
        _refuse_disagreement(ledger, rollout, seq_length)
    if stated_parts is not None:
        most = max(1, rows // least)
        if stated_parts > most:
            fixes, needed = [f"--minibatches {most}"], least * stated_parts * seq_length
            if not ledger.config.experience.by_episodes:
                fixes.append(f"--rollout-steps {_steps_for(ledger, needed)}")
            unit = "two transitions" if seq_length == 1 else f"one sequence of {seq_length}"
            raise UserError(
                f"{stated_parts} minibatches of at least {unit} need {needed} transitions; the rollout has {rollout}.",
                fixes,
            )
        split, target, why = Split(rows, stated_parts), None, ""
    else:
        target, why = _target(ledger, held, rollout, seq_length)
        split = near_equal_split(rows, max(1, round(min(target, rollout) / seq_length)), least)
    _write_split(ledger, split, seq_length, target, why, when)


def _target(ledger: Ledger, held: scaling.Held, rollout: int, seq_length: int) -> tuple[int, str]:
    """The size aimed at, with its reason."""
    stated = ledger.stated("minibatch_transitions")
    if stated is not None and not (held.minibatch is not None and not _by_flag(ledger, "minibatch_transitions")):
        return int(stated), ""
    if held.minibatch is not None:
        return held.minibatch, f"held: {held.minibatch} transitions per update as before"
    if DEFAULTS[ledger.config.algo].single_update:
        return rollout, f"all {rollout} collected: {ledger.config.algo} takes one exact step per rollout"
    steps = ledger.quantities.get("rollout_steps")
    long = None if steps is None else int(steps.value or 1)
    return auto_minibatch(rollout, long, seq_length), auto_minibatch_reason(rollout, long, seq_length)


def _by_flag(ledger: Ledger, name: str) -> bool:
    origin = ledger.resolved.origin(name)
    return origin is not None and origin.kind == "flag"


def _write_split(ledger: Ledger, split: Split, seq_length: int, target: int | None, why: str, when: str) -> None:
    """Minibatch quantities, with the requested size beside the actual one."""
    size = split.large * seq_length
    written = when + split.formula() + (f" sequences of {seq_length}" if seq_length > 1 else "")
    stated = ledger.stated("minibatch_transitions")
    if target is None:
        ledger.adopt("minibatches", split.parts, "minibatches")
        if stated is None:
            ledger.settle("minibatch_transitions", size, "transitions", written)
        else:
            ledger.adopt("minibatch_transitions", size, "transitions", f"{stated} requested; {written}")
        return
    ledger.settle("minibatches", split.parts, "minibatches", written)
    if why:
        ledger.settle(
            "minibatch_transitions", size, "transitions", when + why + ("" if size == target else f"; {written}")
        )
    elif stated == size:
        ledger.adopt("minibatch_transitions", size, "transitions")
    elif split.parts == 1 and stated is not None and stated > size:
        ledger.adopt(
            "minibatch_transitions", size, "transitions", f"{when}{stated} requested: the full rollout of {size}"
        )
    elif when:  # the aim of every rollout, whatever the lengths of its episodes
        ledger.adopt("minibatch_transitions", stated, "transitions", f"aimed at; {written}")
    else:
        ledger.adopt(
            "minibatch_transitions",
            size,
            "transitions",
            f"{stated} requested; {written}",
        )
        ledger.remark(f"minibatch: {stated} requested, {size} used, so that nothing is left over ({written}).")
    if split.total * seq_length == 1:
        ledger.remark("a rollout of one transition has no spread: advantages cannot be normalised. Collect at least 2.")


def _refuse_disagreement(ledger: Ledger, rollout: int, seq_length: int) -> None:
    """Both the number and the size of minibatches are stated: they must describe one split."""
    size, parts = ledger.stated("minibatch_transitions"), ledger.stated("minibatches")
    rows = rollout // seq_length
    least = least_rows(seq_length)
    split = Split(rows, parts) if least * parts <= max(least, rows) else None
    if split and (size in (split.large * seq_length, split.small * seq_length) or (parts == 1 and size > rollout)):
        return
    by_size = near_equal_split(rows, max(1, round(min(size, rollout) / seq_length)), least)
    found = [by_size, split] if split else [by_size]
    fixes = [
        f"--minibatches {choice.parts} --minibatch-transitions {choice.large * seq_length}"
        for choice in dict.fromkeys(found)
    ]
    steps = _steps_for(ledger, max(size, 2 * seq_length) * parts)
    if not ledger.config.experience.by_episodes and steps <= FIELDS["rollout_steps"].metadata["high"]:
        longer = Split(rollout * steps // int(ledger.quantities["rollout_steps"].value or 1) // seq_length, parts)
        fixes.append(
            f"--rollout-steps {steps} --minibatches {parts} --minibatch-transitions {longer.large * seq_length}"
        )
    raise UserError(
        f"{ledger.place('minibatches')} and {ledger.place('minibatch_transitions')} contradict each other: "
        f"{parts} x {size} = {parts * size}, and the rollout has {rollout} transitions.",
        fixes,
    )


def _steps_for(ledger: Ledger, transitions: int) -> int:
    """Rollout steps that collect at least so many transitions."""
    agents = ledger.quantities.get("num_agents")
    per_step = int(ledger.quantities["num_envs"].value or 1) * (1 if agents is None else int(agents.value or 1))
    seq_length = seq_length_of(ledger)
    steps = -(-transitions // per_step)
    return -(-steps // seq_length) * seq_length


def _epochs_and_totals(ledger: Ledger, held: scaling.Held, steps_per_iteration: int) -> None:
    """Reuse, iterations and the whole run, requested and actual."""
    epochs = _epochs(ledger, held)
    parts = int(ledger.quantities["minibatches"].value or 1)
    updates = parts * epochs
    ledger.settle(
        "updates_per_iteration",
        updates,
        "updates",
        f"{counted(parts, 'minibatch')} x {counted(epochs, 'epoch')}",
    )
    _settle_reuse(ledger, epochs)
    total = _total_steps(ledger, held)
    iterations = ledger.settle_iterations(total, steps_per_iteration)
    ledger.settle(
        "total_updates",
        iterations * updates,
        "updates",
        f"{counted(iterations, 'iteration')} x {counted(updates, 'update')}",
    )


def _settle_reuse(ledger: Ledger, epochs: int) -> None:
    each = "the one epoch" if epochs == 1 else f"each of {epochs} epochs"
    ledger.settle("reuse", epochs, "updates per transition", f"each transition is in one minibatch of {each}")


def _epochs(ledger: Ledger, held: scaling.Held) -> int:
    if held.epochs is not None and not _by_flag(ledger, "epochs"):
        ledger.settle(
            "epochs", held.epochs, "epochs", f"held: {held.epochs} updates per transition as before", "--hold reuse"
        )
        return held.epochs
    return int(ledger.setting("epochs", DEFAULTS[ledger.config.algo].epochs, DEFAULTS[ledger.config.algo].why_epochs))


def _total_steps(ledger: Ledger, held: scaling.Held) -> int:
    if held.total_steps is not None and not _by_flag(ledger, "total_steps"):
        ledger.settle("total_steps", held.total_steps, "steps", "held as before", "--hold total-steps")
        return held.total_steps
    return int(ledger.setting("total_steps", DEFAULT_TOTAL_STEPS, "the budget of the published tables"))


def _plan_episodes(ledger: Ledger, task: TaskFacts) -> None:
    """Rollouts of whole episodes: transitions are known only as far as the episode length is."""
    episodes = ledger.setting("rollout_episodes", EPISODES_PER_ROLLOUT, "ten episodes smooth one update")
    envs = ledger.setting("num_envs", min(episodes, 8), "no more environments than episodes in a rollout")
    if ledger.stated("num_agents"):
        ledger.adopt("num_agents", ledger.stated("num_agents"), "agents")
    agents = ledger.stated("num_agents") or 1
    size = ledger.stated("minibatch_transitions")
    length = task.episode_steps
    if envs > episodes:
        ledger.remark(
            f"{envs} environments for {counted(episodes, 'episode')} per rollout: {envs - episodes} would be idle "
            "and are not created."
        )
        ledger.settle("num_envs", episodes, "envs", f"as many as episodes in a rollout, of {ledger.place('num_envs')}")
    if length is None:
        _unknown_length(ledger, size)
    else:
        rollout = episodes * length * agents
        ledger.settle(
            "rollout_transitions",
            rollout,
            "transitions",
            f"at most {counted(episodes, 'episode')} x {counted(length, 'step')}"
            + (f" x {counted(agents, 'agent')}" if agents > 1 else ""),
        )
        _settle_minibatches(ledger, scaling.Held(), rollout, 1, when="at full length: ")
    epochs = ledger.setting("epochs", DEFAULTS[ledger.config.algo].epochs, DEFAULTS[ledger.config.algo].why_epochs)
    _settle_reuse(ledger, epochs)
    parts = ledger.quantities["minibatches"].value
    if isinstance(parts, int):
        at_most = "at most " if length is not None else ""
        ledger.settle(
            "updates_per_iteration",
            parts * epochs,
            "updates",
            f"{at_most}{counted(parts, 'minibatch')} x {counted(epochs, 'epoch')}",
        )
    _episode_totals(ledger, episodes, length)


def _unknown_length(ledger: Ledger, size: int | None) -> None:
    reason = "known when the episodes have ended; --episode-steps gives an estimate"
    ledger.settle("rollout_transitions", None, "transitions", reason)
    if ledger.stated("minibatches") is not None:
        ledger.adopt("minibatches", ledger.stated("minibatches"), "minibatches")
        ledger.settle("minibatch_transitions", None, "transitions", f"rollout / {ledger.stated('minibatches')}")
        return
    if size is None and DEFAULTS[ledger.config.algo].single_update:
        why = f"{ledger.config.algo} takes one exact step per rollout"
        ledger.settle("minibatches", 1, "minibatches", why)
        ledger.settle("minibatch_transitions", None, "transitions", f"all collected: {why}")
        return
    ledger.settle("minibatches", None, "minibatches", reason)
    if size is not None:
        ledger.adopt("minibatch_transitions", size, "transitions", "requested; the whole rollout where that is smaller")
    else:
        ledger.settle("minibatch_transitions", None, "transitions", "rollout / 32, at least 64, else all")


def _episode_totals(ledger: Ledger, episodes: int, length: int | None) -> None:
    total_steps = ledger.stated("total_steps")
    if total_steps is not None:
        ledger.adopt("total_steps", total_steps, "steps")
        least = "" if length is None else f"; at least {-(-total_steps // (episodes * length))}"
        ledger.settle("iterations", None, "iterations", f"whole rollouts until {total_steps} steps are spent{least}")
        return
    total = ledger.setting("total_episodes", 1000, "a full run of the balanced preset")
    iterations = -(-total // episodes)
    ledger.settle(
        "iterations", iterations, "iterations", f"{counted(total, 'episode')} / {episodes} per rollout, rounded up"
    )
    extra = f"; {iterations * episodes - total} more than requested" if iterations * episodes > total else ""
    ledger.settle(
        "actual_episodes", iterations * episodes, "episodes", f"{counted(iterations, 'iteration')} x {episodes}{extra}"
    )


def _learning(ledger: Ledger, task: TaskFacts, held: scaling.Held) -> None:
    """Learning rate, discount and entropy: as stated, else defaults; offers discounts that suit the horizon."""
    algo, defaults = ledger.config.algo, DEFAULTS[ledger.config.algo]
    rate = ledger.setting("learning_rate", defaults.learning_rate, f"a common start for {algo} with Adam", unit="")
    scaling.scale_learning_rate(ledger, float(rate), held)
    ledger.setting("gamma", 0.99, "an effective horizon of 100 steps, 1 / (1 - gamma)", unit="")
    rules.offer_discount(ledger, task)
    start = defaults.entropy_start
    if start and task.discrete is not None:
        start = ENTROPY_START[task.discrete]
    bonus = ledger.setting("entropy_start", start, f"a common start for {algo}", unit="")
    ledger.setting("entropy_end", 0.0, "annealed to 0" if bonus else "no bonus, nothing to anneal", unit="")
    ledger.setting("max_grad_norm", 0.5, "clips rare spikes, leaves typical gradients", unit="")
    on_policy_learning.settle_objective(ledger, task, defaults.gae_lambda, defaults.why_lambda)
    on_policy_learning.settle_running(ledger, task)
    ledger.setting("learner_threads", 1, "the matrix products of a minibatch are too small to split")


def _refuse_contradictions(ledger: Ledger) -> None:
    """Refuses two settings for one thing, or a total in a unit that the rollout does not have."""
    for one, other in (("rollout_steps", "rollout_episodes"), ("total_steps", "total_episodes")):
        if ledger.stated(one) is not None and ledger.stated(other) is not None:
            raise UserError(
                f"{ledger.place(one)} and {ledger.place(other)} contradict each other: set one of them.",
                [f"{flag_of(one)} {ledger.stated(one)}", f"{flag_of(other)} {ledger.stated(other)}"],
            )
    if ledger.stated("total_episodes") is not None and not ledger.config.experience.by_episodes:
        raise UserError(
            f"{ledger.place('total_episodes')} counts episodes, and the rollout is counted in steps.",
            [
                f"--rollout-episodes {EPISODES_PER_ROLLOUT} --total-episodes {ledger.stated('total_episodes')}",
                "--total-steps N",
            ],
        )
    if ledger.stated("seq_length") is not None and ledger.config.experience.by_episodes:
        raise UserError(
            f"{ledger.place('seq_length')} needs rollouts counted in steps: episodes end anywhere.",
            [f"--rollout-steps {ledger.stated('seq_length')}"],
        )
