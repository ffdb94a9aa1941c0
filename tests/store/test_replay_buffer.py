"""The replay buffer against a plain list of everything that was collected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from batchwright.core.errors import UserError
from batchwright.data.rollout import Episodes, Rollout
from batchwright.envs.spaces import box
from batchwright.store import replay_files
from batchwright.store.replay_buffer import Draw, ReplayBuffer, gather
from batchwright.store.replay_files import ReplayFiles

OBS = box(-np.inf, np.inf, (2,))


class Walk:
    """N environments in next-step form whose observations name themselves: (environment, running number).

    The reward of a transition is the number of the frame it starts from, so that a transition proves itself.
    """

    def __init__(self, num_envs: int, ends: Any, seed: int = 0) -> None:
        self.n, self.rng = num_envs, np.random.default_rng(seed)
        self.ends = ends  # chance that a step ends its episode
        self.number = np.zeros(num_envs, int)
        self.ended, self.lengths = np.zeros(num_envs, bool), np.zeros(num_envs, int)
        self.returns = np.zeros(num_envs)
        self.true: set[tuple[int, int, int, bool]] = set()  # environment, frame, next frame, terminated
        self.whole: dict[tuple[int, int], tuple[int, float]] = {}  # (environment, first frame) -> (length, return)

    def obs(self) -> np.ndarray:
        return np.stack([np.arange(self.n), self.number], 1).astype(np.float32)

    def rollout(self, steps: int) -> tuple[Rollout, np.ndarray, Episodes]:
        obs, rows = [self.obs()], []
        for _ in range(steps):
            valid = ~self.ended
            before = self.number.copy()
            self.number = self.number + 1
            end = valid & (self.rng.random(self.n) < self.ends)
            terminated = end & (self.rng.random(self.n) < 0.5)
            self.lengths = np.where(valid, self.lengths + 1, 0)
            self.returns = np.where(valid, self.returns + before, 0.0)
            for i in np.flatnonzero(valid):
                self.true.add((i, before[i], self.number[i], bool(terminated[i])))
            for i in np.flatnonzero(end):
                first = self.number[i] - self.lengths[i]
                self.whole[i, first] = (self.lengths[i], self.returns[i])
            rows.append((before * valid, terminated, end & ~terminated, valid, end, self.returns, self.lengths))
            self.ended = end
            obs.append(self.obs())
        reward, terminated, truncated, valid, ended, returns, lengths = (np.stack(x) for x in zip(*rows, strict=True))
        action = np.zeros((steps, self.n, 1), np.float32)
        rollout = Rollout(np.stack(obs), action, reward[..., None], terminated, truncated, valid)
        return rollout, reward.astype(np.float32), Episodes(ended, returns, lengths)

    def feed(self, buffer: ReplayBuffer, steps: int) -> None:
        rollout, reward, episodes = self.rollout(steps)
        buffer.add(rollout, reward, episodes, self.lengths)

    def restart(self) -> None:
        """As an engine that cannot be saved does at a checkpoint: other numbers, no running episodes."""
        self.number = self.number + 1000
        self.ended, self.lengths, self.returns = np.zeros(self.n, bool), np.zeros(self.n, int), np.zeros(self.n)


def made(transitions: int = 40, num_envs: int = 3, with_next: bool = False, on_device: bool = True) -> ReplayBuffer:
    return ReplayBuffer(OBS, 1, transitions, num_envs, with_next, on_device)


def drawn(buffer: ReplayBuffer, draw: Draw) -> list[tuple[int, int, int, bool]]:
    batch = jax.tree.map(np.asarray, gather(buffer.frames, draw))
    assert (batch.obs[:, 0] == batch.next_obs[:, 0]).all(), "a draw crossed columns"
    assert (batch.reward == batch.obs[:, 1]).all()
    return [
        (int(o[0]), int(o[1]), int(n[1]), bool(t))
        for o, n, t in zip(batch.obs, batch.next_obs, batch.terminated, strict=True)
    ]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.mark.parametrize("with_next", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("steps", [1, 4, 13])
def test_every_draw_is_a_transition_that_happened(with_next: bool, on_device: bool, steps: int) -> None:
    buffer, walk = made(with_next=with_next, on_device=on_device), Walk(3, 0.2)
    for turn in range(60 // steps):
        walk.feed(buffer, steps)
        if turn % 5 == 4:
            buffer.cut()
            walk.restart()
        assert set(drawn(buffer, buffer.draw_transitions(rng(turn), 200))) <= walk.true


def test_the_newest_transitions_can_all_be_drawn_and_older_ones_not() -> None:
    buffer, walk = made(transitions=12, num_envs=2), Walk(2, 0.0)
    for _ in range(5):
        walk.feed(buffer, 4)
    found = set(drawn(buffer, buffer.draw_transitions(rng(), 2000)))
    # 20 steps were taken; 12 transitions of 2 columns are the newest 6 of each.
    assert found == {(i, k, k + 1, False) for i in range(2) for k in range(14, 20)}
    assert buffer.transitions == 12


def test_transitions_are_equally_likely_whatever_their_episodes() -> None:
    buffer, walk = made(transitions=30, num_envs=1), Walk(1, 0.3, seed=3)
    walk.feed(buffer, 30)
    found = drawn(buffer, buffer.draw_transitions(rng(), 20_000))
    counts = np.array([found.count(one) for one in set(found)])
    assert len(counts) == buffer.transitions
    assert counts / 20_000 == pytest.approx(np.full(len(counts), 1 / len(counts)), abs=0.01)


def test_subsequences_are_timesteps_of_whole_finished_episodes_with_their_return() -> None:
    buffer, walk = made(transitions=60, num_envs=2), Walk(2, 0.15, seed=1)
    for turn in range(12):
        walk.feed(buffer, 9)
        if turn == 5:
            buffer.cut()
            walk.restart()
        if not len(buffer.table.whole().first):
            continue
        found = buffer.draw_subsequences(rng(turn), 40, 3)
        batch = jax.tree.map(np.asarray, gather(buffer.frames, found.draw))
        for m in range(40):
            env, frames = int(batch.obs[m, 0, 0]), batch.obs[m, :, 1].astype(int)
            homes = [
                (length, total)
                for (i, first), (length, total) in walk.whole.items()
                if i == env and all(first <= frame < first + length for frame in frames)
            ]
            assert (found.episode_length[m], pytest.approx(found.episode_return[m])) in homes
            if found.episode_length[m] >= 3:
                assert len(set(frames)) == 3


def test_a_whole_episode_is_every_timestep_of_it_once() -> None:
    buffer, walk = made(transitions=60, num_envs=1), Walk(1, 0.2, seed=2)
    walk.feed(buffer, 50)
    found = buffer.draw_whole(rng(), 30, 40)
    reward = np.asarray(gather(buffer.frames, found.draw).reward)
    assert (found.mask.sum(1) == found.episode_length).all()
    assert (reward * found.mask).sum(1) == pytest.approx(found.episode_return)


def test_guidance_is_drawn_from_finished_episodes_with_their_returns() -> None:
    buffer, walk = made(transitions=25, num_envs=2), Walk(2, 0.2, seed=4)
    for _ in range(9):
        walk.feed(buffer, 5)
    draw, returns = buffer.draw_guided(rng(), 100)
    for (env, frame, _, _), total in zip(drawn(buffer, draw), returns, strict=True):
        home = [t for (i, first), (length, t) in walk.whole.items() if i == env and first <= frame < first + length]
        assert home == [pytest.approx(total)]


def test_a_cut_episode_is_drawn_as_transitions_and_not_as_an_episode() -> None:
    buffer, walk = made(num_envs=1), Walk(1, 0.0)
    walk.feed(buffer, 5)
    buffer.cut()
    walk.restart()
    walk.feed(buffer, 3)
    assert len(buffer.table.whole().first) == 0
    found = set(drawn(buffer, buffer.draw_transitions(rng(), 500)))
    assert found == {(0, k, k + 1, False) for k in [*range(5), 1005, 1006, 1007]}


def test_bytes_are_those_of_the_plan() -> None:
    shared, apart = (made(10_000, 4, with_next) for with_next in (False, True))
    assert shared.nbytes == pytest.approx(10_000 * (8 + 4 + 5), rel=0.01)
    assert apart.nbytes == pytest.approx(10_000 * (16 + 4 + 5), rel=0.01)


def test_rows_are_written_where_they_are() -> None:
    buffer, walk = made(10_000, 2), Walk(2, 0.1)
    walk.feed(buffer, 8)
    before = buffer.frames.obs.unsafe_buffer_pointer()
    walk.feed(buffer, 8)
    assert buffer.frames.obs.unsafe_buffer_pointer() == before


def test_images_stay_bytes() -> None:
    buffer = ReplayBuffer(box(0, 255, (8, 8, 3), np.uint8), 2, 100, 1, False, True)
    assert buffer.frames.obs.dtype == np.uint8


def test_an_engine_that_resets_within_the_step_needs_its_next_observations_stored() -> None:
    rollout, reward, episodes = Walk(3, 0.2).rollout(4)
    with pytest.raises(UserError, match="resets within the step"):
        made().add(rollout._replace(final_obs=rollout.obs[1:]), reward, episodes, np.zeros(3))


# On disk


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_files, "SMALLEST_PART_BYTES", 1)


def same(one: ReplayBuffer, other: ReplayBuffer) -> bool:
    draws = [buffer.draw_transitions(rng(9), 500) for buffer in (one, other)]
    batches = [jax.tree.map(np.asarray, gather(b.frames, d)) for b, d in zip((one, other), draws, strict=True)]
    leaves = [jax.tree.leaves(batch) for batch in batches]
    return all(np.array_equal(a, b) for a, b in zip(*leaves, strict=True))


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("every", [1, 3, 20])
def test_a_buffer_comes_back_from_its_parts(every: int, on_device: bool, tmp_path: Path) -> None:
    buffer, walk = made(transitions=120, on_device=on_device), Walk(3, 0.1)
    files = ReplayFiles(buffer)
    for turn in range(63):
        walk.feed(buffer, 3)
        if turn % every == every - 1:
            hashes = files.save(tmp_path)
            table = buffer.table.to_array()
            buffer.cut()
            walk.restart()
    walk.feed(buffer, 1)
    hashes, table = files.save(tmp_path), buffer.table.to_array()
    again = made(transitions=120, on_device=on_device)
    again.table.take(table)
    ReplayFiles(again).load(tmp_path, hashes)
    rollout, reward, episodes = walk.rollout(2)
    for one in (buffer, again):
        one.add(rollout, reward, episodes, walk.lengths)
    assert same(buffer, again)


def test_saving_writes_only_what_is_new(tmp_path: Path) -> None:
    buffer, walk = made(transitions=3000, num_envs=1), Walk(1, 0.05)
    files = ReplayFiles(buffer)
    for _ in range(20):
        walk.feed(buffer, 100)
    files.save(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    walk.feed(buffer, 100)
    after = files.save(tmp_path)
    written = [name for name in after if before.get(name) != (tmp_path / name).stat().st_mtime_ns]
    assert len(written) <= 3  # the part that was open, one more, the new open one
    assert len(after) <= 33


def test_the_table_of_another_buffer_is_refused() -> None:
    buffer, walk = made(transitions=120), Walk(3, 0.1)
    walk.feed(buffer, 13)
    with pytest.raises(UserError, match="keeps 40 steps of each environment, the plan's 200"):
        made(transitions=600).table.take(buffer.table.to_array())


@pytest.mark.parametrize("with_next", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_recent_transitions_stand_in_order_with_their_ends(with_next: bool, on_device: bool) -> None:
    buffer, walk = made(transitions=60, with_next=with_next, on_device=on_device), Walk(3, 0.2)
    for turn in range(20):
        walk.feed(buffer, 7)
        if turn == 18:
            buffer.cut()
            walk.restart()
    found = buffer.recent(36)
    assert found is not None and found.valid.shape == (12, 3)
    obs, after = np.asarray(found.obs), np.asarray(found.obs[1:] if found.final_obs is None else found.final_obs)
    for t, i in zip(*np.nonzero(found.valid), strict=True):
        assert (i, obs[t, i, 1], after[t, i, 1], bool(found.terminated[t, i])) in walk.true
        assert found.reward[t, i, 0] == obs[t, i, 1]
    ended = np.asarray(found.terminated | found.truncated)
    # In next-step form a row that is no transition follows each end, and nothing else but the cut.
    follows_end = np.zeros_like(ended)
    follows_end[1:] = ended[:-1]
    assert not (np.asarray(found.valid) & follows_end).any()
    assert (~np.asarray(found.valid) & ~follows_end).sum(0).max() <= 1
    assert ended.any() and not ended.all()


def test_a_buffer_with_less_than_asked_shows_nothing() -> None:
    buffer, walk = made(), Walk(3, 0.0)
    walk.feed(buffer, 4)
    assert buffer.recent(13) is None
    found = buffer.recent(12)
    assert found is not None and found.valid.all() and found.valid.shape == (4, 3)
