"""Frame stacks that are stored once: read back as they were, whatever way episodes begin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from test_replay_buffer import Walk, rng

from batchwright.core.errors import UserError
from batchwright.data.rollout import Rollout
from batchwright.envs.spaces import box
from batchwright.store import replay_files
from batchwright.store.frame_stack import FrameStack
from batchwright.store.replay_buffer import ReplayBuffer, gather
from batchwright.store.replay_files import ReplayFiles

FRAMES = 3
OBS = box(0, 1e6, (2 * FRAMES, 1, 2))  # frames of two channels


class StackedWalk(Walk):
    """A walk whose observations are its last frames; `begins` is what a first observation has before its frame."""

    def __init__(self, num_envs: int, ends: Any, begins: str, seed: int = 0) -> None:
        super().__init__(num_envs, ends, seed)
        self.begins = begins
        self.stack = np.zeros((num_envs, 2 * FRAMES, 1, 2), np.float32)
        self._begin(np.ones(num_envs, bool))

    def frame(self) -> np.ndarray:
        one = np.stack([np.arange(self.n), self.number + 1], 1).astype(np.float32)[:, None, None]
        return np.concatenate([one, one + 0.5], 1)

    def _begin(self, fresh: np.ndarray) -> None:
        blank = {"repeat": np.tile(self.frame(), (1, FRAMES, 1, 1)), "zero": 0.0 * self.stack, "go on": self.stack}
        self.stack = np.where(fresh[:, None, None, None], blank[self.begins], self.stack)
        self._push()

    def _push(self) -> None:
        self.stack = np.concatenate([self.stack[:, 2:], self.frame()], 1)

    def stacked(self, steps: int) -> tuple[Rollout, np.ndarray, Any]:
        seen, parts = [self.stack], []
        for _ in range(steps):
            was = self.ended
            parts.append(super().rollout(1))
            self._begin(was) if was.any() else self._push()
            seen.append(self.stack)
        rows = [rollout for rollout, _, _ in parts]
        joined = Rollout(np.stack(seen), *(np.concatenate([row[k] for row in rows]) for k in range(1, 6)))
        reward = np.concatenate([reward for _, reward, _ in parts])
        return joined, reward, jax.tree.map(lambda *x: np.concatenate(x), *(episodes for _, _, episodes in parts))

    def feed(self, *buffers: ReplayBuffer, steps: int) -> None:
        rollout, reward, episodes = self.stacked(steps)
        for buffer in buffers:
            buffer.add(rollout, reward, episodes, self.lengths)

    def restart(self) -> None:
        super().restart()
        self._begin(np.ones(self.n, bool))


def pair(transitions: int = 40, num_envs: int = 3, on_device: bool = True) -> tuple[ReplayBuffer, ReplayBuffer]:
    """One buffer that stores each frame once, one that stores whole observations."""
    once, whole = (ReplayBuffer(OBS, 1, transitions, num_envs, False, on_device, n) for n in (FRAMES, 1))
    return once, whole


def assert_same(one: Any, other: Any) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("begins", ["repeat", "zero", "go on"])
@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("steps", [1, 4, 13])
def test_every_draw_is_that_of_whole_observations(begins: str, on_device: bool, steps: int) -> None:
    (once, whole), walk = pair(on_device=on_device), StackedWalk(3, 0.2, begins)
    for turn in range(80 // steps):
        walk.feed(once, whole, steps=steps)
        if turn % 7 == 6:
            once.cut(), whole.cut()
            walk.restart()
        draws = [buffer.draw_transitions(rng(turn), 200) for buffer in (once, whole)]
        assert_same(*(gather(buffer.frames, draw) for buffer, draw in zip((once, whole), draws, strict=True)))
        if len(whole.table.whole().first):
            found = [buffer.draw_subsequences(rng(turn), 20, 4) for buffer in (once, whole)]
            assert_same(*(gather(b.frames, f.draw) for b, f in zip((once, whole), found, strict=True)))


def test_a_stack_takes_the_bytes_of_one_frame() -> None:
    once, whole = pair(10_000)
    assert once.nbytes == pytest.approx(10_000 * (16 + 4 + 5), rel=0.01)
    assert whole.nbytes == pytest.approx(10_000 * (48 + 4 + 5), rel=0.01)


def test_a_buffer_of_stacks_comes_back_from_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_files, "SMALLEST_PART_BYTES", 1)
    (once, whole), walk = pair(60), StackedWalk(3, 0.2, "repeat")
    for _ in range(20):
        walk.feed(once, whole, steps=5)
    again = pair(60)[0]
    again.table.take(once.table.to_array())
    ReplayFiles(again).load(tmp_path, ReplayFiles(once).save(tmp_path))
    walk.feed(again, whole, steps=5)
    draws = [buffer.draw_transitions(rng(), 500) for buffer in (again, whole)]
    assert_same(*(gather(buffer.frames, draw) for buffer, draw in zip((again, whole), draws, strict=True)))


def test_what_is_no_stack_is_refused_and_nothing_is_stored() -> None:
    once, _ = pair()
    walk = StackedWalk(3, 0.0, "repeat")
    walk.feed(once, steps=4)
    before = once.table.written
    rollout, reward, episodes = walk.stacked(4)
    rollout.obs[2, 1, 0] += 1.0
    with pytest.raises(UserError, match="no stack of 3 frames"):
        once.add(rollout, reward, episodes, walk.lengths)
    assert once.table.written == before
    assert gather(once.frames, once.draw_transitions(rng(), 10)).obs.shape == (10, 2 * FRAMES, 1, 2)


@pytest.mark.parametrize(("frames", "shape"), [(3, (4, 84, 84)), (2, ()), (200, (200, 2))])
def test_shapes_that_are_no_stacks_are_refused(frames: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="no stack"):
        FrameStack(frames, shape, 10)
