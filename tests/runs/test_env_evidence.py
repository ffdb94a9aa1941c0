"""What a rollout shows of its environment: hand-made rollouts with a known delay, stickiness and ends."""

from __future__ import annotations

import numpy as np
import pytest

from batchwright.data.rollout import CollectResult, Episodes, Rollout
from batchwright.runs.env_evidence import env_evidence

STEPS, ENVS = 128, 4


def walk(delay: int = 0, sticky: float = 0.0, frozen: float = 0.0, dead: bool = False) -> np.ndarray:
    """Observations [T + 1, N, 2] of a point that each action moves, and a number that nothing moves."""
    rng = np.random.default_rng(0)
    action = ACTIONS[..., 0]
    position = np.zeros((STEPS + 1, ENVS))
    taken = np.zeros(ENVS)
    for t in range(STEPS):
        wanted = action[t - delay] if t >= delay else np.zeros(ENVS)
        taken = np.where(rng.random(ENVS) < sticky, taken, wanted)
        position[t + 1] = position[t] + taken + 0.01 * rng.standard_normal(ENVS)
    shown = position.copy()
    for t in range(1, STEPS + 1):
        shown[t] = np.where(rng.random(ENVS) < frozen, shown[t - 1], position[t])
    other = np.zeros_like(shown) if dead else rng.standard_normal(shown.shape).cumsum(0) if not frozen else 2 * shown
    return np.stack([shown, other], -1).astype(np.float32)


ACTIONS = np.random.default_rng(1).uniform(-1, 1, (STEPS, ENVS, 1)).astype(np.float32)


def evidence(obs: np.ndarray, terminated: np.ndarray | None = None, iteration: int = 0) -> dict[str, float]:
    never = np.zeros((STEPS, ENVS), bool)
    ended = never if terminated is None else terminated
    reward = np.ones((STEPS, ENVS, 1), np.float32)
    rollout = Rollout(obs, ACTIONS, reward, ended, never, ~never)
    episodes = Episodes(ended, reward[..., 0], np.full((STEPS, ENVS), 20))
    return env_evidence(iteration, CollectResult(None, rollout, episodes, ACTIONS, STEPS * ENVS))


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_the_action_that_moved_the_observation_is_found_at_its_lag(delay: int) -> None:
    found = evidence(walk(delay=delay))
    effects = [found[f"action_effect_{lag}"] for lag in range(4)]
    assert np.argmax(effects) == delay and effects[delay] > 0.9
    assert max(effect for lag, effect in enumerate(effects) if lag != delay) < 0.1


def test_sticky_actions_go_on_acting() -> None:
    found = evidence(walk(sticky=0.5))
    assert found["action_effect_0"] > found["action_effect_1"] > 0.1 > found["action_effect_2"]


def test_frozen_observations_are_counted() -> None:
    assert evidence(walk(frozen=0.5))["obs_repeat_fraction"] == pytest.approx(0.5, abs=0.1)
    assert evidence(walk())["obs_repeat_fraction"] == 0.0


def test_a_dead_entry_is_named() -> None:
    found = evidence(walk(dead=True))
    assert found["obs_constant_entries"] == 1 and found["obs_constant_entry"] == 1


def test_terminations_at_a_place_have_a_sign_and_random_ones_have_none() -> None:
    obs = walk()
    far = np.abs(obs[1:, :, 0]) > np.quantile(np.abs(obs[1:, :, 0]), 0.9)
    random = np.random.default_rng(2).random(far.shape) < 0.1
    assert evidence(obs, far)["termination_sign"] > 8
    assert evidence(obs, random)["termination_sign"] < 4


def test_most_iterations_cost_nothing() -> None:
    assert evidence(walk(), iteration=17) == {} and evidence(walk(), iteration=24) != {}
