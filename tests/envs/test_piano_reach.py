"""PianoReach-G1-v0: the G1 before its keyboard."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from batchwright.core.errors import UserError
from batchwright.envs import piano_model, piano_registration
from batchwright.envs.piano_reach import PRESSED, PianoReach

pytest.importorskip("mujoco")


def press(env: PianoReach, key: int) -> tuple[float, bool, dict[str, object]]:
    """One step with a key held at the end of its travel."""
    env._key_angles[key] = 2 * PRESSED
    _, reward, terminated, _, info = env.step(np.zeros(env.action_space.shape))
    return reward, terminated, info


def lit_key(env: PianoReach) -> int:
    return int(np.flatnonzero(env._lit)[0])


def test_it_passes_gymnasiums_checker_as_registered() -> None:
    piano_registration.register_piano()
    env = gymnasium.make(piano_registration.PIANO)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.spec is not None and env.spec.max_episode_steps == piano_registration.PIANO_STEPS
    assert env.action_space.shape == (14,)


def test_two_environments_with_one_seed_are_equal_to_the_last_bit() -> None:
    first, second = PianoReach(), PianoReach()
    actions = np.random.default_rng(0).uniform(-1, 1, (40, 14))
    for seed in (5, 6):
        assert np.array_equal(first.reset(seed=seed)[0], second.reset(seed=seed)[0])
        for action in actions:
            one, other = first.step(action), second.step(action)
            assert np.array_equal(one[0], other[0])
            assert one[1:3] == other[1:3]


def test_the_lit_key_is_a_success_and_another_one_a_failure() -> None:
    env = PianoReach()
    env.reset(seed=1)
    reward, terminated, info = press(env, lit_key(env))
    assert (terminated, info["is_success"], info["press"], info["wrong_key"]) == (True, True, 5.0, 0.0)
    assert reward > 4
    env.reset(seed=1)
    reward, terminated, info = press(env, (lit_key(env) + 1) % 24)
    assert (terminated, info["is_success"], info["press"], info["wrong_key"]) == (True, False, 0.0, -3.0)


def test_named_components_add_up_to_the_reward() -> None:
    env = PianoReach()
    env.reset(seed=2)
    for action in np.random.default_rng(2).uniform(-1, 1, (20, 14)):
        _, reward, terminated, _, info = env.step(action)
        assert reward == pytest.approx(sum(info[name] for name in ("distance", "press", "wrong_key", "effort")))
        if terminated:
            break


def test_two_lit_keys_belong_to_two_palms_and_both_must_be_down() -> None:
    env = PianoReach(lit=2)
    env.reset(seed=3)
    left, right = np.flatnonzero(env._lit)
    assert left < 12 <= right
    _, terminated, info = press(env, left)
    assert not terminated and not info["is_success"]
    env._key_angles[left] = 2 * PRESSED
    assert press(env, right)[2]["is_success"]


def test_all_joints_are_29_actions_and_keys_rest_where_nobody_touches_them() -> None:
    env = PianoReach(joints="all")
    env.reset(seed=4)
    assert env.action_space.shape == (29,)
    for _ in range(80):
        _, _, terminated, _, _ = env.step(np.zeros(29))
        assert not terminated
    assert np.abs(env._key_angles).max() < PRESSED / 10


def test_a_palm_that_comes_down_on_a_key_presses_it() -> None:
    env = PianoReach()
    env.reset(seed=5)
    pressed = False
    for _ in range(80):  # both shoulders forward and down, elbows straight
        action = np.zeros(14)
        action[[0, 7]], action[[3, 10]] = 0.3, 0.3
        _, _, terminated, _, _ = env.step(action)
        pressed |= bool((env._key_angles > PRESSED).any())
        if terminated:
            break
    assert pressed


def test_bad_arguments_and_missing_assets_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="lit is 1 or 2"):
        PianoReach(lit=3)
    monkeypatch.setattr(piano_model.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="EnvPool's assets"):
        piano_model.g1_file()
