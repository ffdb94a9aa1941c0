"""Masks, components and success through every engine that Python drives, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import special_envs  # noqa: F401 - registers its environments

from batchwright.collect.host_rollouts import make_host_collect, start_host
from batchwright.core.errors import UserError
from batchwright.envs.engines import HostEngine
from batchwright.nets.policy import ObsStats
from batchwright.nets.policy_factory import make_policy

FILE = str(Path(__file__).with_name("special_envs.py"))
STATS = ObsStats(np.zeros(1, np.float32), np.ones(1, np.float32))
T, N = 9, 2


def collected(engine: HostEngine) -> Any:
    """A rollout of a random policy: the environment fails on a forbidden action."""
    policy = make_policy(engine.observation, engine.action, hidden=(4,), num_values=max(1, len(engine.reward_names)))
    collect = make_host_collect(engine, policy, T)
    flat = policy.init(jax.random.key(0))
    return collect(flat, STATS, start_host(engine, 0), policy.heads.noise(1, (T, N)))


@pytest.mark.parametrize("engine", ["gymnasium-sync", "gymnasium-async", "gymnasium-split"])
def test_a_vector_reward_comes_with_its_names_its_sum_masks_and_success(make: Any, engine: str) -> None:
    made = make(f"{FILE}:Masked", N, engine)
    assert made.reward_names == ("alive", "steps")
    _, rollout, episodes = collected(made)
    # Three steps and a reset, over and over: components (1, 1), (1, 2), (1, 3), (0, 0).
    assert rollout.reward[:5, 0].tolist() == [[1, 1], [1, 2], [1, 3], [0, 0], [1, 1]]
    assert rollout.action[:3, 1, 0].tolist() == [1, 2, 3]
    assert rollout.mask[:3, 0].argmax(-1).tolist() == [1, 2, 3] and (rollout.mask[:3].sum(-1) == 1).all()
    assert np.flatnonzero(episodes.ended[:, 0]).tolist() == [2, 6]
    assert episodes.returns[2, 0] == 9 and episodes.components[2, 0].tolist() == [3, 6]
    assert episodes.success[2, 0] == 1


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP", "DISABLED"])
def test_the_vector_form_gives_masks_and_chosen_keys_of_info(make: Any, mode: str) -> None:
    made = make(f"Masked-{mode}-v0", N, "gymnasium-vector", components=("twice", "alive"))
    _, rollout, episodes = collected(made)
    first = [[2, 1], [4, 1], [6, 1]]
    follows = [0, 0] if mode == "NEXT_STEP" else [2, 1]
    assert rollout.reward[:4, 0].tolist() == [*first, follows]
    assert rollout.mask[:3, 1].argmax(-1).tolist() == [1, 2, 3]
    assert episodes.components[2, 1].tolist() == [12, 3] and episodes.returns[2, 1] == 9
    assert episodes.success[2, 1] == 1


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_the_rest_is_what_named_keys_leave_out_of_the_reward(make: Any, mode: str) -> None:
    by_one = make(f"{FILE}:numbered", N, "gymnasium-sync", components=("rest", "alive"))
    vector = make(f"Masked-{mode}-v0", N, "gymnasium-vector", components=("rest", "alive"))
    for made in (by_one, vector):
        _, rollout, episodes = collected(made)
        # The reward is 1 + steps.
        assert rollout.reward[:3, 0].tolist() == [[1, 1], [2, 1], [3, 1]]
        assert episodes.components[2, 1].tolist() == [6, 3] and episodes.returns[2, 1] == 9


def test_the_plain_sum_can_be_asked_for(make: Any) -> None:
    made = make(f"{FILE}:Masked", N, "gymnasium-sync", components=("none",))
    _, rollout, _ = collected(made)
    assert made.reward_names == () and rollout.reward[:3, 0, 0].tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("fault", "components", "words"),
    [
        ("no mask", None, ("action_mask", "environment 0")),
        ("shape", None, ("action mask", "(5,)")),
        ("empty", None, ("forbids every value", "'action'")),
        ("no key", ("twice", "alive"), ("'twice'", "alive")),
    ],
)
def test_what_is_missing_or_wrong_is_named(make: Any, fault: str, components: Any, words: tuple[str, ...]) -> None:
    kwargs = {"fault": fault, "vector": components is None}
    with pytest.raises(UserError) as refused:
        collected(make(f"{FILE}:Masked", N, "gymnasium-sync", env_kwargs=kwargs, components=components))
    for word in words:
        assert word in str(refused.value)


def test_a_component_that_a_vector_reward_does_not_have_is_refused(make: Any) -> None:
    with pytest.raises(UserError, match="alive"):
        make(f"{FILE}:Masked", N, "gymnasium-sync", components=("alife",))
