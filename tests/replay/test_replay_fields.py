"""No number of replay training is read and ignored: each changes what is learned, or what is compiled."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import jax
import numpy as np
import pytest

from batchwright.config.schema import REPLAY, Learning, Replay
from batchwright.replay.replay_learner import ReplayLearner, make_replay_learner
from batchwright.runs.engine_learner import digest
from run_batchwright import plan

BASE: dict[str, Any] = {
    "engine": "jax",
    "preset": "none",
    "num_envs": 2,
    "rollout_steps": 12,
    "updates_per_iteration": 4,
    "transitions_per_update": 8,
    "replay_transitions": 500,
    "warmup_steps": 24,
    "hidden": (4,),
    "total_steps": 24 * 5,
    "learning_rate": 0.01,
    "episodic_reward": True,
    "redistribute": "rrd",
    "rrd_timesteps_per_update": 8,
    "subsequence_timesteps": 4,
}
ENVS = {"sac": "IdentityContinuous-v0", "td3": "IdentityContinuous-v0", "dqn": "CartPole-v1"}
# Field -> (algorithm, other value): numbers that an iteration is given, in one compiled program.
GIVEN: dict[str, tuple[str, Any]] = {
    "learning_rate": ("sac", 0.02),
    "learning_rate_schedule": ("sac", "linear"),
    "warmup_updates": ("sac", 10),
    "gamma": ("sac", 0.5),
    "normalize_obs": ("sac", True),
    "polyak": ("sac", 0.5),
    "updates_per_target": ("sac", 3),
    "temperature_start": ("sac", 0.1),
    "target_entropy": ("sac", 2.0),
    "reward_learning_rate": ("sac", 0.1),
    "warmup_steps": ("sac", 48),
    "exploration_noise": ("td3", 0.5),
    "target_noise": ("td3", 0.1),
    "target_noise_clip": ("td3", 0.01),
    "epsilon_start": ("dqn", 0.1),
    "epsilon_end": ("dqn", 0.9),
    "epsilon_share": ("dqn", 0.3),
    "huber_limit": ("dqn", 0.01),
}
# Field -> (other value, how the learner shows it): what is compiled in or allocated.
BUILT: dict[str, tuple[Any, Any]] = {
    "max_grad_norm": (0.1, lambda s: s.algorithm.adam),
    "adam_beta2": (0.9, lambda s: s.algorithm.adam),
    "adam_eps": (1e-3, lambda s: s.algorithm.adam),
    "learn_temperature": (False, lambda s: s.algorithm.own),
    "policy_delay": (3, lambda s: s.algorithm.own),
    "redistribute": ("rrd-unbiased", lambda s: s.reward_model.unbiased),
    "hidden": ((5,), lambda s: s.policy.init(jax.random.key(0)).shape),
    "activation": ("tanh", lambda s: s.policy.outputs(s.policy.init(jax.random.key(0)), np.ones((1, 1))).raw.tolist()),
    "replay_transitions": (700, lambda s: s.buffer.rows),
    "store_next_obs": (True, lambda s: s.buffer.frames.next_obs is None),
    "replay_on": ("host", lambda s: s.buffer.on_device),
    "episodic_reward": (False, lambda s: s.replay_settings.episodic_reward),
    "updates_per_iteration": (3, lambda s: sample(s).transitions.row.shape),
    "transitions_per_update": (9, lambda s: sample(s).transitions.row.shape),
    "rrd_timesteps_per_update": (12, lambda s: sample(s).rewards.timesteps.row.shape),
    "subsequence_timesteps": (2, lambda s: sample(s).rewards.timesteps.row.shape),
}
WARMING_UP = {"warmup_steps": 24 * 3}
"""No update is made in the first two iterations, and none is compiled."""
ELSEWHERE = {"stacked_frames", "reward_only", "collecting_run"}
"""Stacked observations: `test_stacked_frames.py`; rewards learned without a policy: `test_reward_only.py`."""
COMPILED: dict[str, ReplayLearner] = {}


def sample(learner: ReplayLearner) -> Any:
    """What is drawn for the updates of an iteration, after rollouts that were collected without one."""
    learner.session.collect = COMPILED.setdefault("sac", learner).session.collect
    state = learner.start()
    for _ in range(2):
        state, _ = learner.iterate(state)
    return learner.sample(0)


def parameters(algo: str, **changes: Any) -> str:
    """The parameters after five iterations, all by the programs that were compiled for the first call."""
    late = {"epsilon_share": 0.9} if algo == "dqn" else {}  # beyond the warm-up, where every action is random
    learner = make_replay_learner(plan(env=ENVS[algo], algo=algo, **(BASE | late | changes)), ENVS[algo])
    compiled = COMPILED.setdefault(algo, learner)
    learner.session.collect, learner.update.compiled = compiled.session.collect, compiled.update.compiled
    state = learner.start()
    for _ in range(5):
        state, _ = learner.iterate(state)
    return digest(state.train.params)


def test_the_lists_are_whole() -> None:
    named = {f.name for section in (Replay, Learning) for f in fields(section) if REPLAY in f.metadata["regimes"]}
    assert named == GIVEN.keys() | BUILT.keys() | ELSEWHERE


@pytest.fixture(scope="module")
def before() -> dict[str, str]:
    return {algo: parameters(algo) for algo in ENVS}


@pytest.mark.parametrize("name", GIVEN)
def test_the_number_changes_what_is_learned(name: str, before: dict[str, str]) -> None:
    algo, value = GIVEN[name]
    assert parameters(algo, **{name: value}) != before[algo]


@pytest.mark.parametrize("name", BUILT)
def test_the_number_changes_what_is_built(name: str) -> None:
    value, shown = BUILT[name]
    algo = "td3" if name == "policy_delay" else "sac"
    one, other = (
        make_replay_learner(plan(env=ENVS[algo], algo=algo, **(BASE | WARMING_UP | change)), ENVS[algo])
        for change in ({}, {name: value})
    )
    assert shown(one) != shown(other)
