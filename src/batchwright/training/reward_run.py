"""A reward model from wish to result: its run directory, its loop, its fit on held-out episodes."""

# E episodes.

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.config.load import Resolved, resolve
from batchwright.config.save import to_yaml
from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.machine import probe_machine
from batchwright.core.run_dir import RunDir, run_name
from batchwright.core.streams import Streams
from batchwright.envs import spaces
from batchwright.planning.quantity import Plan
from batchwright.planning.recorded import plan_recorded
from batchwright.store.recorded.bank import Bank
from batchwright.training import checkpoint
from batchwright.training.launch import open_run, versions
from batchwright.training.loop import DivergedError
from batchwright.training.reward_data import RewardData, check_returns, draw_source, find_data, split
from batchwright.training.reward_model import RewardModel, RewardState
from batchwright.training.signals import stop_when_asked
from batchwright.watch.agreement import agreement, spearman
from batchwright.watch.metric_log import EventLog, MetricLog
from batchwright.watch.reward_lines import fit_lines, header_lines, iteration_line
from batchwright.watch.reward_picture import Strip, picture

MODEL, FIT, PICTURE, FRAMES = "model.json", "fit.json", "rewards.html", "frames"
LINES = 10
"""Iterations told on the screen, the last among them."""
PICTURED = 4
FRAMES_PICTURED = 12


@dataclass(frozen=True)
class RewardResult:
    """What a reward model came to."""

    run_dir: Path
    fit: dict[str, Any]
    """Of held-out and of training episodes: correlation, spearman, error, constant_error; empty where interrupted."""
    iterations: int
    updates: int
    interrupted: bool = False
    seconds: float = 0.0


def prepare_reward(
    flags: dict[str, Any],
    preset: str | None,
    config: str | Path | None,
    run_dir: str | Path | None,
    on_plan: Callable[[Plan], None] | None = None,
) -> Path:
    """A run directory with its plan; nothing is trained yet."""
    resolved = _with_whole_paths(resolve(flags, preset, config))
    data = find_data(resolved)
    check_returns(data, resolved)
    plan = plan_recorded(resolved, data.facts, probe_machine())
    RewardModel(data.spec(_hidden(plan)))  # what no network can take is refused before a directory is made
    if on_plan is not None:
        on_plan(plan)
    run = RunDir.create(run_dir, run_name(data.name, plan.algo, plan["seed"]))
    write_atomically(run.config_path, to_yaml(resolved).encode())
    write_atomically(run.plan_path, plan.to_json().encode())
    return run.path


def _with_whole_paths(resolved: Resolved) -> Resolved:
    """A run is resumed from anywhere: paths that exist are kept whole; ids of datasets stay as they are."""
    recorded = resolved.config.recorded
    stated = {name: getattr(recorded, name) for name in ("data", "returns")}
    paths = {name: Path(value).expanduser() for name, value in stated.items() if value is not None}
    whole: dict[str, Any] = {name: str(path.resolve()) for name, path in paths.items() if path.exists()}
    return replace(resolved, config=replace(resolved.config, recorded=replace(recorded, **whole)))


def _hidden(plan: Plan) -> tuple[int, ...]:
    units = str(plan["hidden"])
    return tuple(int(word) for word in units.split(",")) if units[0].isdigit() else ()


@dataclass
class _Run:
    """One run while it is trained."""

    run: RunDir
    plan: Plan
    data: RewardData
    model: RewardModel
    bank: Bank
    training: np.ndarray
    held_out: np.ndarray
    quiet: bool
    stream: Any = field(default_factory=lambda: sys.stdout)

    def say(self, *lines: str) -> None:
        if not self.quiet:
            print(*lines, sep="\n", file=self.stream, flush=True)

    def fit(self, state: RewardState) -> dict[str, Any]:
        """How predicted returns agree with true ones, held out and learned from."""
        constant = float(self.bank.return_E[self.training].mean())
        found = {}
        for name, among in (("held_out", self.held_out), ("training", self.training)):
            if len(among):
                along = [self.model.along(state, self.bank, int(e)) for e in among]
                sums = np.array([rewards.sum(dtype=np.float64) for rewards in along])
                found[name] = agreement(sums, self.bank.return_E[among], constant)
                if self.bank.reward_Q is not None:
                    true = np.concatenate([self.bank.rewards(int(e)) for e in among])
                    found[name]["step_spearman"] = spearman(np.concatenate(along), true)
        return found


def continue_reward(path: str | Path, quiet: bool = False) -> RewardResult:
    """Trains a run from its last good checkpoint, or from the start, to the end of its plan."""
    run, resolved, plan = open_run(path)
    with run.lock(), EventLog(run.events_path) as events, MetricLog(run.metrics_path) as metrics:
        began = time.perf_counter()
        one = _open(run, resolved, plan, quiet)
        try:
            return _train(one, events, metrics, began)
        finally:
            shutil.rmtree(run.path / FRAMES, ignore_errors=True)


def _open(run: RunDir, resolved: Resolved, plan: Plan, quiet: bool) -> _Run:
    data = find_data(resolved)
    if plan["recording_digest"] != data.digest:
        raise UserError(
            f"{data.recording.path} has changed since {run} was begun: other episodes, lengths or returns.",
            [f"batchwright rrd {data.recording.path} with another --run-dir"],
        )
    training, held_out = split(len(data.entries), plan["held_out_episodes"], plan["seed"])
    spec = data.spec(_hidden(plan))
    model = RewardModel(spec)
    write_atomically(run.path / MODEL, spec.to_json().encode())
    told = _Run(run, plan, data, model, None, training, held_out, quiet)  # type: ignore[arg-type]
    told.say(*header_lines(plan, data.recording.kind, str(data.recording.path), data.returns), f"run directory: {run}")
    told.bank = data.read(run.path / FRAMES if plan["frames_on_disk"] else None)
    return told


def _train(one: _Run, events: EventLog, metrics: MetricLog, began: float) -> RewardResult:
    """From where the run stands to its end; the first Ctrl-C saves."""
    plan = one.plan
    state = _start(one, events, metrics)
    for warning in plan.warnings if int(state.iteration) == 0 else ():
        events.record("warning", 0, warning)
        one.say(f"warning: {warning}")
    with stop_when_asked(lambda text: print(f"warning: {text}", file=sys.stderr)) as stopping:
        while int(state.iteration) < plan["iterations"] and not stopping():
            state, record = _iterate(one, state)
            iteration = int(state.iteration)
            last = iteration == plan["iterations"]
            if last or (plan["eval_every"] and iteration % plan["eval_every"] == 0):
                record |= _flat(one.fit(state))
            metrics.record(record)
            if last or iteration % max(1, plan["iterations"] // LINES) == 0:
                one.say(iteration_line(record, plan["iterations"]))
            if last or stopping() or iteration % plan["checkpoint_every"] == 0:
                metrics.sync()
                checkpoint.save(one.run.checkpoints, iteration, state, {"versions": versions()})
                events.record("checkpoint", iteration, "scheduled" if not stopping() else "asked for by a signal")
    return _finish(one, state, events, time.perf_counter() - began)


def _start(one: _Run, events: EventLog, metrics: MetricLog) -> RewardState:
    fresh = one.model.start(
        Streams(one.plan["seed"]).number("reward-network"), one.model.measure(one.bank, one.training)
    )

    def warn(text: str) -> None:
        events.record("checkpoint", 0, text)
        print(f"warning: {text}", file=sys.stderr)

    found = checkpoint.load_last(one.run.checkpoints, fresh, warn)
    if found is None:
        metrics.cut_after(-1)
        return fresh
    saved, was = jax.tree.flatten(found[0])[0], jax.tree.flatten(fresh)
    restored = [jnp.asarray(new) if isinstance(old, jax.Array) else new for new, old in zip(saved, was[0], strict=True)]
    state: RewardState = jax.tree.unflatten(was[1], restored)
    dropped = metrics.cut_after(int(state.iteration) - 1)
    told = f"resumed after iteration {int(state.iteration)}"
    events.record("resume", int(state.iteration), told)
    one.say(told + (f"; {dropped} later records are made again" if dropped else ""))
    return state


def _iterate(one: _Run, state: RewardState) -> tuple[RewardState, dict[str, Any]]:
    """Draws of all updates, then all updates in one compiled call."""
    plan, iteration, began = one.plan, int(state.iteration), time.perf_counter()
    drawn = one.bank.draw(
        draw_source(plan["seed"], iteration),
        one.training,
        plan["updates_per_iteration"],
        plan["subsequences_per_update"],
        plan["subsequence_timesteps"],
        plan["redistribute"] == "full",
    )
    ready = time.perf_counter()
    rate, decay = (np.float32(plan[name]) for name in ("learning_rate", "weight_decay"))
    state, told = one.model.update(state, drawn, rate, decay, unbiased=plan["redistribute"] == "rrd-unbiased")
    values = {name: float(value) for name, value in told.items()}
    state = state._replace(iteration=np.int64(iteration + 1))
    bad = [name for name, value in values.items() if not np.isfinite(value)]
    if bad:
        error = DivergedError(f"{', '.join(bad)} of iteration {iteration} not finite", iteration)
        error.fixes = (f"--learning-rate {plan['learning_rate'] / 10:g}",)
        raise error
    done = time.perf_counter()
    flat = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(state.params)])
    return state, {
        "iteration": iteration,
        "env_steps": 0,
        "updates_total": (iteration + 1) * plan["updates_per_iteration"],
        **values,
        "parameters_digest": checkpoint.digest(flat),
        "draw_seconds": ready - began,
        "update_seconds": done - ready,
        "updates_per_second": plan["updates_per_iteration"] / (done - began),
    }


def _flat(fit: dict[str, Any]) -> dict[str, Any]:
    """`held_out_spearman` and the like, for the record."""
    return {f"{part}_{name}": value for part, told in fit.items() for name, value in told.items() if name != "episodes"}


def _finish(one: _Run, state: RewardState, events: EventLog, seconds: float) -> RewardResult:
    iterations, updates = int(state.iteration), int(state.iteration) * one.plan["updates_per_iteration"]
    if iterations < one.plan["iterations"]:
        told = f"interrupted after iteration {iterations}; go on with: batchwright resume {one.run}"
        events.record("interrupted", iterations, told)
        one.say(told)
        return RewardResult(one.run.path, {}, iterations, updates, True, seconds)
    fit = one.fit(state)
    write_atomically(one.run.path / FIT, json.dumps(fit, indent=2).encode())
    among = one.held_out if len(one.held_out) else one.training
    write_atomically(one.run.path / PICTURE, picture(_strips(one, state, among), one.data.name).encode())
    events.record("fit", iterations, "measured", **fit)
    events.record("finished", iterations, "trained to the end of its plan")
    one.say("", *fit_lines(fit), "", f"model: {one.run}", f"fit: {one.run.path / FIT}")
    one.say(f"rewards along {min(PICTURED, len(among))} episodes: {one.run.path / PICTURE}")
    return RewardResult(one.run.path, fit, iterations, updates, False, seconds)


def _strips(one: _Run, state: RewardState, among: np.ndarray) -> list[Strip]:
    """Episodes from the lowest return to the highest, with their rewards and some of their images."""
    order = among[np.argsort(one.bank.return_E[among], kind="stable")]
    places = np.unique(np.linspace(0, len(order) - 1, min(PICTURED, len(order))).round().astype(int))
    images = next((key for key, leaf in one.model.spec.observation.items() if spaces.is_image(leaf)), None)
    strips = []
    for episode in (int(order[place]) for place in places):
        steps = np.unique(np.linspace(0, one.bank.length_E[episode] - 1, FRAMES_PICTURED).round().astype(int))
        row = one.bank.first_row_E[episode]
        strips.append(
            Strip(
                one.bank.entries[episode].id,
                float(one.bank.return_E[episode]),
                one.model.along(state, one.bank, episode),
                one.bank.rewards(episode),
                [] if images is None else [(int(s), np.asarray(one.bank.obs[images][row + s])) for s in steps],
            )
        )
    return strips
