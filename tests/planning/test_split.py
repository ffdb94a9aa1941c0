"""How a rollout is cut: hand figures and invariants over wide ranges."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.core.errors import UserError
from batchwright.planning.episode_plan import EpisodeCut, episode_cut
from batchwright.planning.plan import Plan
from batchwright.planning.split import Split, auto_minibatch, divisors_of_product, largest_divisor, near_equal_split
from run_batchwright import plan

ENVS, STEPS = st.integers(1, 10**6), st.integers(1, 10**5)


@pytest.mark.parametrize(
    ("num_envs", "minibatch"), [(2048, 8192), (1024, 4096), (512, 2048), (511, 2044), (256, 1024), (16, 128), (4, 64)]
)
def test_the_table_of_automatic_minibatches_holds(num_envs: int, minibatch: int) -> None:
    for trainer in (None, "rl_games"):
        found = plan(num_envs=num_envs, rollout_steps=16, trainer=trainer)
        assert found["rollout_transitions"] == num_envs * 16
        assert found["minibatch_transitions"] == minibatch


@pytest.mark.parametrize(("rollout", "target"), [(1024, 256), (1023, 511), (256, 128), (255, 255), (64, 64), (1, 1)])
def test_the_rule_changes_at_1024_and_at_256(rollout: int, target: int) -> None:
    assert auto_minibatch(rollout, 16) == target


@pytest.mark.parametrize(
    ("rollout", "target"), [(8192, 256), (4096, 128), (2048, 64), (1024, 64), (64, 64), (63, 63), (1, 1)]
)
def test_a_long_rollout_is_cut_into_32_minibatches_of_at_least_64(rollout: int, target: int) -> None:
    for steps in (32, 256, None):  # None: whole episodes
        assert auto_minibatch(rollout, steps) == target


def test_the_default_rollout_gives_320_updates() -> None:
    found = plan()
    assert (found["rollout_transitions"], found["minibatch_transitions"]) == (2048, 64)
    assert found["updates_per_iteration"] == 32 * 10


def test_the_rule_for_long_rollouts_begins_at_32_steps() -> None:
    assert plan(num_envs=64, rollout_steps=31)["minibatches"] == 4
    assert plan(num_envs=64, rollout_steps=32)["minibatches"] == 32


def test_a_minibatch_of_sequences_has_at_least_eight() -> None:
    found = plan(num_envs=8, rollout_steps=256, seq_length=16)
    assert found["minibatch_transitions"] == 8 * 16


def test_8192_transitions_in_minibatches_of_256_are_32_per_epoch() -> None:
    found = plan(num_envs=8, rollout_steps=1024, minibatch_transitions=256)
    assert found["minibatches"] == 32
    assert found["updates_per_iteration"] == 32 * found["epochs"]


def test_fifteen_rows_in_minibatches_of_eight_are_eight_and_seven() -> None:
    assert near_equal_split(15, 8).sizes() == [8, 7]


def test_a_remainder_of_one_row_is_never_a_minibatch() -> None:
    assert near_equal_split(65, 64).sizes() == [65]
    assert near_equal_split(3, 2).sizes() == [3]


@given(total=st.integers(1, 20_000), target=st.integers(1, 10**7))
def test_every_row_is_in_one_minibatch_and_sizes_differ_by_at_most_one(total: int, target: int) -> None:
    sizes = near_equal_split(total, target).sizes()
    assert sum(sizes) == total
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(2, total)


@given(total=st.integers(2, 10**11), target=st.integers(2, 10**12))
def test_the_size_stays_within_half_of_what_was_asked(total: int, target: int) -> None:
    split, wanted = near_equal_split(total, target), min(total, target)
    assert split.large <= 1.5 * wanted
    assert split.large >= wanted / 1.5


@given(parts=st.integers(1, 10**4), more=st.integers(0, 10**6))
def test_the_sum_written_out_is_true(parts: int, more: int) -> None:
    assert_formula(Split(parts + more, parts).formula(), parts + more, parts)


@given(num_envs=ENVS, rollout_steps=STEPS, num_agents=st.integers(1, 64), epochs=st.integers(1, 1000), draw=st.data())
def test_any_positive_integers_make_a_valid_plan(
    num_envs: int, rollout_steps: int, num_agents: int, epochs: int, draw: st.DataObject
) -> None:
    rollout = num_envs * rollout_steps * num_agents
    cut = draw.draw(
        st.one_of(
            st.just({}),
            st.fixed_dictionaries({"minibatch_transitions": st.integers(1, 10**12)}),
            st.fixed_dictionaries({"minibatches": st.integers(1, max(1, rollout // 2))}),
        )
    )
    total_steps = draw.draw(st.integers(1, 10**12))
    algo = draw.draw(st.sampled_from(["ppo", "a2c", "reinforce"]))
    found = plan(
        num_envs=num_envs,
        rollout_steps=rollout_steps,
        num_agents=num_agents,
        epochs=epochs,
        total_steps=total_steps,
        algo=algo,
        **cut,
    )
    assert_whole(found, rollout, 1)
    assert_totals(found, num_envs * rollout_steps, total_steps)
    assert found["updates_per_iteration"] == found["minibatches"] * epochs
    assert found["reuse"] == epochs


@given(
    num_envs=st.integers(1, 10**6),
    sequences=st.integers(1, 2000),
    seq_length=st.integers(1, 128),
    minibatch=st.none() | st.integers(1, 10**9),
)
def test_sequences_are_never_cut(num_envs: int, sequences: int, seq_length: int, minibatch: int | None) -> None:
    options = {"num_envs": num_envs, "rollout_steps": sequences * seq_length, "seq_length": seq_length}
    found = plan(**options, minibatch_transitions=minibatch)
    assert found["minibatch_transitions"] % seq_length == 0
    assert_whole(found, num_envs * sequences * seq_length, seq_length)


def test_a_minibatch_may_be_one_sequence_where_its_steps_are_what_was_asked() -> None:
    options = {"num_envs": 8, "rollout_steps": 128, "seq_length": 128, "memory": "lstm"}
    assert plan(**options, minibatch_transitions=128)["minibatches"] == 8
    assert plan(**options, minibatches=8)["minibatch_transitions"] == 128
    with pytest.raises(UserError, match="9 minibatches of at least one sequence of 128 need 1152 transitions"):
        plan(**options, minibatches=9)


@given(
    episodes=st.integers(1, 10**6),
    length=st.integers(1, 10**5),
    num_envs=st.integers(1, 10**6),
    minibatch=st.none() | st.integers(1, 10**9),
)
def test_rollouts_of_episodes_are_whole_at_full_length(
    episodes: int, length: int, num_envs: int, minibatch: int | None
) -> None:
    found = plan(rollout_episodes=episodes, episode_steps=length, num_envs=num_envs, minibatch_transitions=minibatch)
    assert found["rollout_transitions"] == episodes * length
    assert 1 <= found["minibatches"] <= max(1, episodes * length // 2)
    if minibatch is None:
        assert_whole(found, episodes * length, 1)
    else:  # the aim of every rollout; more than the longest means all of it
        assert found["minibatch_transitions"] == min(minibatch, episodes * length)
    assert found["iterations"] == -(-found["total_episodes"] // episodes)


@given(
    rows=st.integers(1, 40_000),
    cut=st.one_of(
        st.just(EpisodeCut()),
        st.builds(EpisodeCut, minibatches=st.integers(1, 500)),
        st.builds(EpisodeCut, minibatch_transitions=st.integers(1, 5000)),
    ),
    draw=st.data(),
)
def test_no_shorter_rollout_of_episodes_outgrows_the_room_of_its_program(
    rows: int, cut: EpisodeCut, draw: st.DataObject
) -> None:
    count = draw.draw(st.integers(1, rows))
    parts = cut.parts(count)
    assert parts <= cut.most_parts(rows)
    assert -(-count // parts) <= cut.largest(rows)
    assert parts == 1 or count // parts >= 2


def test_a_plan_of_episodes_cuts_by_what_was_stated() -> None:
    options = {"rollout_episodes": 10, "episode_steps": 500}
    # 640 rows: ten minibatches of 64; four; the automatic 64; all of it.
    assert episode_cut(plan(**options, minibatch_transitions=64).quantities).parts(640) == 10
    assert episode_cut(plan(**options, minibatches=4).quantities).parts(640) == 4
    assert episode_cut(plan(**options).quantities).parts(640) == 10
    assert episode_cut(plan(**options, minibatch_transitions=999_999).quantities).parts(640) == 1
    assert episode_cut(plan(rollout_episodes=10, minibatch_transitions=999_999).quantities).parts(640) == 1
    assert episode_cut(plan(**options, algo="reinforce").quantities).parts(640) == 1
    assert episode_cut(plan(rollout_episodes=10, algo="reinforce").quantities).parts(640) == 1


@given(num_envs=ENVS, rollout_steps=STEPS, more=st.integers(1, 10**6))
def test_minibatches_of_one_row_are_refused_with_the_most_there_can_be(
    num_envs: int, rollout_steps: int, more: int
) -> None:
    rollout = num_envs * rollout_steps
    minibatches = max(1, rollout // 2) + more
    with pytest.raises(UserError) as refused:
        plan(num_envs=num_envs, rollout_steps=rollout_steps, minibatches=minibatches)
    assert f"--minibatches {max(1, rollout // 2)}" in refused.value.fixes


@given(number=st.integers(1, 3000), limit=st.integers(1, 3000))
def test_the_largest_divisor_is_found_by_trying_all(number: int, limit: int) -> None:
    assert largest_divisor(number, limit) == max(d for d in range(1, limit + 1) if number % d == 0)


@given(numbers=st.lists(st.integers(1, 60), min_size=1, max_size=3))
def test_the_divisors_of_a_product_are_found_by_trying_all(numbers: list[int]) -> None:
    product = 1
    for number in numbers:
        product *= number
    assert divisors_of_product(*numbers) == [d for d in range(1, product + 1) if product % d == 0]


def assert_whole(found: Plan, rollout: int, seq_length: int) -> None:
    """The plan's own sum covers the rollout once, in near-equal parts of at least two transitions or one sequence."""
    assert found["rollout_transitions"] == rollout
    rows = rollout // seq_length
    reason = found.quantities["minibatches"].reason
    if "=" not in reason:  # the number is the user's own: the sum is told with the size
        reason = found.quantities["minibatch_transitions"].reason
    sizes = assert_formula(reason, rows, found["minibatches"])
    assert max(sizes) * seq_length == found["minibatch_transitions"]
    assert min(sizes) >= (min(2, rows) if seq_length == 1 else 1)


def assert_formula(text: str, total: int, parts: int) -> list[int]:
    """`24000 = 47 x 510 + 1 x 509` adds up; returns the sizes in it."""
    left, right = re.search(r"(\d+) = ([\dx +]+)", text).groups()  # type: ignore[union-attr]
    terms = [tuple(int(n) for n in term.split(" x ")) for term in right.strip().split(" + ")]
    assert int(left) == total == sum(count * size for count, size in terms)
    assert sum(count for count, _ in terms) == parts
    sizes = [size for _, size in terms]
    assert max(sizes) - min(sizes) <= 1
    return sizes


def assert_totals(found: Plan, steps_per_iteration: int, total_steps: int) -> None:
    """The run takes what was asked, rounded up to whole iterations."""
    actual = found["actual_steps"]
    assert actual == found["iterations"] * steps_per_iteration
    assert total_steps <= actual < total_steps + steps_per_iteration
