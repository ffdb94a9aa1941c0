"""The on-policy loop: collect a rollout, learn from it, say what happened."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from batchwright.data.rollout import Episodes, Rollout
from batchwright.planning.quantity import Plan
from batchwright.training.build import Session
from batchwright.training.checkpoint import digest
from batchwright.training.guard import MOST_BAD_ITERATIONS, find_bad
from batchwright.training.running import merge_obs, merge_rewards, merge_targets
from batchwright.training.state import TrainState
from batchwright.training.update import Hyper


class Watch(Protocol):
    """Who is told; the loop knows no files and no screens."""

    def record(self, record: dict[str, Any]) -> None: ...
    def bad(self, iteration: int, what: str, rollout: Rollout, flat: Any) -> None: ...
    def checkpoint(self, state: TrainState, actions: list[np.ndarray], scheduled: bool) -> None: ...
    def evaluate(self, state: TrainState) -> dict[str, Any]: ...
    def interrupted(self) -> bool: ...


class DivergedError(Exception):
    """Training produced non-finite numbers again and again, to `iteration`."""

    def __init__(self, what: str, iteration: int) -> None:
        super().__init__(what)
        self.iteration = iteration


class _Told(NamedTuple):
    """One iteration's rollout, what the update said, and the time each took."""

    rollout: Rollout
    episodes: Episodes
    metrics: dict[str, Any]
    collect_seconds: float
    update_seconds: float


def run(session: Session, state: TrainState, watch: Watch, actions: list[np.ndarray]) -> TrainState:
    """Iterates to the end of the plan, or to an interrupt; returns the last state.

    `actions` are those taken since the engine was started, kept where the engine cannot save itself, so that an
    interrupt can be resumed exactly.
    """
    plan = session.plan
    while not finished(plan, state):
        began, before = time.perf_counter(), state
        state, told = iterate(session, state)
        what = find_bad(told.rollout, told.metrics, state.learner.flat, session.policy)
        state = _guard(state, before, told, what, watch)
        if not session.engine.saves_state:
            actions.append(np.asarray(told.rollout.action))
        record = make_record(session, state, told, time.perf_counter() - began)
        iteration = int(state.counters.iteration)
        last = finished(plan, state)
        if last or (plan["eval_every"] and iteration % plan["eval_every"] == 0):
            record |= watch.evaluate(state)
        watch.record(record)
        stop = watch.interrupted()
        if last or iteration % plan["checkpoint_every"] == 0:
            state = restart_unless_saved(session, state, actions, last)
            watch.checkpoint(state, [], scheduled=True)
        elif stop:
            watch.checkpoint(state, actions, scheduled=False)
        if stop:
            break
    return state


def finished(plan: Plan, state: TrainState) -> bool:
    """Whether all planned iterations are done, or the return that was called enough is reached."""
    return int(state.counters.iteration) >= plan["iterations"] or state.solved(plan.get("stop_return"))


def iterate(session: Session, state: TrainState) -> tuple[TrainState, _Told]:
    """Phase 1: collect. Phases 2 and 3, in one program: advantages of all of it, epochs of shuffled minibatches."""
    iteration = int(state.counters.iteration)
    stats = state.obs_stats(session.plan["normalize_obs"])
    start = time.perf_counter()
    position, rollout, episodes = session.collect(state.learner.flat, stats, state.position, session.noise(iteration))
    jax.block_until_ready(rollout)  # type: ignore[no-untyped-call]
    collected = time.perf_counter()
    moments = session.measure(rollout, state.reward_carry)
    state = merge_rewards(state, moments)
    hyper = hyper_of(session, state)
    learner, metrics = session.update(state.learner, rollout, stats, hyper, session.orders(iteration))
    told = session.unpack(metrics)
    state = _count(state._replace(position=position, learner=learner), rollout, episodes)
    state = merge_targets(session.plan, session.policy, merge_obs(state, moments), told)
    done = time.perf_counter()
    told |= {"entropy_bonus": float(hyper.entropy), "clip_range": float(hyper.clip)}
    return state, _Told(rollout, episodes, told, collected - start, done - collected)


def hyper_of(session: Session, state: TrainState) -> Hyper:
    """The numbers of this iteration: schedules by the share of the run, scales by the statistics so far."""
    plan = session.plan
    rewards, targets = state.rewards.running, state.targets.running
    scale = float(rewards.std[0]) if plan["normalize_rewards"] and rewards.count > 1 else 1.0
    done = int(state.counters.iteration) / plan["iterations"]
    shift, spread = (float(targets.mean[0]), float(targets.std[0])) if plan["popart"] else (0.0, 1.0)
    return session.schedules.hyper(done, scale, float(targets.std[0]), shift, spread)


def _count(state: TrainState, rollout: Rollout, episodes: Episodes) -> TrainState:
    counters = state.counters
    ended = np.asarray(episodes.ended)
    recent = np.concatenate([state.recent_returns, np.asarray(episodes.returns)[ended]])[-len(state.recent_returns) :]
    return state._replace(
        recent_returns=recent,
        counters=counters._replace(
            iteration=counters.iteration + 1,
            env_steps=counters.env_steps + ended.size,
            transitions=counters.transitions + int(np.asarray(rollout.valid).sum()),
            episodes=counters.episodes + int(ended.sum()),
        ),
    )


def _guard(state: TrainState, before: TrainState, told: _Told, what: str | None, watch: Watch) -> TrainState:
    """Non-finite numbers undo the update of their iteration; too many iterations in a row end the run."""
    bad = 0 if what is None else int(state.counters.bad_iterations) + 1
    state = state._replace(counters=state.counters._replace(bad_iterations=np.int64(bad)))
    if what is None:
        return state
    watch.bad(int(state.counters.iteration), what, told.rollout, before.learner.flat)
    if bad >= MOST_BAD_ITERATIONS:
        raise DivergedError(what, int(state.counters.iteration))
    # PopArt's statistics and the parameters on their scale go back together.
    return state._replace(learner=before.learner, targets=before.targets)


def restart_unless_saved(session: Session, state: TrainState, actions: list[np.ndarray], last: bool) -> TrainState:
    """At a checkpoint an engine that cannot be saved starts anew, in a resumed run and an uninterrupted one alike."""
    if session.engine.saves_state or last:
        return state
    actions.clear()
    iteration = int(state.counters.iteration)
    position = session.start_engine(iteration)
    carry = np.zeros_like(state.reward_carry)
    counters = state.counters._replace(engine_started=np.int64(iteration))
    return state._replace(position=position, reward_carry=carry, counters=counters)


def make_record(session: Session, state: TrainState, told: _Told, iteration_seconds: float) -> dict[str, Any]:
    """One line of the metric record."""
    metrics, counters = told.metrics, state.counters
    ended = np.asarray(told.episodes.ended)
    returns, lengths = np.asarray(told.episodes.returns)[ended], np.asarray(told.episodes.lengths)[ended]
    record: dict[str, Any] = {
        "iteration": int(counters.iteration) - 1,
        "env_steps": int(counters.env_steps),
        "transitions": int(counters.transitions),
        "episodes": len(returns),
        "episodes_total": int(counters.episodes),
    }
    if len(returns):
        record |= {
            "episode_return": float(returns.mean(dtype=np.float64)),
            "episode_return_std": float(returns.std(dtype=np.float64)),
            "episode_return_min": float(returns.min()),
            "episode_return_max": float(returns.max()),
            "episode_length": float(lengths.mean()),
        }
    hidden = ("finite_rollout", "finite_parameters", "transitions", "target_mean", "target_squares")
    record |= {name: float(value) for name, value in metrics.items() if name not in hidden}
    record["updates"] = int(record["updates"])
    record["updates_total"] = int(state.learner.updates)
    record["parameters_digest"] = digest(state.learner.flat)
    busy = told.collect_seconds + told.update_seconds
    record |= {
        "collect_seconds": told.collect_seconds,
        "update_seconds": told.update_seconds,
        "wait_seconds": max(0.0, iteration_seconds - busy),
        "steps_per_second": ended.size / iteration_seconds,
    }
    return record
