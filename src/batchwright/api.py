"""What the package offers in Python; the command line is a thin layer over it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, overload

from batchwright.config.load import Resolved, resolve
from batchwright.config.presets import PresetNames
from batchwright.config.run_config import read_run_config
from batchwright.config.schema import ALGOS, CHECKED_TRAINERS, DATASET, FIELDS, ON_POLICY, RECORDED, REPLAY, TRAINERS
from batchwright.core.errors import UserError, unknown
from batchwright.core.machine import Machine, probe_machine
from batchwright.core.safe_open import checked_path, explain_refusal, read_json
from batchwright.core.seed_folder import seed_paths
from batchwright.planning.agent_plan import refuse_agents_elsewhere
from batchwright.planning.make import make_plan
from batchwright.planning.memory_plan import refuse_memory_elsewhere
from batchwright.planning.network_plan import refuse_small_images
from batchwright.planning.plan import Plan
from batchwright.planning.process_plan import refuse_processes_elsewhere, refuse_spread_units

if TYPE_CHECKING:
    from batchwright.core.run_dir import RunDir
    from batchwright.doctor.diagnosis import Diagnosis
    from batchwright.envs.engines.engine import OnEvent
    from batchwright.lerobot.lerobot_run import DatasetResult
    from batchwright.nets.policy import NetworkMaker
    from batchwright.policies.trained_policy import TrainedPolicy
    from batchwright.reward.learned_reward import LearnedReward
    from batchwright.reward.reward_run import RewardResult
    from batchwright.runs.callback import CallbackLike
    from batchwright.runs.engine_learner import EngineLearner
    from batchwright.runs.initial_params import InitialParams
    from batchwright.runs.launch import Result
    from batchwright.runs.recorder import OutputOptions
    from batchwright.runs.time_forecast import Speed
    from batchwright.tuning.remedy_trials import Trials
    from batchwright.tuning.tuning_flow import TuneResult
    from batchwright.tuning.unit_runs import Objective


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
    _, made = plan_to_train(name, preset, config, None if quiet else print, **settings)
    known = time_forecast.recall(made)
    if known is not None:
        return made, known, time_forecast.REMEMBERED
    return made, rehearse(made, lambda: make_learner(made, name)), time_forecast.MEASURED


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


@overload
def train(env: Any, *, seeds: None = None, **settings: Any) -> Result: ...


@overload
def train(env: Any, *, seeds: int, **settings: Any) -> SeedsResult: ...


def train(
    env: Any,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    writers: tuple[str, ...] = (),
    lines: str = "plain",
    network: NetworkMaker | None = None,
    callback: CallbackLike | None = None,
    seeds: int | None = None,
    workers: int = 1,
    on: str | None = None,
    address: str | None = None,
    **settings: Any,
) -> Result | SeedsResult:
    """Plans and trains; returns where the run lies and its final evaluation.

    `env` is a name, an environment, its class, or a function that makes one; `env_kwargs` are passed to it.
    `settings` are the flags of `batchwright train` with underscores; `network` is a function (inputs, raw outputs,
    values) -> `batchwright.Network` that replaces the built-in network; `callback` is a `batchwright.Callback`, a
    function (metrics, view), or a list of them. With `seeds` one setting is trained over so many seeds, `workers` of
    them side by side in processes of their own. `on="ray"` places `processes` on the Ray cluster at `address`.
    """
    from batchwright.runs.start_processes import refuse_place
    from batchwright.watch.writers import check_writers

    check_writers(writers)
    refuse_place(on, address)
    if callback is not None and seeds is not None:
        raise UserError("a callback is for one run; several seeds have none.", ["call train(seed=...) in a loop"])
    options: dict[str, Any] = {"preset": preset, "config": config, "run_dir": run_dir, "quiet": quiet}
    run = prepare(env, seeds=seeds, network=network, callback=callback, **options, **settings)
    if seeds is not None:
        return resume_seeds(run, quiet=quiet, writers=writers, network=network, workers=workers, trust=True)
    own: dict[str, Any] = {"network": network, "callback": callback, "on": on, "address": address}
    return train_prepared(run, quiet=quiet, writers=writers, lines=lines, **own)


def train_prepared(
    run: str | Path,
    *,
    quiet: bool = False,
    writers: tuple[str, ...] = (),
    lines: str = "plain",
    network: NetworkMaker | None = None,
    callback: CallbackLike | None = None,
    on: str | None = None,
    address: str | None = None,
) -> Result:
    """Trains what `prepare` has just made; where training is refused before it begins, nothing stays of the run."""
    from batchwright.runs.launch import discard_unstarted

    try:  # the environment was named in this program: its code may run
        options: dict[str, Any] = {"quiet": quiet, "writers": writers, "lines": lines, "on": on, "address": address}
        return resume(run, network=network, callback=callback, trust=True, **options)
    except UserError:
        discard_unstarted(run)
        raise


def prepare(
    env: Any,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    network: NetworkMaker | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    callback: CallbackLike | None = None,
    seeds: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Path:
    """A run directory with its plan, nothing trained yet: `resume` trains it; `on_plan` is shown the plan first.

    With `seeds` it is a folder of so many runs, which differ in the seed alone.
    """
    keep_programs()
    from batchwright.envs.passed_envs import name_passed, with_num_envs

    settings, env = with_num_envs(env, settings), name_passed(env, env_kwargs)
    refuse_seed_count(seeds)
    from batchwright.core.run_dir import RunDir
    from batchwright.runs.launch import create_run

    if run_dir is not None:
        RunDir.refuse_used(run_dir)  # before engines are measured, which takes seconds
    resolved, made = plan_to_train(
        env, preset, config, None if quiet else print, own_network=network is not None, **settings
    )
    if callback is not None:
        made = _note_callback(made, callback)
    if on_plan is not None:
        on_plan(made)
    if seeds is not None:
        from batchwright.tuning.seed_runs import prepare_seeds

        refuse_spread_units(made, "--seeds")
        return prepare_seeds(resolved, made, seeds, run_dir)
    return create_run(resolved, made, run_dir).path


def _note_callback(made: Plan, callback: CallbackLike) -> Plan:
    """The plan with the names of the callbacks, without which the run must not go on."""
    from batchwright.planning.quantity import PINNED, Quantity
    from batchwright.runs.callback import Callbacks

    names = ", ".join(Callbacks(callback).names)
    reason = "runs between iterations; the run repeats as far as it does"
    noted = Quantity("callback", names, "", reason, PINNED, "callback=")
    return replace(made, quantities={**made.quantities, "callback": noted})


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
    from batchwright.planning.component_plan import REST, component_names
    from batchwright.planning.network_plan import OWN_NETWORK
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
    from batchwright.planning.network_plan import OWN_NETWORK
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
    from batchwright.planning.quantity import DERIVED, Quantity

    fingerprint = Quantity("init_digest", initial.digest, "", f"parameters of {initial.name}", DERIVED)
    remarks = list(made.remarks)
    if made.get("warmup_steps"):
        text = f"the first {made['warmup_steps']:,} steps are random all the same"
        remarks.append(f"{text}; --warmup-steps 0 acts with the policy of --init-from at once.")
    if made.algo == "dqn" and made["epsilon_start"] > made["epsilon_end"]:
        end = f"{made['epsilon_end']:g}"
        remarks.append(f"epsilon starts at {made['epsilon_start']:g} again; --epsilon-start {end} stays at its end.")
    return replace(made, quantities={**made.quantities, "init_digest": fingerprint}, remarks=tuple(remarks))


def resume(
    run: str | Path,
    *,
    quiet: bool = False,
    writers: tuple[str, ...] = (),
    lines: str = "plain",
    network: NetworkMaker | None = None,
    callback: CallbackLike | None = None,
    env: Any = None,
    trust: bool = False,
    from_start: bool = False,
    total_steps: int | None = None,
    total_episodes: int | None = None,
    processes: int | None = None,
    on: str | None = None,
    address: str | None = None,
) -> Result:
    """Goes on with a run from its last good checkpoint; equal, bit for bit, to never having stopped.

    `total_steps` (or `total_episodes`, where a run counts those) makes the run longer; what its schedules then do
    differently is printed. `trust` lets code run that the run of somebody else names as its environment. `from_start`
    starts a run anew that lost its checkpoints; its record is kept beside. `env` passes an environment again that the
    run was given as an object. `processes` is how many go on with it; as many as planned when not stated.
    """
    keep_programs()
    _pass_again(run, env)
    extend(run, total_steps=total_steps, total_episodes=total_episodes, quiet=quiet, trust=trust)
    from batchwright.runs.recorder import OutputOptions
    from batchwright.runs.start_processes import is_worker, refuse_place

    together = processes or _planned_processes(run)
    on_ray = refuse_place(on, address, together)
    if together > 1 and not is_worker():
        _refuse_objects(run, network, callback, env)
        words = _words_of_resume(run, quiet, writers, lines, trust, from_start)
        return _train_in_processes(run, together, words, on_ray, address)
    options = OutputOptions(quiet=quiet, writers=writers, lines=lines)
    return _train_and_report(run, options, network, trust, from_start, callback)


def _planned_processes(run: str | Path) -> int:
    from batchwright.core.run_dir import RunDir

    return _settings_of(RunDir.open(run)).config.experience.processes or 1


def _refuse_objects(run: str | Path, network: Any, callback: Any, env: Any) -> None:
    """Refuses what lives in this process alone."""
    from batchwright.core.run_dir import RunDir
    from batchwright.envs.env_names import PASSED

    env = env if not str(_settings_of(RunDir.open(run)).config.task.env).startswith(PASSED) else PASSED
    for name, value in (("network", network), ("callback", callback), ("env", env)):
        if value is not None:
            raise UserError(
                f"{name}= is an object of this process; those of --processes start anew and would not have it.",
                [f"leave out {name}=", "processes=1"],
            )


def _words_of_resume(
    run: str | Path, quiet: bool, writers: tuple[str, ...], lines: str, trust: bool, from_start: bool
) -> list[str]:
    words = ["resume", str(run), *(["--quiet"] if quiet else []), *(["--writers", *writers] if writers else [])]
    return [*words, "--lines", lines, *(["--trust"] if trust else []), *(["--from-start"] if from_start else [])]


def _train_in_processes(run: str | Path, processes: int, words: list[str], on_ray: bool, address: str | None) -> Result:
    """Trains a run in processes of its own; this one waits for them, and reads the result from the run."""
    from batchwright.planning.process_plan import with_processes
    from batchwright.runs.launch import open_run
    from batchwright.runs.process_result import result_of
    from batchwright.runs.start_processes import INTERRUPTED, ProcessesFailed, local_place, run_processes

    with_processes(open_run(run)[2], processes)  # refused here, once
    try:
        if on_ray:
            from batchwright.runs.ray_processes import run_on_ray

            run_on_ray(words, processes, address)
        else:
            run_processes(words, local_place(processes))
    except ProcessesFailed as error:
        if error.code != INTERRUPTED:
            raise
        return result_of(run, interrupted=True)
    return result_of(run, interrupted=False)


def train_as_follower() -> int:
    """Trains in a process that is not the first of several; returns the exit code."""
    from batchwright.regimes import make_learner
    from batchwright.runs.process_group import current_group
    from batchwright.runs.silent_run import train_silently

    return train_silently(make_learner, current_group())


def _pass_again(run: str | Path, env: Any) -> None:
    """Gives a run the environment that it was trained on, where that was passed as an object."""
    if env is None:
        return
    from batchwright.core.run_dir import RunDir
    from batchwright.envs.passed_envs import pass_for

    pass_for(str(_settings_of(RunDir.open(run)).config.task.env), env)


def extend(
    run: str | Path,
    *,
    total_steps: int | None = None,
    total_episodes: int | None = None,
    quiet: bool = False,
    trust: bool = False,
) -> None:
    """Plans a run anew for another length and trains nothing: `resume` goes on to the new end."""
    length = {"total_steps": total_steps, "total_episodes": total_episodes}
    stated = {name: value for name, value in length.items() if value is not None}
    if not stated:
        return
    if len(stated) > 1:
        raise UserError("--total-steps and --total-episodes contradict each other.", [f"--total-steps {total_steps}"])
    from batchwright.runs.extension import extend_run

    extend_run(run, stated, _say_nothing if quiet else _print_now, trust)


@dataclass(frozen=True)
class SeedsResult:
    """The outcome of one setting over several seeds."""

    run_dir: Path
    """The folder of the runs."""
    runs: list[dict[str, Any]]
    """One per seed: run, status, reason, seconds, score (the mean of its last evaluation)."""
    median: float | None
    """Of the scores."""
    iqm: float | None
    iqm_interval: list[float] | None
    """95%; resamples runs."""
    interrupted: bool = False


MOST_SEEDS = 1000


def refuse_seed_count(seeds: int | None) -> None:
    if seeds is not None and not (type(seeds) is int and 1 <= seeds <= MOST_SEEDS):
        raise UserError(f"--seeds {seeds} is not a whole number from 1 to {MOST_SEEDS}.", ["--seeds 5"])


def resume_seeds(
    folder: str | Path,
    *,
    quiet: bool = False,
    writers: tuple[str, ...] = (),
    network: NetworkMaker | None = None,
    workers: int = 1,
    trust: bool = False,
) -> SeedsResult:
    """Goes on with one setting over seeds: finished runs stay as they are, others go on from their checkpoints.

    `trust` lets the code run that runs name which were not made here.
    """
    keep_programs()
    from batchwright.tuning.executors import INTERRUPTED, RunOutcome, make_executor
    from batchwright.tuning.seed_runs import train_seeds
    from batchwright.web.groups import scores
    from batchwright.web.report import read_run

    place = Path(folder).expanduser()
    runs = seed_paths(place)
    executor = make_executor(workers, writers, network, trust)

    def show(outcome: RunOutcome) -> None:
        if not quiet or outcome.reason:
            reason = f": {outcome.reason}" if outcome.reason else ""
            print(f"{outcome.run.name}: {outcome.status} after {outcome.seconds:.1f} s{reason}", flush=True)

    try:
        outcomes = train_seeds(runs, executor, show)
    finally:
        executor.close()
    found = scores([read_run(run) for run in runs])
    rows = [{**outcome, "score": row["score"]} for outcome, row in zip(outcomes, found["scores"], strict=True)]
    _leave_report(place, sys.stdout)
    interrupted = any(row["status"] in (INTERRUPTED, "not started") for row in rows)
    return SeedsResult(place, rows, found["median"], found["iqm"], found["iqm_interval"], interrupted)


def tune(
    env: str,
    *,
    budget: str | None = None,
    budget_steps: int | str | None = None,
    phases: Sequence[str] = (),
    space: str | Path | None = None,
    search: str = "surface",
    tune_seeds: int | None = None,
    judge_seeds: int = 5,
    workers: int | None = None,
    on: str = "local",
    address: str | None = None,
    export_optuna: str | Path | None = None,
    run_dir: str | Path | None = None,
    dry_run: bool = False,
    quiet: bool = False,
    objective: Objective | None = None,
    preset: PresetNames = None,
    config: str | Path | None = None,
    **settings: Any,
) -> TuneResult | None:
    """Tunes a setting by the playbook and judges it on fresh seeds; returns the verdict, None with `dry_run`.

    `settings` are the flags of `batchwright train` with underscores: what is stated is fixed, not tuned, and
    `total_steps` is the length of one training. `objective` is a function of one metric record that is maximised; its
    mean over the steps of a training ranks a setting. The default is the return of the episodes that ended.
    `on="ray"` trains on the Ray cluster at `address`; `export_optuna` is a file for the tuning as an Optuna study.
    """
    keep_programs()
    from batchwright.envs.catalog import describe
    from batchwright.envs.passed_envs import name_passed
    from batchwright.envs.task_facts import task_facts
    from batchwright.tuning.start_tuning import TuneRequest, start_tuning
    from batchwright.tuning.unit_place import UnitPlace

    env = name_passed(env)
    settings = {name: value for name, value in settings.items() if value is not None}
    settings.setdefault("learner_threads", os.environ.get("NPROC", "1"))
    request = TuneRequest(
        env,
        budget,
        budget_steps,
        tuple(phases),
        space,
        search,
        tune_seeds,
        judge_seeds,
        UnitPlace(on, address, workers),
        run_dir,
        dry_run,
        export_optuna,
    )
    request.check()
    on_message = _print_now if not quiet else _say_nothing
    resolved, made = plan_to_train(env, preset, config, None if quiet else print, **settings)
    refuse_spread_units(made, "tune")
    task = task_facts(describe(env))
    result = start_tuning(request, resolved, made, probe_machine(), task, tuple(settings), objective, on_message)
    if result is not None:
        _leave_tuning(result.run_dir, export_optuna)
    return result


def resume_tuning(
    folder: str | Path,
    *,
    workers: int | None = None,
    on: str = "local",
    address: str | None = None,
    export_optuna: str | Path | None = None,
    quiet: bool = False,
    objective: Objective | None = None,
    trust: bool = False,
) -> TuneResult:
    """Goes on with a tuning; its decisions and its verdict are those of one that was never stopped.

    `trust` lets the code run that a tuning names which was not made here.
    """
    keep_programs()
    from batchwright.envs.catalog import describe
    from batchwright.envs.task_facts import task_facts
    from batchwright.tuning.optuna_export import check_export
    from batchwright.tuning.start_tuning import check_tuning_trust, continue_tuning
    from batchwright.tuning.unit_place import UnitPlace

    place = UnitPlace(on, address, workers)
    place.check()
    if export_optuna is not None:
        check_export(export_optuna)
    task = task_facts(describe(check_tuning_trust(folder, trust)))
    on_message = _print_now if not quiet else _say_nothing
    result = continue_tuning(folder, probe_machine(), task, place, objective, on_message)
    _leave_tuning(result.run_dir, export_optuna)
    return result


def _leave_tuning(folder: Path, export: str | Path | None) -> None:
    """Leaves the report of a tuning, and its study where one is asked for."""
    _leave_report(folder, sys.stdout)
    if export is not None:
        from batchwright.tuning.optuna_export import export_optuna

        export_optuna(folder, export)


def _print_now(message: str) -> None:
    print(message, flush=True)


def _say_nothing(message: str) -> None:
    """For a quiet run."""


def report(*runs: str | Path, out: str | Path | None = None) -> Path:
    """Writes one page about runs that opens without a connection; returns where it lies. Runs no code of a run.

    Runs that differ in nothing but the seed are drawn together. One run's report goes into the run where `out` is not
    stated; only a report of ours is replaced.
    """
    from batchwright.web.report import write_report

    return write_report(runs, out)


def _train_and_report(
    run: str | Path,
    options: OutputOptions,
    network: NetworkMaker | None,
    trust: bool,
    from_start: bool = False,
    callback: CallbackLike | None = None,
) -> Result:
    """Trains a run to its end and leaves its report, also where it was interrupted or diverged."""
    from batchwright.regimes import make_learner
    from batchwright.runs.callback import Callbacks
    from batchwright.runs.launch import EvaluationFailed, continue_run
    from batchwright.runs.loop import DivergedError
    from batchwright.runs.shared_programs import programs_of_process
    from batchwright.runs.start_state import StartOptions

    def make(plan: Plan, env: str, on_event: OnEvent) -> EngineLearner[Any]:
        programs = programs_of_process(plan["engine"]) if network is None else None
        return make_learner(plan, env, on_event, network, programs)

    start, user = StartOptions(trust, from_start), Callbacks(callback)
    try:
        result = continue_run(run, make, options, start, user)
    except (DivergedError, EvaluationFailed):
        _leave_report(run, options.stream)
        raise
    _leave_report(run, options.stream)
    return result


def _leave_report(run: str | Path, stream: TextIO) -> None:
    """The report of a run, named on the screen. Best effort: it can be made again from the record."""
    try:
        message = f"report: {report(run)}"
    except Exception as error:
        message = f"warning: no report was written: {error}"
    with contextlib.suppress(OSError, ValueError):  # the reader went away
        print(message, file=stream, flush=True)


def resume_reward(run: str | Path, *, quiet: bool = False, from_start: bool = False) -> RewardResult:
    """Goes on with the run of a reward model from its last good checkpoint; equal to never having stopped.

    `from_start` starts a run anew that lost its checkpoints; its record is kept beside.
    """
    set_up_jax()
    from batchwright.reward.reward_run import continue_reward

    result = continue_reward(run, quiet=quiet, from_start=from_start)
    _leave_report(run, sys.stdout)
    return result


def continue_dataset_run(
    run: str | Path, *, python: str | None = None, quiet: bool = False, writers: tuple[str, ...] = ()
) -> DatasetResult:
    """Goes on with a run on recorded data from its last checkpoint, in LeRobot's interpreter; leaves its report."""
    from batchwright.lerobot.lerobot_run import continue_run

    result = continue_run(run, python, quiet, writers)
    if result.updates:
        _leave_report(run, sys.stderr if quiet else sys.stdout)
    return result


def is_reward_run(run: str | Path) -> bool:
    """Whether a directory is the run of a reward model."""
    from batchwright.core.run_dir import RunDir

    found = RunDir(checked_path(run))
    return found.is_run and _settings_of(found).config.regime == RECORDED


def names_strange_code(run: str | Path) -> str | None:
    """The code that a run names and that this user has not agreed to run; None where there is none."""
    from batchwright.core.run_dir import RunDir
    from batchwright.core.trust import is_trusted

    found = RunDir.open(run)
    env = _settings_of(found).config.task.env
    return None if is_trusted(found, env) else env


def _settings_of(run: RunDir) -> Resolved:
    """The settings of a run, without its plan."""
    with explain_refusal(run.config_path, "read", f"make {run.config_path} readable"):
        return read_run_config(run)


def learn_reward(
    data: str | Path,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    quiet: bool = False,
    **settings: Any,
) -> RewardResult:
    """Learns the rewards of single steps from the returns of recorded episodes; returns where the run lies and its fit.

    `settings` are the flags of `batchwright rrd` with underscores.
    """
    run = prepare_reward(data, preset=preset, config=config, run_dir=run_dir, **settings)
    return resume_reward(run, quiet=quiet)


def prepare_reward(
    data: str | Path | None,
    *,
    preset: PresetNames = None,
    config: str | Path | None = None,
    run_dir: str | Path | None = None,
    on_plan: Callable[[Plan], None] | None = None,
    **settings: Any,
) -> Path:
    """A run directory of a reward model with its plan, nothing trained yet; `on_plan` is shown the plan first."""
    set_up_jax()
    from batchwright.reward.reward_run import prepare_reward as prepare_run

    flags = {"data": None if data is None else str(data), **settings}
    return prepare_run(flags, preset, config, run_dir, on_plan)


def prepare_online_reward(env: str, **settings: Any) -> Path:
    """A run directory that learns rewards in an environment without updating a policy; nothing trained yet.

    `settings` are those of `prepare`. The algorithm only says how actions are drawn: by default that of the collecting
    run, else sac or dqn by the kind of actions.
    """
    keep_programs()
    from batchwright.envs import spaces
    from batchwright.envs.catalog import describe
    from batchwright.runs.launch import open_run

    stated = resolve({name: value for name, value in settings.items() if name in FIELDS}, settings.get("preset"))
    chosen: dict[str, Any] = {"reward_only": True}
    if stated.origin("redistribute") is None:
        chosen["redistribute"] = "rrd"
    collecting = settings.get("collecting_run")
    if collecting is not None:
        plan = open_run(collecting)[2]
        settings["collecting_run"] = str(Path(collecting).expanduser().absolute())
        chosen |= {"algo": plan.algo, "hidden": plan["hidden"], "normalize_obs": plan["normalize_obs"]}
    elif settings.get("algo") is None:
        chosen["algo"] = "dqn" if spaces.is_discrete(describe(env).action) else "sac"
    given = {name: value for name, value in settings.items() if value is not None}
    return prepare(env, **(chosen | given))


def load_reward(run: str | Path, trust: bool = False) -> LearnedReward:
    """The reward model of a run: call it with (obs, action, next_obs) arrays, get one reward per step.

    `trust` lets code run that the run of somebody else names as its environment.
    """
    set_up_jax()
    from batchwright.reward.learned_reward import load_reward as load_model

    return load_model(run, trust)


def diagnose(run: str | Path, trainer: str | None = None) -> Diagnosis:
    """What is wrong with a run: finished, unfinished or crashed; damage to its record is said, not raised.

    `run` is a run directory of ours, or a log of `trainer` (sb3, cleanrl, rl_games; recognised where it is not named):
    TensorBoard files or CSV.
    """
    from batchwright.core.run_dir import FOREIGN_JOB, RunDir
    from batchwright.doctor.diagnosis import Diagnosis
    from batchwright.doctor.logs.names import in_trainer_settings
    from batchwright.doctor.logs.read import find_log, read_log
    from batchwright.doctor.run_history import Facts, facts_of
    from batchwright.doctor.triage import triage
    from batchwright.planning.plan import plan_from_dict
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
    say = _say_nothing if quiet else _print_now
    return try_each(run, findings, share=share, most=most, trust=trust, on_message=say)


def load(
    run: str | Path,
    network: NetworkMaker | None = None,
    *,
    trust: bool = False,
    on_warning: Callable[[str], None] | None = None,
    checkpoint: int | str = "last",
    env: Any = None,
) -> TrainedPolicy:
    """The trained policy of a run: call it with an observation, get an action.

    `checkpoint` is "last", "best" (by its evaluations during training) or the number of an iteration. `trust` lets code
    run that the run of somebody else names as its environment. `on_warning` hears of damaged checkpoints; without it
    they are Python warnings. `env` passes an environment again that the run was given as an object.
    """
    set_up_jax()
    _pass_again(run, env)
    from batchwright.policies.trained_policy import load as load_policy

    return load_policy(run, network, trust, on_warning, checkpoint)


def export(
    run: str | Path,
    to: str = "onnx",
    out: str | Path | None = None,
    *,
    checkpoint: int | str = "last",
    trust: bool = False,
) -> list[Path]:
    """Writes the policy of a run as one file that runs without Batchwright; returns the files.

    `to` is "onnx" or "numpy"; `out` is `policy.onnx` or `policy.npz` in the run directory when not stated. Observation
    normalisation, heads, masks and the scaling of actions are inside.
    """
    set_up_jax()
    from batchwright.policies.export import FORMATS, export_policy

    if to not in FORMATS:
        raise unknown("format", to, FORMATS, "--to")
    policy = load(run, trust=trust, checkpoint=checkpoint)
    path = Path(out or Path(run) / f"policy{FORMATS[to]}")
    if not policy.groups:
        return export_policy(policy, to, path)
    files = [export_policy(one, to, path.with_stem(f"{path.stem}-{name}")) for name, one in policy.groups.items()]
    return list(dict.fromkeys(file for part in files for file in part))


def set_up_jax() -> None:
    """Environment variables that JAX reads when it starts, where no plan sets its threads; the user's own values stay.

    XLA's threads cost more than they bring on the small programs of policy training (docs/log.md).
    """
    keep_programs()
    os.environ.setdefault("NPROC", "1")


def keep_programs() -> None:
    """Compiled programs are kept, so that the second start of one is quick; what the user set stays.

    JAX reads the variables when it is imported. Where the caller has imported it already, it is told directly.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchwright" / "programs"
    wanted: dict[str, str | float | int] = {
        "jax_compilation_cache_dir": str(cache),
        "jax_persistent_cache_min_compile_time_secs": 0.3,
        "jax_compilation_cache_max_size": 512 * 1024**2,
    }
    unset = {name: value for name, value in wanted.items() if name.upper() not in os.environ}
    os.environ.update({name.upper(): str(value) for name, value in unset.items()})
    jax = sys.modules.get("jax")
    if jax is not None and jax.config.jax_compilation_cache_dir is None:
        for name, value in unset.items():
            jax.config.update(name, value)
