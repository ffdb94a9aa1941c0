"""All updates of one replay iteration as one compiled program: fit the reward model, then step the algorithm."""

# U updates of an iteration, B rows of one, S subsequences, K timesteps of one, M metrics.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.streams import Streams
from batchwright.envs.engines import Engine
from batchwright.learn.return_decomposition import DecompositionLoss, ircr_reward, rrd_loss
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import join_leaves, unraveller
from batchwright.nets.replay_nets import make_reward_network
from batchwright.replay.algorithm import ReplayAlgorithm
from batchwright.replay.replay_settings import ReplaySettings
from batchwright.replay.replay_state import (
    Adam,
    Metrics,
    Params,
    ParamsAndOpt,
    ReplayHyper,
    ReplaySample,
    RewardSample,
    StepSizes,
    TrainState,
)
from batchwright.store.replay_buffer import Batch, Draw, Frames, ReplayBuffer, gather

HOST_BATCH_BYTES = 256 * 1024**2
"""Of transitions gathered on the host at a time, where the buffer does not lie on the device."""


class Learned(NamedTuple):
    """The outcome of an iteration's updates, on the host."""

    train: TrainState
    reward_model: ParamsAndOpt | None
    metrics: dict[str, float]
    """Means over the updates."""
    updates: int
    finite: bool
    """Whether no parameter is NaN or infinite."""


class ReplayUpdater:
    """Makes all updates of an iteration: in one compiled call, or in several where the buffer lies on the host."""

    def __init__(self, compiled: ReplayUpdate, settings: ReplaySettings) -> None:
        self.updates, self.update_bytes = settings.updates_per_iteration, settings.update_bytes
        self.compiled = compiled

    def __call__(
        self,
        train: TrainState,
        reward_model: ParamsAndOpt | None,
        buffer: ReplayBuffer,
        stats: ObsStats,
        hyper: ReplayHyper,
        sample: ReplaySample | None,
    ) -> Learned:
        """Without a sample nothing changes."""
        if sample is None:
            return Learned(train, reward_model, {}, 0, True)
        if buffer.on_device:
            found = self.compiled(train, reward_model, buffer.frames, stats, hyper, sample)
            return Learned(found.train, found.reward_model, _floats(found.metrics), self.updates, bool(found.finite))
        metrics = []
        for part in self._parts(sample):
            found = self.compiled(train, reward_model, None, stats, hyper, _gathered(buffer.frames, part))
            train, reward_model = found.train, found.reward_model
            metrics.append(_floats(found.metrics))
        means = {name: float(np.mean([one[name] for one in metrics])) for name in metrics[0]}
        return Learned(train, reward_model, means, self.updates, bool(found.finite))

    def _parts(self, sample: ReplaySample) -> list[ReplaySample]:
        """The sample in equal parts, each of which fits beside the rest when it is gathered."""
        most = max(1, min(self.updates, HOST_BATCH_BYTES // max(self.update_bytes, 1)))
        size = next(size for size in range(most, 0, -1) if self.updates % size == 0)
        return [jax.tree.map(lambda x, at=at: x[at : at + size], sample) for at in range(0, self.updates, size)]


def _floats(metrics: Metrics) -> dict[str, float]:
    return {name: float(value) for name, value in jax.device_get(metrics).items()}


def _gathered(frames: Frames, sample: ReplaySample) -> ReplaySample:
    """The sample with transitions in the place of rows."""
    rewards = sample.rewards
    if rewards is not None:
        rewards = rewards._replace(timesteps=_fetch(frames, rewards.timesteps))
    if sample.transitions is None:
        return sample._replace(rewards=rewards)
    return sample._replace(transitions=_fetch(frames, sample.transitions), rewards=rewards)


class UpdateResult(NamedTuple):
    """What the compiled updates return."""

    train: TrainState
    reward_model: ParamsAndOpt | None
    metrics: Metrics
    """Means over the updates."""
    finite: jax.Array
    """Whether no parameter is NaN or infinite."""


ReplayUpdate: TypeAlias = Callable[
    [TrainState, ParamsAndOpt | None, Frames | None, ObsStats, ReplayHyper, ReplaySample], UpdateResult
]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _StackedMetrics:
    """Metrics of one update in one array [M], or of all [U, M]: an array for each of them would be a kernel each."""

    names: tuple[str, ...] = field(metadata={"static": True})
    values: jax.Array

    @classmethod
    def of(cls, metrics: Metrics) -> _StackedMetrics:
        return cls(tuple(metrics), jnp.stack(list(metrics.values())))

    def means(self) -> Metrics:
        return dict(zip(self.names, self.values.mean(0), strict=True))


def make_replay_update(
    algorithm: ReplayAlgorithm[Any], reward_model: RewardModel | None, *, updates_policy: bool = True
) -> ReplayUpdate:
    """A function of (train state, state of the reward model, frames, observation statistics, hyper, sample); jit it.

    Without frames the sample holds transitions instead of rows of the buffer. Without `updates_policy` only the reward
    model learns.
    """

    def update(
        train: TrainState,
        rewards: ParamsAndOpt | None,
        frames: Frames | None,
        stats: ObsStats,
        hyper: ReplayHyper,
        sample: ReplaySample,
    ) -> UpdateResult:
        def one_update(
            carry: tuple[TrainState, ParamsAndOpt | None], inputs: tuple[ReplaySample, StepSizes]
        ) -> tuple[tuple[TrainState, ParamsAndOpt | None], _StackedMetrics]:
            (train, rewards), (sample, step_sizes) = carry, inputs
            metrics: Metrics = {}
            if reward_model is not None:
                assert rewards is not None and sample.rewards is not None
                timesteps = _fetch(frames, sample.rewards.timesteps)
                rewards, metrics = reward_model.fit(rewards, timesteps, sample.rewards, hyper, step_sizes)
            if not updates_policy:
                return (train, rewards), _StackedMetrics.of(metrics)
            assert sample.transitions is not None and sample.noise is not None
            batch = _fetch(frames, sample.transitions)
            if reward_model is not None and rewards is not None:
                batch = reward_model.relabel(rewards, batch)
            elif sample.guidance is not None:
                batch = batch._replace(reward=jnp.asarray(sample.guidance))
            train, own_metrics = algorithm.step(train, batch, jnp.asarray(sample.noise), stats, hyper, step_sizes)
            return (train, rewards), _StackedMetrics.of(metrics | own_metrics)

        count = jax.tree.leaves(sample)[0].shape[0]
        inputs = sample, _step_sizes(train.updates, hyper, count)
        carry = algorithm.to_trees(train), reward_model.to_trees(rewards) if reward_model and rewards else None
        (trees, reward_trees), metrics = jax.lax.scan(one_update, carry, inputs)
        new_rewards = reward_model.to_vectors(reward_trees) if reward_model and reward_trees else None
        new_train = algorithm.to_vectors(trees)._replace(updates=train.updates + count)
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves((new_train, new_rewards))]
        return UpdateResult(new_train, new_rewards, metrics.means(), jnp.stack(finite).all())

    return update


def _fetch(frames: Frames | None, rows: Draw | Batch) -> Batch:
    if isinstance(rows, Batch):
        return rows
    assert frames is not None
    return gather(frames, rows)


def _step_sizes(updates: jax.Array, hyper: ReplayHyper, count: int) -> StepSizes:
    """Of the next `count` updates, all at once: numbers made in a step would be a kernel each."""
    number_U = updates + 1 + jnp.arange(count, dtype=jnp.int32)
    warm_U = jnp.minimum(1.0, number_U / jnp.maximum(hyper.warmup_updates, 1.0))
    moves_U = number_U % hyper.updates_per_target == 0
    return StepSizes(
        number_U,
        warm_U * hyper.learning_rate,
        warm_U * hyper.reward_learning_rate,
        jnp.where(moves_U, hyper.polyak, 0.0),
    )


class RewardModel:
    """The reward network of return decomposition (Ren et al., 2022) and its updates."""

    def __init__(self, settings: ReplaySettings, engine: Engine) -> None:
        self.unbiased = settings.redistribute == "rrd-unbiased"
        self.adam = Adam(settings.adam_beta2, settings.adam_eps, settings.max_grad_norm is not None)
        self._net = make_reward_network(engine.observation, engine.action, settings.hidden)
        self._unravel = unraveller(self._net.init(jax.random.key(0)))

    def init(self, streams: Streams) -> ParamsAndOpt:
        """The state before the first update, as vectors."""
        tree = self._net.init(jax.random.key(streams.number("reward-parameters", 0)))
        return self.adam.init(jnp.asarray(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])))

    def to_trees(self, state: ParamsAndOpt) -> ParamsAndOpt:
        return state.converted(self._unravel)

    def to_vectors(self, state: ParamsAndOpt) -> ParamsAndOpt:
        return state.converted(join_leaves)

    def fit(
        self, state: ParamsAndOpt, batch: Batch, sample: RewardSample, hyper: ReplayHyper, step_sizes: StepSizes
    ) -> tuple[ParamsAndOpt, Metrics]:
        """One step on subsequences of finished episodes, whose timesteps are the batch [S, K, ...]."""

        def loss(params: Params) -> tuple[jax.Array, DecompositionLoss]:
            found = rrd_loss(
                self._net.apply,
                params,
                batch.obs,
                batch.action,
                batch.next_obs,
                jnp.asarray(sample.episode_return),
                jnp.asarray(sample.episode_length),
                unbiased=self.unbiased,
                timestep_mask_SK=None if sample.mask is None else jnp.asarray(sample.mask),
            )
            return found.loss, found

        (_, found), gradient = jax.value_and_grad(loss, has_aux=True)(state.params)
        state, norm = self.adam.step(state, gradient, step_sizes.reward_learning_rate, hyper)
        metrics = {
            "reward_model_loss": found.loss,
            "reward_model_variance": found.variance,
            "reward_model_mean": found.predicted,
            "reward_model_gradient_norm": norm,
        }
        return state, metrics

    def predict(self, params: jax.Array, batch: Batch) -> jax.Array:
        """Rewards [B] of transitions, from the parameters as one vector."""
        return self._net.apply(self._unravel(params), batch.obs, batch.action, batch.next_obs)

    def relabel(self, state: ParamsAndOpt, batch: Batch) -> Batch:
        """The batch with predicted rewards: never cached, never differentiated."""
        predicted = self._net.apply(state.params, batch.obs, batch.action, batch.next_obs)
        return batch._replace(reward=jax.lax.stop_gradient(predicted))


def sample_guided(buffer: ReplayBuffer, rng: np.random.Generator, updates: int, rows: int) -> tuple[Draw, np.ndarray]:
    """Transitions of finished episodes, and the rewards [U, B] that IRCR gives them."""
    draw, returns = buffer.draw_guided(rng, updates * rows)
    known = buffer.table.finished().episode_return
    guidance = ircr_reward(returns, known.min(), known.max()).astype(np.float32)
    return draw, guidance.reshape(updates, rows)


def sample_subsequences(buffer: ReplayBuffer, rng: np.random.Generator, settings: ReplaySettings) -> RewardSample:
    """What the reward network learns from in the updates of one iteration."""
    updates, parts = settings.updates_per_iteration, settings.subsequences_per_update
    whole = settings.redistribute == "full"
    draw = buffer.draw_whole if whole else buffer.draw_subsequences
    found = draw(rng, updates * parts, settings.subsequence_timesteps)
    found = jax.tree.map(lambda x: x.reshape(updates, parts, *x.shape[1:]), found)
    return RewardSample(found.draw, found.episode_return, found.episode_length, found.mask if whole else None)
