"""Trainers that demand a minibatch which divides the rollout."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan
from run_batchwright import plan


def rl_games(**options: object) -> Plan:
    return plan(trainer="rl_games", **options)


@pytest.mark.parametrize(
    ("num_envs", "rollout_steps", "minibatch"), [(1000, 24, 6000), (1000, 16, 4000), (2047, 16, 8188)]
)
def test_24000_16000_and_32752_are_cut_in_four(num_envs: int, rollout_steps: int, minibatch: int) -> None:
    found = rl_games(num_envs=num_envs, rollout_steps=rollout_steps)
    assert found["minibatch_transitions"] == minibatch
    assert found["minibatches"] == 4


def test_a_prime_rollout_is_one_minibatch_with_a_warning_and_better_num_envs() -> None:
    found = rl_games(num_envs=10007, rollout_steps=1)
    assert found["minibatch_transitions"] == 10007
    assert found["minibatches"] == 1
    assert "no divisor near 2501" in found.warnings[0]
    assert found.alternatives == ("--num-envs 10005", "--num-envs 10008")  # 10005 = 4.6 x 2175, 10008 = 4 x 2502


def test_the_better_num_envs_of_a_prime_rollout_do_split_well() -> None:
    for prime in (2003, 4099, 104729):
        found = rl_games(num_envs=prime, rollout_steps=1)
        assert found["minibatches"] == 1
        for flag in found.alternatives:
            better = rl_games(num_envs=int(flag.split()[1]), rollout_steps=1)
            assert 3 <= better["minibatches"] <= 5
            assert not any("no divisor" in warning for warning in better.warnings)


def test_agents_are_part_of_the_rollout_that_is_divided() -> None:
    found = rl_games(num_envs=10, rollout_steps=25, num_agents=6)
    assert found["rollout_transitions"] == 1500
    assert found["minibatch_transitions"] == 375
    assert found["actual_steps"] % 250 == 0  # steps of environments, not of agents


def test_a_minibatch_holds_whole_sequences() -> None:
    # 24000 / 32 = 750 is no multiple of 32; the divisors that are come from 32 x 750, nearest 480 and 800.
    found = rl_games(num_envs=750, rollout_steps=32, seq_length=32)
    assert found["minibatch_transitions"] == 800


def test_a_horizon_that_cuts_sequences_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(UserError) as refused:
        rl_games(num_envs=10, rollout_steps=30, seq_length=8)
    assert refused.value.fixes == ("--rollout-steps 24", "--rollout-steps 32", "--seq-length 6")


def test_a_pinned_minibatch_that_does_not_divide_is_refused_with_the_nearest_legal_ones() -> None:
    with pytest.raises(UserError) as refused:
        rl_games(num_envs=1000, rollout_steps=24, minibatch_transitions=7000)
    assert "24000" in refused.value.message
    assert set(refused.value.fixes) == {f"--minibatch-transitions {size}" for size in (4800, 6000, 8000)}


def test_a_pinned_number_of_minibatches_that_does_not_divide_is_refused_with_the_nearest_ones() -> None:
    with pytest.raises(UserError) as refused:
        rl_games(num_envs=1000, rollout_steps=24, minibatches=7)
    assert {"--minibatches 6", "--minibatches 8"} <= set(refused.value.fixes)


def test_999999_is_the_full_rollout() -> None:
    assert rl_games(num_envs=16, rollout_steps=16, minibatch_transitions=999999)["minibatch_transitions"] == 256
    both = rl_games(num_envs=16, rollout_steps=16, minibatch_transitions=999999, minibatches=1)
    assert both["minibatches"] == 1


def test_a_pinned_pair_that_contradicts_is_refused_with_legal_pairs() -> None:
    with pytest.raises(UserError) as refused:
        rl_games(num_envs=1000, rollout_steps=24, minibatches=3, minibatch_transitions=6000)
    assert refused.value.fixes == (
        "--minibatches 4 --minibatch-transitions 6000",
        "--minibatches 3 --minibatch-transitions 8000",
    )


@given(
    num_envs=st.integers(1, 200),
    sequences=st.integers(1, 12),
    num_agents=st.integers(1, 4),
    seq_length=st.sampled_from([1, 2, 3, 4, 8]),
)
def test_the_divisor_nearest_in_ratio_is_found_by_trying_all(
    num_envs: int, sequences: int, num_agents: int, seq_length: int
) -> None:
    steps = sequences * seq_length
    found = rl_games(num_envs=num_envs, rollout_steps=steps, num_agents=num_agents, seq_length=seq_length)
    rollout, size = num_envs * steps * num_agents, found["minibatch_transitions"]
    if steps >= 32:
        target = min(rollout, max(64, 8 * seq_length if seq_length > 1 else 0, rollout / 32))
    else:
        target = rollout / 4 if rollout >= 1024 else rollout / 2 if rollout >= 256 else rollout
    legal = [d for d in range(seq_length, rollout + 1, seq_length) if rollout % d == 0]
    nearest = min(abs(math.log(d / target)) for d in legal)
    assert size in legal
    assert size * found["minibatches"] == rollout
    if any("no divisor near" in warning for warning in found.warnings):  # a factor of two away is no substitute
        assert nearest > math.log(1.98)
        assert size == rollout
    else:
        assert nearest <= abs(math.log(size / target)) <= nearest + 0.02  # targets are whole numbers


@settings(max_examples=60)
@given(
    num_envs=st.integers(1, 10**8),
    rollout_steps=st.integers(1, 10**9),
    num_agents=st.integers(1, 10**6),
)
def test_any_rollout_is_divided_exactly(num_envs: int, rollout_steps: int, num_agents: int) -> None:
    found = rl_games(num_envs=num_envs, rollout_steps=rollout_steps, num_agents=num_agents)
    assert found["minibatch_transitions"] * found["minibatches"] == num_envs * rollout_steps * num_agents
