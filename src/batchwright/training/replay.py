"""One replay iteration: collect transitions, store them, learn from draws of all that is stored."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import jax
import numpy as np

from batchwright.collect.transitions import stored_rewards
from batchwright.data.rollout import CollectResult, Rollout
from batchwright.training.checkpoint import digest
from batchwright.training.guard import find_bad
from batchwright.training.loop import Regime, count_iteration, done_share, episode_figures, special_figures
from batchwright.training.replay_build import ReplaySession, ReplayState
from batchwright.training.state import Moments


class Told(NamedTuple):
    """One iteration's rollout, what its updates said, and the time each part took."""

    gathered: CollectResult
    metrics: dict[str, Any]
    updates: int
    collect_seconds: float
    draw_seconds: float
    update_seconds: float
    remarks: tuple[str, ...] = ()
    """What a user should hear of this iteration."""

    @property
    def rollout(self) -> Rollout:
        return self.gathered.rollout


def iterate(session: ReplaySession, state: ReplayState) -> tuple[ReplayState, Told]:
    """Collects with the policy as it is, stores what happened, then makes all updates of the iteration in one call."""
    iteration, env_steps = int(state.counters.iteration), int(state.counters.env_steps)
    stats = state.obs_stats(session.plan["normalize_obs"])
    start = time.perf_counter()
    noise = session.noise(iteration, env_steps)
    position, rollout, episodes = session.collect(state.learner.flat, stats, state.position, noise)
    jax.block_until_ready(rollout)  # type: ignore[no-untyped-call]
    collected = drawn_at = time.perf_counter()
    learner, metrics, updates = state.learner, {"finite_rollout": is_finite(rollout), "finite_parameters": True}, 0
    if metrics["finite_rollout"]:
        rewards = stored_rewards(rollout, episodes, session.plan["episodic_reward"])
        session.buffer.add(rollout, rewards, episodes, position.lengths)
        if session.can_update(env_steps):
            drawn = session.draw(iteration)
            drawn_at = time.perf_counter()
            hyper = session.hyper(done_share(session.plan, state))
            learner, told = session.learn(learner, stats, hyper, drawn)
            metrics, updates = metrics | told, session.plan["updates_per_iteration"]
        state = _merge_obs(session, state, rollout)
    else:
        session.buffer.cut()
    done = time.perf_counter()
    gathered = CollectResult(position, rollout, episodes, rollout.action, session.plan["steps_per_iteration"])
    state = count_iteration(state._replace(position=position, learner=learner), gathered)
    times = (collected - start, drawn_at - collected, done - drawn_at)
    return state, Told(gathered, metrics, updates, *times, session.remarks(env_steps, updates))


def is_finite(rollout: Rollout) -> bool:
    """Whether no number of a rollout is NaN or infinite; what is not finite never enters the buffer."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((rollout.obs, rollout.reward))]
    return all(bool(np.isfinite(leaf).all()) for leaf in leaves if leaf.dtype.kind == "f")


def _merge_obs(session: ReplaySession, state: ReplayState, rollout: Rollout) -> ReplayState:
    """Observation statistics with the new frames, from the next iteration on."""
    if not session.plan["normalize_obs"] or not session.policy.inputs.vectors:
        return state
    rows = np.asarray(session.policy.inputs.vector(jax.tree.map(lambda x: x[:-1], rollout.obs)), np.float64)
    rows = rows[np.asarray(rollout.valid)]
    if not len(rows):
        return state
    merged = state.obs.running.merge(len(rows), rows.mean(0), np.square(rows - rows.mean(0)).sum(0))
    return state._replace(obs=Moments.of(merged))


def find_bad_numbers(session: ReplaySession, state: ReplayState, told: Told) -> str | None:
    """What is not finite after an iteration, or None."""
    metrics = {"loss": told.metrics.get("critic_loss", 0.0), "gradient_norm": 0.0} | told.metrics
    if metrics["finite_rollout"] and not metrics["finite_parameters"]:
        flat = np.asarray(state.learner.flat)
        if np.isfinite(flat).all():
            return f"a critic, target or reward parameter is not finite after the update (loss {metrics['loss']})"
    return find_bad(told.rollout, metrics, state.learner.flat, session.policy)


def undo(state: ReplayState, before: ReplayState) -> ReplayState:
    """Without the last updates; the buffer holds finite rows only and keeps them."""
    return state._replace(learner=before.learner)


def restarted(session: ReplaySession, state: ReplayState) -> ReplayState:
    """Environments start anew: running episodes are cut in the buffer, as truncated."""
    session.buffer.cut()
    return state


def make_record(session: ReplaySession, state: ReplayState, told: Told, iteration_seconds: float) -> dict[str, Any]:
    """One line of the metric record."""
    plan = session.plan
    record = episode_figures(state, told.gathered.episodes) | special_figures(session.engine, told.gathered.episodes)
    hidden = ("finite_rollout", "finite_parameters")
    record |= {name: float(value) for name, value in told.metrics.items() if name not in hidden}
    if "critic_loss" in record:
        record["loss"] = record["critic_loss"]
    if plan.algo == "dqn":
        before = int(state.counters.env_steps) - plan["steps_per_iteration"]
        record["epsilon"] = 1.0 if before < plan["warmup_steps"] else session.epsilon(before)
    steps = told.gathered.env_steps
    if told.updates:
        record["updates_per_step"] = told.updates / steps
    busy = told.collect_seconds + told.draw_seconds + told.update_seconds
    return record | {
        "updates": told.updates,
        "updates_total": int(state.learner.updates),
        "replay_transitions": session.buffer.transitions,
        "learning_rate": float(session.hyper((int(state.counters.iteration) - 1) / plan["iterations"]).learning_rate),
        "parameters_digest": digest(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(state.learner)])),
        "collect_seconds": told.collect_seconds,
        "draw_seconds": told.draw_seconds,
        "update_seconds": told.update_seconds,
        "wait_seconds": max(0.0, iteration_seconds - busy),
        "steps_per_second": steps / iteration_seconds,
    }


REPLAY_REGIME = Regime(iterate, find_bad_numbers, undo, restarted, make_record)
