"""One on-policy iteration: collect a rollout, learn from it, say what happened."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from batchwright.data.rollout import CollectResult, Rollout
from batchwright.envs.masks import refuse_empty
from batchwright.training.build import Session
from batchwright.training.checkpoint import digest
from batchwright.training.guard import find_bad
from batchwright.training.loop import Regime, count_iteration, done_share, episode_figures, special_figures
from batchwright.training.reward_parts import remarks, take_in
from batchwright.training.running import merge_obs, merge_rewards, merge_targets
from batchwright.training.state import TrainState
from batchwright.training.update import Hyper


class Told(NamedTuple):
    """One iteration's rollout, what the update said, and the time each took."""

    gathered: CollectResult
    metrics: dict[str, Any]
    collect_seconds: float
    update_seconds: float
    remarks: tuple[str, ...] = ()
    """What a user should hear of this rollout."""

    @property
    def rollout(self) -> Rollout:
        return self.gathered.rollout


def iterate(session: Session, state: TrainState) -> tuple[TrainState, Told]:
    """Phase 1: collect. Phases 2 and 3, in one program: advantages of all of it, epochs of shuffled minibatches."""
    iteration = int(state.counters.iteration)
    stats = state.obs_stats(session.plan["normalize_obs"])
    start = time.perf_counter()
    if session.compiling is None:
        session.compile_ahead(state, stats, hyper_of(session, state))
    gathered = session.gather(state, stats)
    rollout = gathered.rollout
    collected = time.perf_counter()
    moments = session.measure(rollout, state.reward_carry)
    state = merge_rewards(state, moments)
    hyper = hyper_of(session, state)
    said: tuple[str, ...] = ()
    if state.components is not None:
        parts, numbers = take_in(session.plan, session.looks, state.components, rollout)
        parts, said = remarks(session.plan, parts, rollout, gathered.episodes, iteration)
        state, hyper = state._replace(components=parts), hyper._replace(components=numbers)
    if session.compiling is not None:
        session.compiling.join()
    learner, metrics = session.update(state.learner, rollout, stats, hyper, session.orders(iteration, rollout))
    told = session.unpack(metrics)
    if told.pop("empty_masks", 0):
        mask = np.asarray(rollout.mask)[np.asarray(rollout.valid)]
        refuse_empty(session.policy.heads.spec, mask, session.env)
    state = count_iteration(state._replace(position=gathered.position, learner=learner), gathered)
    state = merge_targets(session.plan, session.policy, merge_obs(state, moments), told)
    done = time.perf_counter()
    told |= {"entropy_bonus": float(hyper.entropy), "clip_range": float(hyper.clip)}
    return state, Told(gathered, told, collected - start, done - collected, said)


def hyper_of(session: Session, state: TrainState) -> Hyper:
    """The numbers of this iteration: schedules by the share of the run, scales by the statistics so far."""
    plan = session.plan
    rewards, targets = state.rewards.running, state.targets.running
    scale = float(rewards.std[0]) if plan["normalize_rewards"] and rewards.count > 1 else 1.0
    done = done_share(plan, state)
    shift, spread = (float(targets.mean[0]), float(targets.std[0])) if plan["popart"] else (0.0, 1.0)
    episodes = int(state.counters.episodes)
    hyper = session.schedules.hyper(done, scale, float(targets.std[0]), shift, spread, episodes)
    if state.remedies is None or float(state.remedies.entropy_pace) == 1.0:
        return hyper
    slowed = session.schedules.entropy(done * float(state.remedies.entropy_pace), episodes)
    return hyper._replace(entropy=np.float32(slowed))


def undo(state: TrainState, before: TrainState) -> TrainState:
    """Without the last update. PopArt's statistics and the parameters on their scale go back together."""
    return state._replace(learner=before.learner, targets=before.targets)


def find_bad_numbers(session: Session, state: TrainState, told: Told) -> str | None:
    """What is not finite after an iteration, or None."""
    column = "episode" if session.plan.get("rollout_episodes") else "environment"
    return find_bad(told.rollout, told.metrics, state.learner.flat, session.policy, column)


def restarted(session: Session, state: TrainState) -> TrainState:
    """Environments start anew: discounted sums of the episodes that are cut are forgotten."""
    state = state._replace(reward_carry=np.zeros_like(state.reward_carry))
    if state.components is None:
        return state
    zeros = np.zeros_like(state.components.carry)
    return state._replace(components=state.components._replace(carry=zeros, output_carry=zeros))


def make_record(session: Session, state: TrainState, told: Told, iteration_seconds: float) -> dict[str, Any]:
    """One line of the metric record."""
    metrics = told.metrics
    record = episode_figures(state, told.gathered.episodes)
    if session.plan.get("rollout_episodes"):
        record["surplus_steps"] = told.gathered.surplus_steps
    record |= special_figures(session.engine, told.gathered.episodes)
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
        "steps_per_second": told.gathered.env_steps / iteration_seconds,
    }
    return record


ON_POLICY_REGIME = Regime(iterate, find_bad_numbers, undo, restarted, make_record)
