"""Double Q-learning (van Hasselt et al., 2016): its loss as functions of arrays, and its update."""

# U updates of an iteration, B rows of one, A choices, D = 1 number of one action.

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs import spaces
from batchwright.envs.engines import Engine
from batchwright.envs.spaces import Discrete, Spec
from batchwright.nets.head_layout import make_heads
from batchwright.nets.heads import Heads
from batchwright.nets.networks import Inputs
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy, join_leaves
from batchwright.nets.replay_nets import make_tower, policy_of_tower
from batchwright.replay.replay_settings import ReplaySettings
from batchwright.replay.replay_state import Adam, Metrics, Params, ParamsAndOpt, ReplayHyper, StepSizes
from batchwright.store.replay_buffer import Batch

EXPLORED = np.float32(1e30)
"""What a chosen random action gets on top of its value: more than any value."""


@dataclass(frozen=True, eq=False)
class GreedyHeads(Heads):
    """One choice by the largest value; noise adds so much to one random choice that it is taken."""

    epsilon: float = 0.0
    """Chance of a random choice of `noise`; `explore` takes another."""

    def noise(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        return self.explore(stream, shape, self.epsilon)

    def explore(self, stream: int, shape: tuple[int, ...], epsilon: float) -> tuple[np.ndarray, ...]:
        """Noise with which an action is random with chance `epsilon` and greedy otherwise."""
        rng = np.random.Generator(np.random.SFC64(stream))
        added = np.zeros((*shape, self.raw_size), np.float32)
        explores = rng.random(shape, np.float32) < epsilon
        choice = rng.integers(0, self.raw_size, shape)
        np.put_along_axis(added, choice[..., None], np.where(explores, EXPLORED, np.float32(0))[..., None], -1)
        return (added,)


def make_greedy_heads(spec: Spec, epsilon: float) -> GreedyHeads:
    """Heads for one choice; anything else is refused with the algorithm that fits."""
    if not isinstance(spec, Discrete):
        continuous = not spaces.is_discrete(spec)
        raise UserError(
            f"dqn values one choice among a few; these actions are {type(spec).__name__}.",
            (["--algo sac"] if continuous else []) + ["--algo ppo"],
        )
    plain = make_heads(spec)
    return GreedyHeads(spec, plain.heads, plain.raw_size, plain.action_size, 0, epsilon)


def make_q_policy(
    observation: Spec, action: Spec, hidden: Sequence[int], activation: str, epsilon: float = 0.0
) -> Policy:
    """The greedy policy of DQN: raw outputs are the values of the choices."""
    inputs, heads = Inputs(observation), make_greedy_heads(action, epsilon)
    return policy_of_tower(inputs, heads, make_tower(inputs, 0, hidden, activation, heads.raw_size))


def double_q_target(
    reward_B: jax.Array,
    terminated_B: jax.Array,
    next_online_BA: jax.Array,
    next_target_BA: jax.Array,
    gamma: ArrayLike,
) -> jax.Array:
    """Targets of the taken choices [B]: the online network chooses the next one, the target network values it."""
    best_B = jnp.argmax(next_online_BA, -1)
    after_B = jnp.take_along_axis(next_target_BA, best_B[:, None], -1)[:, 0]
    target: jax.Array = jax.lax.stop_gradient(reward_B + gamma * jnp.where(terminated_B, 0.0, after_B))
    return target


def taken_value(value_BA: jax.Array, action_BD: jax.Array) -> jax.Array:
    """The value [B] of the choice that was taken; actions are flat, [B, 1]."""
    return jnp.take_along_axis(value_BA, action_BD.astype(jnp.int32), -1)[:, 0]


def huber(error_B: jax.Array, limit: ArrayLike) -> jax.Array:
    """Squared up to the limit, linear beyond, so that a wrong target does not dominate the gradient; mean over rows."""
    size = jnp.abs(error_B)
    return jnp.where(size < limit, 0.5 * jnp.square(size), limit * (size - 0.5 * limit)).mean()


@dataclass(frozen=True)
class DqnSettings:
    """Numbers that only DQN has."""

    epsilon_start: float
    epsilon_end: float
    epsilon_share: float
    huber_limit: float


class DqnTrainState(NamedTuple):
    """What an update of DQN changes; `params` are the Q-network's."""

    params: Params
    opt_state: optax.ScaleByAdamState
    target: Params
    updates: jax.Array

    @property
    def online(self) -> ParamsAndOpt:
        return ParamsAndOpt(self.params, self.opt_state)


class Dqn:
    """A Q-network with a target, and random actions with a chance that falls."""

    def __init__(self, settings: ReplaySettings, engine: Engine) -> None:
        self.own = settings.own(DqnSettings)
        self.warmup_steps, self.total_steps = settings.warmup_steps, settings.run.total_steps
        self.adam = Adam(settings.adam_beta2, settings.adam_eps, settings.max_grad_norm is not None)
        self.policy = make_q_policy(
            engine.observation, engine.action, settings.hidden, settings.activation, self.own.epsilon_end
        )

    def init(self, streams: Streams) -> DqnTrainState:
        online = self.adam.init(self.policy.init(jax.random.key(streams.number("parameters", 0))))
        return DqnTrainState(*online, jnp.array(online.params), jnp.zeros((), jnp.int32))

    def to_trees(self, train: DqnTrainState) -> DqnTrainState:
        unravel = self.policy.unravel
        return DqnTrainState(*train.online.converted(unravel), unravel(train.target), train.updates)

    def to_vectors(self, train: DqnTrainState) -> DqnTrainState:
        return DqnTrainState(*train.online.converted(join_leaves), join_leaves(train.target), train.updates)

    def hyper(self) -> dict[str, float]:
        return {"huber_limit": self.own.huber_limit}

    def update_noise(self, rng: np.random.Generator, updates: int, rows: int) -> np.ndarray:
        """None: [U, 0]."""
        return np.empty((updates, 0), np.float32)

    def exploration_noise(self, stream: int, shape: tuple[int, int], env_steps: int) -> tuple[np.ndarray, ...]:
        heads = self.policy.heads
        assert isinstance(heads, GreedyHeads)
        return heads.explore(stream, shape, self.epsilon(env_steps))

    def metrics(self, env_steps: int) -> dict[str, float]:
        return {"epsilon": self.epsilon(env_steps)}

    def epsilon(self, env_steps: int) -> float:
        """The chance of a random action after so many steps: 1 in the warm-up."""
        if env_steps < self.warmup_steps:
            return 1.0
        start, end, share = self.own.epsilon_start, self.own.epsilon_end, self.own.epsilon_share
        along = min(1.0, env_steps / (share * self.total_steps)) if share > 0 else 1.0
        return float(start + (end - start) * along)

    def step(
        self,
        train: DqnTrainState,
        batch: Batch,
        noise: jax.Array,
        stats: ObsStats,
        hyper: ReplayHyper,
        step_sizes: StepSizes,
    ) -> tuple[DqnTrainState, Metrics]:
        """The Q-network, then its target."""
        policy = self.policy
        inputs, next_inputs = policy.preprocess(batch.obs, stats), policy.preprocess(batch.next_obs, stats)
        next_online, next_target = (
            policy.outputs_of(params, next_inputs).raw for params in (train.params, train.target)
        )
        target = double_q_target(batch.reward, batch.terminated, next_online, next_target, hyper.gamma)

        def q_loss(params: Params) -> tuple[jax.Array, jax.Array]:
            value = taken_value(policy.outputs_of(params, inputs).raw, batch.action)
            return huber(value - target, hyper.own["huber_limit"]), value

        (loss, value), gradient = jax.value_and_grad(q_loss, has_aux=True)(train.params)
        online, norm = self.adam.step(train.online, gradient, step_sizes.learning_rate, hyper)
        moved = step_sizes.moved_target(train.target, online.params)
        metrics = {"critic_loss": loss, "q_mean": value.mean(), "q_target_mean": target.mean(), "gradient_norm": norm}
        return DqnTrainState(*online, moved, train.updates), metrics
