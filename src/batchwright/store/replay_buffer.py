"""The replay buffer: frames in preallocated memory, and the episodes they belong to.

Every environment has a column of `steps` rows, written round and round. Row s of a column holds the observation and
the action of its step s; the next observation is the frame of row s + 1, so no frame is stored twice. Of a stack of
frames the newest is stored alone (`frame_stack`). The row after an end holds the true last observation and is no
transition; it is in no draw. The episode table alone decides what a draw may touch: a row counts while it, its
successor and the frames of its stack stand, so neither the write head nor an end is ever crossed.
"""

# T steps of a rollout, N environments, R = steps x N rows, E episodes, M draws, K timesteps of a subsequence, S frames
# of a stack.

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.data.arrays import Array, BoolB, BoolTN, FloatB, FloatBD, FloatTN, FloatTND, IntB, IntN, Tree
from batchwright.data.rollout import Episodes, Rollout
from batchwright.envs import spaces
from batchwright.envs.spaces import Spec
from batchwright.store.episode_table import EpisodeTable, Spans, draw_episodes, draw_timesteps
from batchwright.store.frame_stack import FrameStack


class Frames(NamedTuple):
    """The stored rows; JAX arrays where they lie on the device, NumPy ones on the host."""

    obs: Tree  # of [R, ...]
    action: FloatBD
    reward: FloatB
    terminated: BoolB
    next_obs: Tree = None  # of [R, ...] where next observations are stored apart


class Batch(NamedTuple):
    """Transitions as an update takes them; any leading axes."""

    obs: Tree
    action: FloatBD
    reward: FloatB
    terminated: BoolB
    next_obs: Tree


class Draw(NamedTuple):
    """Numbers of rows, and of the rows that hold their next observations."""

    row: IntB
    next_row: IntB
    stack: Array | None = None  # [..., S] int32, rows of the frames of an observation, where observations are stacks
    next_stack: Array | None = None


class Subsequences(NamedTuple):
    """K random timesteps of M finished episodes."""

    draw: Draw  # [M, K]
    episode_return: NDArray[np.float32]  # [M]
    episode_length: NDArray[np.int32]  # [M]
    mask: NDArray[np.float32]  # [M, K]: 0 where a whole episode is shorter than K


def stored_rewards(rollout: Rollout, episodes: Episodes, episodic: bool) -> Any:
    """Rewards [T, N]; with `episodic`, 0 until an episode ends and then the sum of all its rewards."""
    if not episodic:
        return rollout.reward.sum(-1)
    return np.where(np.asarray(episodes.ended), np.asarray(episodes.returns), np.float32(0))


def gather(frames: Frames, draw: Draw) -> Batch:
    """The transitions of a draw."""
    action, reward, terminated = (x[draw.row] for x in (frames.action, frames.reward, frames.terminated))
    if draw.stack is not None:
        obs, next_obs = (_stacked(frames.obs, rows) for rows in (draw.stack, draw.next_stack))
        return Batch(obs, action, reward, terminated, next_obs)
    obs = jax.tree.map(lambda x: x[draw.row], frames.obs)
    if frames.next_obs is not None:
        return Batch(obs, action, reward, terminated, jax.tree.map(lambda x: x[draw.row], frames.next_obs))
    return Batch(obs, action, reward, terminated, jax.tree.map(lambda x: x[draw.next_row], frames.obs))


def _stacked(frames: Any, rows: Any) -> Any:
    """Stacks [..., S x C, H, W] of the frames [R, C, H, W] in `rows` [..., S]."""
    found = frames[rows]
    lead = rows.ndim - 1
    return found.reshape(*found.shape[:lead], -1, *found.shape[lead + 2 :])


class ReplayBuffer:
    """At least `transitions` of the newest transitions of N environments."""

    def __init__(
        self,
        observation: Spec,
        action_size: int,
        transitions: int,
        num_envs: int,
        with_next: bool,
        on_device: bool,
        stacked_frames: int = 1,
    ) -> None:
        self.num_envs, self.on_device = num_envs, on_device
        # One row more than asked: the newest frame, whose action is not taken yet; and the stack of the oldest.
        self.steps = -(-transitions // num_envs) + stacked_frames
        self.table = EpisodeTable(self.steps, stacked_frames - 1)
        self.stack = _stack_of(observation, stacked_frames, self.rows) if stacked_frames > 1 else None
        self.frames = _allocate(observation, action_size, self.rows, with_next, on_device, self.stack)

    @property
    def rows(self) -> int:
        return self.steps * self.num_envs

    @property
    def nbytes(self) -> int:
        """Bytes of the stored rows."""
        return sum(int(leaf.nbytes) for leaf in jax.tree.leaves(self.frames))

    @property
    def transitions(self) -> int:
        """Transitions that can be drawn."""
        return int(self.table.spans().length.sum())

    def add(self, rollout: Rollout, reward_TN: FloatTN, episodes: Episodes, lengths_N: IntN) -> None:
        """Stores a rollout; `lengths_N` are the transitions of the episodes that are still running."""
        steps = int(np.shape(reward_TN)[0])
        with_next = self.frames.next_obs is not None
        if rollout.final_obs is not None and not with_next:
            raise UserError(
                "this environment resets within the step: its last observations have no rows of their own.",
                ["--store-next-obs", "--engine gymnasium-sync"],
            )
        start = self.table.written % self.steps
        obs = rollout.obs if self.stack is None else self._newest(self.stack, np.asarray(rollout.obs), start)
        added = _Added(obs, rollout.action, reward_TN, rollout.terminated)
        after = _successors(rollout) if with_next else None
        put = _put_on_device if self.on_device else _put_on_host
        self.frames = put(self.frames, added, after, np.int32(start), self.steps)
        self.table.add(steps, episodes, lengths_N)

    def _newest(self, stack: FrameStack, obs_TN: NDArray[Any], start: int) -> Any:
        """What is stored of stacks that are written from row `start` of the columns on; their ages are kept."""
        before, ages = None, np.zeros(self.num_envs, np.uint8)
        if self.table.written:
            row = (start - 1) % self.steps * self.num_envs + np.arange(self.num_envs)
            before = np.asarray(_stacked(self.frames.obs, stack.rows(row, self.steps, self.num_envs)))
            ages = stack.ages[row]
        rows = step_rows(start, len(obs_TN), self.steps, self.num_envs, np)
        stack.ages[rows] = stack.ages_of(obs_TN, before, ages).reshape(-1)
        return stack.newest(obs_TN)

    def recent(self, transitions: int) -> Rollout | None:
        """About so many of the newest transitions in order.

        None for all but vectors, and while there are fewer, so that one compiled program takes them.
        """
        steps = -(-transitions // self.num_envs)
        standing = self.table.written - self.table.oldest
        if getattr(self.frames.obs, "ndim", 0) != 2 or standing < steps:
            return None
        first = self.table.written - steps
        valid: Any = np.zeros((steps, self.num_envs), bool)
        ended = np.zeros_like(valid)
        stored = self.table.spans()
        spans = stored.where(stored.first + stored.length > first)
        for start, column, length, finished in zip(spans.first - first, *spans[1:3], spans.finished, strict=True):
            end = start + length
            valid[max(0, start) : end, column] = True
            if finished or end < steps:
                ended[end - 1, column] = True
        rows = step_rows(first, steps + 1, self.steps, self.num_envs, np).reshape(steps + 1, self.num_envs)
        taken = _take_on_device(self.frames, rows) if self.on_device else _take(self.frames, rows)
        found: Any = jax.tree.map(np.asarray, taken)
        action, reward, terminated = found.action[:-1], found.reward[:-1, :, None], found.terminated[:-1] & valid
        final = None if found.next_obs is None else found.next_obs[:-1]
        return Rollout(found.obs, action, reward, terminated, ended & ~terminated, valid, final)

    def cut(self) -> None:
        """The running episodes end here, as truncated; their last frames keep the rows they have."""
        self.table.cut()

    def draw_transitions(self, rng: np.random.Generator, count: int) -> Draw:
        """Rows of `count` transitions, every stored one equally likely."""
        return self._draw_spans(rng, count, self.table.spans())[0]

    def draw_guided(self, rng: np.random.Generator, count: int) -> tuple[Draw, NDArray[np.float64]]:
        """Transitions of finished episodes with the returns of those."""
        draw, span, spans = self._draw_spans(rng, count, self.table.finished())
        return draw, spans.episode_return[span]

    def draw_subsequences(self, rng: np.random.Generator, count: int, timesteps: int) -> Subsequences:
        """K random timesteps of `count` finished episodes that stand whole, each likely by its length."""
        spans = self.table.whole()
        chosen = draw_episodes(rng, spans.length, count)
        offset_MK = draw_timesteps(rng, spans.length[chosen], timesteps)
        return self._subsequences(spans, chosen, offset_MK, np.ones((count, timesteps), np.float32))

    def draw_whole(self, rng: np.random.Generator, count: int, longest: int) -> Subsequences:
        """All timesteps of `count` finished episodes, each likely by its length."""
        spans = self.table.whole()
        chosen = draw_episodes(rng, spans.length, count)
        inside = np.arange(longest)[None, :] < spans.length[chosen, None]
        offset_MK = np.where(inside, np.arange(longest)[None, :], 0)
        return self._subsequences(spans, chosen, offset_MK, inside.astype(np.float32))

    def _subsequences(
        self, spans: Spans, chosen: NDArray[Any], offset_MK: NDArray[Any], mask_MK: NDArray[np.float32]
    ) -> Subsequences:
        draw = self.rows_of(spans.first[chosen, None] + offset_MK, spans.column[chosen, None])
        return Subsequences(
            draw, spans.episode_return[chosen].astype(np.float32), spans.length[chosen].astype(np.int32), mask_MK
        )

    def _draw_spans(self, rng: np.random.Generator, count: int, spans: Spans) -> tuple[Draw, NDArray[Any], Spans]:
        ends = np.cumsum(spans.length)
        place = rng.integers(0, ends[-1], count)
        span = np.searchsorted(ends, place, side="right")
        step = spans.first[span] + place - (ends[span] - spans.length[span])
        return self.rows_of(step, spans.column[span]), span, spans

    def rows_of(self, step: NDArray[Any], column: NDArray[Any]) -> Draw:
        """The rows of steps, counted from the start, of columns."""
        row = (step % self.steps) * self.num_envs + column
        next_row = ((step + 1) % self.steps) * self.num_envs + column
        both: Any = row.astype(np.int32), next_row.astype(np.int32)
        if self.stack is None:
            return Draw(*both)
        stacks: Any = (self.stack.rows(rows, self.steps, self.num_envs) for rows in both)
        return Draw(*both, *stacks)


class _Added(NamedTuple):
    """The columns of a rollout in the order of `Frames`."""

    obs: Tree  # of [T + 1, N, ...]
    action: FloatTND
    reward: FloatTN
    terminated: BoolTN


def _successors(rollout: Rollout) -> Tree:
    """The true next observations [T, N, ...] of a rollout."""
    if rollout.final_obs is None:
        return jax.tree.map(lambda x: x[1:], rollout.obs)
    ended = np.asarray(rollout.terminated) | np.asarray(rollout.truncated)

    def pick(later: Any, final: Any) -> Any:
        return np.where(ended.reshape(*ended.shape, *[1] * (np.ndim(later) - 2)), final, np.asarray(later)[1:])

    return jax.tree.map(pick, rollout.obs, rollout.final_obs)


def _put(frames: Frames, added: _Added, after: Any, start: Any, steps: int, numpy: Any, store: Any) -> Frames:
    """Frames with a rollout written from step `start` on, round the end of the columns."""
    num_envs = np.shape(added.reward)[1]

    def put(stored: Any, new: Any) -> Any:
        rows = step_rows(start, new.shape[0], steps, num_envs, numpy)
        return store(stored, rows, new.reshape(-1, *new.shape[2:]))

    return Frames(
        jax.tree.map(put, frames.obs, added.obs),
        put(frames.action, added.action),
        put(frames.reward, added.reward),
        put(frames.terminated, added.terminated),
        None if after is None else jax.tree.map(put, frames.next_obs, after),
    )


def step_rows(start: Any, count: int, steps: int, num_envs: int, numpy: Any) -> Any:
    """The rows of `count` steps of all columns from `start` on, step by step."""
    at = (start + numpy.arange(count)) % steps
    return (at[:, None] * num_envs + numpy.arange(num_envs)).reshape(-1)


def _store_on_host(stored: NDArray[Any], rows: Any, new: Any) -> NDArray[Any]:
    stored[rows] = new
    return stored


def _put_on_host(frames: Frames, added: _Added, after: Any, start: Any, steps: int) -> Frames:
    added, after = jax.tree.map(np.asarray, (added, after))
    return _put(frames, added, after, start, steps, np, _store_on_host)


def _put_compiled(frames: Frames, added: _Added, after: Any, start: Any, steps: int) -> Frames:
    return _put(frames, added, after, start, steps, jnp, lambda stored, rows, new: stored.at[rows].set(new))


# Donated: the rows are written where they are, nothing is copied.
_put_on_device = jax.jit(_put_compiled, static_argnums=4, donate_argnums=0)


def _take(frames: Frames, rows: Any) -> Any:
    return jax.tree.map(lambda stored: stored[rows], frames)


_take_on_device = jax.jit(_take)


def _stack_of(observation: Spec, frames: int, rows: int) -> FrameStack:
    found = spaces.leaves(observation)
    if len(found) != 1:
        raise UserError(
            f"observations of {len(found)} parts are stored whole: no frames are shared.", ["--stacked-frames 1"]
        )
    return FrameStack(frames, spaces.leaf_shape(found[0][1]), rows)


def _allocate(
    observation: Spec, action_size: int, rows: int, with_next: bool, on_device: bool, stack: FrameStack | None
) -> Frames:
    """Zeroed rows at the stored types; the memory is there before training begins."""
    numpy: Any = jnp if on_device else np

    def obs() -> Any:
        values = [
            numpy.zeros((rows, *spaces.leaf_shape(leaf)), spaces.stored_dtype(leaf))
            for _, leaf in spaces.leaves(observation)
        ]
        return spaces.unflatten(observation, values)

    def frames(stack: FrameStack) -> Any:
        leaf = spaces.leaves(observation)[0][1]
        kept = numpy.zeros((stack.zero_row + 1, *stack.frame_shape), spaces.stored_dtype(leaf))
        return spaces.unflatten(observation, [kept])

    return Frames(
        obs() if stack is None else frames(stack),
        numpy.zeros((rows, action_size), np.float32),
        numpy.zeros(rows, np.float32),
        numpy.zeros(rows, bool),
        obs() if with_next else None,
    )


def is_finite(rollout: Rollout) -> bool:
    """Whether no observation or reward of a rollout is NaN or infinite: only such rollouts enter a buffer."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves((rollout.obs, rollout.reward))]
    return all(bool(np.isfinite(leaf).all()) for leaf in leaves if leaf.dtype.kind == "f")
