"""Trainings from the plan to the final evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from batchwright.api.jax_setup import keep_programs
from batchwright.api.plans import plan_to_train
from batchwright.api.reports import message_printer
from batchwright.api.resuming import resume
from batchwright.api.seeds import refuse_seed_count, resume_seeds
from batchwright.config.presets import PresetNames
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.planning.plan import Plan
from batchwright.planning.process_plan import refuse_spread_units
from batchwright.planning.quantity import PINNED, Quantity

if TYPE_CHECKING:
    from batchwright.nets.policy import NetworkMaker
    from batchwright.runs.callback import CallbackLike
    from batchwright.runs.launch import Result
    from batchwright.tuning.seed_runs import SeedsResult


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
    from batchwright.runs.launch import create_run

    if run_dir is not None:
        RunDir.refuse_used(run_dir)  # before engines are measured, which takes seconds
    resolved, made = plan_to_train(
        env, preset, config, message_printer(quiet), own_network=network is not None, **settings
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
    from batchwright.runs.callback import Callbacks

    names = ", ".join(Callbacks(callback).names)
    reason = "runs between iterations; the run repeats as far as it does"
    noted = Quantity("callback", names, "", reason, PINNED, "callback=")
    return replace(made, quantities={**made.quantities, "callback": noted})
