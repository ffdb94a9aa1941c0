"""Plans: of stated numbers alone, of an environment, and of a run on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchwright.api.jax_setup import keep_programs
from batchwright.api.reports import message_printer
from batchwright.config.load import Resolved, resolve
from batchwright.config.presets import PresetNames
from batchwright.config.schema import ALGOS, CHECKED_TRAINERS, DATASET, ON_POLICY, REPLAY, TRAINERS
from batchwright.core.errors import UserError, unknown
from batchwright.core.machine import Machine, probe_machine
from batchwright.planning.agent_plan import refuse_agents_elsewhere
from batchwright.planning.component_plan import REST, component_names
from batchwright.planning.make import make_plan
from batchwright.planning.memory_plan import refuse_memory_elsewhere
from batchwright.planning.network_plan import OWN_NETWORK, refuse_small_images
from batchwright.planning.plan import Plan
from batchwright.planning.process_plan import refuse_processes_elsewhere
from batchwright.planning.quantity import DERIVED, Quantity

if TYPE_CHECKING:
    from batchwright.runs.initial_params import InitialParams
    from batchwright.runs.time_forecast import Speed


def plan(
    env: Any = None,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    machine: Machine | None = None,
    trainer: str | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Plan:
    """Every batch-like number for a task, an algorithm and a machine, without training.

    `settings` are the flags of `batchwright plan` with underscores (`num_envs=1000`); `trainer` is "rl_games", "sb3"
    or another of `--for` where another trainer's demands must be met. Raises `UserError` for settings that contradict.
    """
    from batchwright.envs.passed_envs import name_passed, with_num_envs

    settings = with_num_envs(env, settings)
    resolved = resolve({"env": name_passed(env, env_kwargs), **settings}, preset, config)
    return plan_resolved(resolved, machine or probe_machine(), trainer)


def plan_resolved(resolved: Resolved, machine: Machine, trainer: str | None = None) -> Plan:
    """The plan of merged settings; describes the environment where one is named."""
    if trainer is not None and trainer not in TRAINERS:
        raise unknown("trainer", trainer, TRAINERS, "--for")
    if trainer is not None:
        refuse_memory_elsewhere(resolved, trainer)
        refuse_processes_elsewhere(resolved, trainer)
    name = resolved.config.task.env
    task = None
    if name is not None and resolved.config.regime != DATASET:
        from batchwright.envs.catalog import describe
        from batchwright.envs.spaces import image_shapes
        from batchwright.envs.task_facts import task_facts, with_probed_components

        spec = describe(name)
        refuse_small_images(image_shapes(spec.observation))
        task = with_probed_components(resolved, task_facts(spec))
        if trainer is not None:
            refuse_agents_elsewhere(task, trainer)
    elif resolved.config.task.obs_shape is not None and resolved.config.task.obs_dtype == "uint8":
        shape = resolved.config.task.obs_shape
        refuse_small_images([shape] if len(shape) == 3 else [])
    return make_plan(resolved, machine, task, divide_exactly=_divides_exactly(resolved, trainer))


def _divides_exactly(resolved: Resolved, trainer: str | None) -> bool:
    """Other trainers refuse a remainder, drop it, or make a short last minibatch of it: we plan for none."""
    by_steps = resolved.config.regime == ON_POLICY and not resolved.config.experience.by_episodes
    return by_steps and trainer in CHECKED_TRAINERS and (trainer != "sb3" or resolved.config.algo == "ppo")


def forecast(
    env: Any,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    quiet: bool = False,
    **settings: Any,
) -> tuple[Plan, Speed, str]:
    """The plan of `train` with these settings, what training it costs here, and where that is known from.

    By the last run of the same numbers on this machine, else by a second of training; nothing is kept of it.
    `speed.seconds(plan)` is the forecast of a whole run.
    """
    keep_programs()
    from batchwright.envs.passed_envs import name_passed, with_num_envs
    from batchwright.regimes import make_learner
    from batchwright.runs import time_forecast
    from batchwright.runs.rehearsal import rehearse

    settings, name = with_num_envs(env, settings), name_passed(env, env_kwargs)
    _, made = plan_to_train(name, preset, config, message_printer(quiet), **settings)
    known = time_forecast.recall(made)
    if known is not None:
        return made, known, time_forecast.REMEMBERED
    return made, rehearse(made, lambda: make_learner(made, name)), time_forecast.MEASURED


def plan_to_train(
    env: str,
    preset: PresetNames,
    config: str | Path | None,
    on_message: Callable[[str], None] | None,
    own_network: bool = False,
    **settings: Any,
) -> tuple[Resolved, Plan]:
    """The plan of a run on this machine: engine and number of environments measured where they are not stated."""
    from batchwright.envs.catalog import describe
    from batchwright.envs.spaces import image_shapes
    from batchwright.envs.task_facts import task_facts, with_probed_components
    from batchwright.regimes import refuse_untrainable
    from batchwright.runs.engine_choice import choose_engine, possible_counts, with_choice
    from batchwright.runs.learner_threads import with_threads

    flags = {"env": env, **{name: value for name, value in settings.items() if value is not None}}
    resolved = resolve(flags, preset, config)
    initial = None
    if resolved.config.running.init_from is not None:
        initial, flags = _with_initial(resolved, flags)
        resolved = resolve(flags, preset, config)
    if resolved.config.regime == DATASET:
        raise UserError(
            f"{resolved.config.algo} learns from recorded data: another command trains it; here, {', '.join(ALGOS)}.",
            [f"batchwright lerobot train --policy {resolved.config.algo} --dataset DIR", "--algo ppo"],
        )
    replays = resolved.config.regime == REPLAY
    if replays and own_network:
        raise UserError(f"{resolved.config.algo} brings its own networks.", ["--algo ppo", "leave out network=..."])
    spec, machine = describe(env), probe_machine()
    facts = with_probed_components(resolved, task_facts(spec))
    if not own_network:
        refuse_small_images(image_shapes(spec.observation))
    first = with_threads(make_plan(resolved, machine, facts))  # before anything is compiled
    refuse_untrainable(first)
    measured: dict[str, str] = {}
    stated_engine = resolved.config.running.engine or "auto"
    if stated_engine in ("auto", "gymnasium"):
        # Entries of info that are logged are read in Python.
        family = "gymnasium" if resolved.config.running.log_info else "" if stated_engine == "auto" else stated_engine
        by_episodes = first.get("rollout_episodes") is not None
        stated = [name for name in ("num_envs", "rollout_steps") if resolved.origin(name) is not None]
        # With replay more environments would be another update ratio, or updates that wait longer.
        spread = first.get("envs_per_process")  # measured as each process has them; their number stays as planned
        fixed = family or stated or by_episodes or replays or spread
        envs, steps = spread or first["num_envs"], first.get("rollout_steps")
        counts = (envs,) if fixed else possible_counts(envs, steps, first.get("seq_length", 1))
        keys = () if facts.reward_names else tuple(name for name in component_names(first) if name != REST)
        choice = choose_engine(env, counts, on_message or (lambda text: None), family, keys)
        resolved, measured = with_choice(resolved, choice, counts, steps)
    made = with_threads(make_plan(resolved, machine, facts, measured=measured))
    if own_network:
        own = replace(made.quantities["hidden"], value=OWN_NETWORK, reason="brought by the caller")
        made = replace(made, quantities={**made.quantities, "hidden": own})
    return resolved, made if initial is None else _note_initial(made, initial)


def _with_initial(resolved: Resolved, flags: dict[str, Any]) -> tuple[InitialParams, dict[str, Any]]:
    """What `init_from` names, and the flags with the settings that its parameters were learned with."""
    from batchwright.runs.initial_params import carried_settings, read_initial

    initial = read_initial(str(resolved.config.running.init_from))
    if resolved.config.replay.reward_only:
        raise UserError("--reward-only updates no policy: --init-from has nothing to start.", ["--collecting-run RUN"])
    stated = {name for name, origin in resolved.origins.items() if origin.kind in ("flag", "file")}
    carried = {name: value for name, value in carried_settings(initial).items() if name not in stated}
    if carried.get("hidden") == OWN_NETWORK or not str(carried.get("hidden", "0"))[:1].isdigit():
        del carried["hidden"]
    return initial, {**carried, **flags, "init_from": initial.name}


def _note_initial(made: Plan, initial: InitialParams) -> Plan:
    """The plan with a fingerprint of the parameters that it starts from, and what the user should know of them."""
    fingerprint = Quantity("init_digest", initial.digest, "", f"parameters of {initial.name}", DERIVED)
    remarks = list(made.remarks)
    if made.get("warmup_steps"):
        text = f"the first {made['warmup_steps']:,} steps are random all the same"
        remarks.append(f"{text}; --warmup-steps 0 acts with the policy of --init-from at once.")
    if made.algo == "dqn" and made["epsilon_start"] > made["epsilon_end"]:
        end = f"{made['epsilon_end']:g}"
        remarks.append(f"epsilon starts at {made['epsilon_start']:g} again; --epsilon-start {end} stays at its end.")
    return replace(made, quantities={**made.quantities, "init_digest": fingerprint}, remarks=tuple(remarks))
