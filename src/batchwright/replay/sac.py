"""Soft actor-critic (Haarnoja et al., 2018): its losses as functions of arrays, and its update."""

# U updates of an iteration, B rows of one, C critics, D numbers of one action.

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from batchwright.core.streams import Streams
from batchwright.envs.engines import Engine
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import join_leaves
from batchwright.nets.replay_nets import SquashedHeads, make_actor, make_twin_critics, sample_with_log_prob
from batchwright.replay.replay_settings import ReplaySettings
from batchwright.replay.replay_state import Adam, Metrics, Params, ParamsAndOpt, ReplayHyper, StepSizes
from batchwright.store.replay_buffer import Batch


def soft_target(
    reward_B: jax.Array,
    terminated_B: jax.Array,
    next_value_CB: jax.Array,
    next_log_prob_B: jax.Array,
    temperature: jax.Array,
    gamma: ArrayLike,
) -> jax.Array:
    """Targets of the critics [B]: the smallest next value with its entropy, nothing after a termination.

    A time limit is no termination: the row's own next observation goes on.
    """
    soft = next_value_CB.min(0) - temperature * next_log_prob_B
    target: jax.Array = jax.lax.stop_gradient(reward_B + gamma * jnp.where(terminated_B, 0.0, soft))
    return target


def critic_loss(value_CB: jax.Array, target_B: jax.Array) -> jax.Array:
    """Half the squared error, summed over critics, mean over rows."""
    return 0.5 * jnp.square(value_CB - target_B).sum(0).mean()


def actor_loss(log_prob_B: jax.Array, value_CB: jax.Array, temperature: jax.Array) -> jax.Array:
    """The policy's distance to the softmax of the smaller critic."""
    return (temperature * log_prob_B - value_CB.min(0)).mean()


def temperature_loss(log_temperature: jax.Array, log_prob_B: jax.Array, target_entropy: ArrayLike) -> jax.Array:
    """Raises log alpha while the entropy is below its target, lowers it above: both on the scale of the log-prob."""
    loss: jax.Array = -(log_temperature * jax.lax.stop_gradient(log_prob_B + target_entropy)).mean()
    return loss


@dataclass(frozen=True)
class SacSettings:
    """Numbers that only SAC has."""

    learn_temperature: bool
    temperature_start: float
    target_entropy: float
    """Per action dimension."""


class SacTrainState(NamedTuple):
    """What an update of SAC changes; `params` are the actor's."""

    params: Params
    opt_state: optax.ScaleByAdamState
    critics: ParamsAndOpt
    target: Params
    temperature: ParamsAndOpt  # log alpha
    updates: jax.Array

    @property
    def actor(self) -> ParamsAndOpt:
        return ParamsAndOpt(self.params, self.opt_state)


class Sac:
    """A squashed Gaussian actor, twin critics with a target, and a temperature."""

    def __init__(self, settings: ReplaySettings, engine: Engine) -> None:
        self.own = settings.own(SacSettings)
        self.warmup_steps = settings.warmup_steps
        self.adam = Adam(settings.adam_beta2, settings.adam_eps, settings.max_grad_norm is not None)
        self.policy = make_actor(engine.observation, engine.action, settings.hidden, settings.activation)
        self.action_size = self.policy.heads.action_size
        self.critics = make_twin_critics(self.policy.inputs, self.action_size, settings.hidden, settings.activation)

    def init(self, streams: Streams) -> SacTrainState:
        actor = self.adam.init(self.policy.init(jax.random.key(streams.number("parameters", 0))))
        critics = self.adam.init(self.critics.init(jax.random.key(streams.number("critics", 0))))
        temperature = self.adam.init(jnp.log(jnp.float32(self.own.temperature_start)))
        return SacTrainState(*actor, critics, jnp.array(critics.params), temperature, jnp.zeros((), jnp.int32))

    def to_trees(self, train: SacTrainState) -> SacTrainState:
        actor = train.actor.converted(self.policy.unravel)
        critics, target = train.critics.converted(self.critics.unravel), self.critics.unravel(train.target)
        return SacTrainState(*actor, critics, target, train.temperature, train.updates)

    def to_vectors(self, train: SacTrainState) -> SacTrainState:
        actor = train.actor.converted(join_leaves)
        critics, target = train.critics.converted(self.critics.ravel), self.critics.ravel(train.target)
        return SacTrainState(*actor, critics, target, train.temperature, train.updates)

    def hyper(self) -> dict[str, float]:
        return {"target_entropy": self.own.target_entropy * self.action_size}

    def update_noise(self, rng: np.random.Generator, updates: int, rows: int) -> np.ndarray:
        """Normal [U, 2, B, D]: for next actions and for the actor's."""
        return rng.standard_normal((updates, 2, rows, self.action_size), np.float32)

    def exploration_noise(self, stream: int, shape: tuple[int, int], env_steps: int) -> tuple[np.ndarray, ...]:
        heads = self.policy.heads
        assert isinstance(heads, SquashedHeads)
        return heads.random(stream, shape) if env_steps < self.warmup_steps else heads.noise(stream, shape)

    def metrics(self, env_steps: int) -> dict[str, float]:
        return {}

    def step(
        self,
        train: SacTrainState,
        batch: Batch,
        noise: jax.Array,
        stats: ObsStats,
        hyper: ReplayHyper,
        step_sizes: StepSizes,
    ) -> tuple[SacTrainState, Metrics]:
        """Critics, then the actor by the new critics, then the temperature, then the target."""
        policy, rate = self.policy, step_sizes.learning_rate
        inputs, next_inputs = policy.preprocess(batch.obs, stats), policy.preprocess(batch.next_obs, stats)
        temperature = jnp.exp(train.temperature.params)
        next_raw = policy.outputs_of(train.params, next_inputs).raw
        next_action, next_log_prob = sample_with_log_prob(next_raw, noise[0])
        next_value = self.critics.values(train.target, next_inputs, next_action)
        target = soft_target(batch.reward, batch.terminated, next_value, next_log_prob, temperature, hyper.gamma)

        def critics_loss(params: Params) -> tuple[jax.Array, jax.Array]:
            value = self.critics.values(params, inputs, batch.action)
            return critic_loss(value, target), value

        (loss, value), gradient = jax.value_and_grad(critics_loss, has_aux=True)(train.critics.params)
        critics, critic_norm = self.adam.step(train.critics, gradient, rate, hyper)

        def policy_loss(params: Params) -> tuple[jax.Array, jax.Array]:
            action, log_prob = sample_with_log_prob(policy.outputs_of(params, inputs).raw, noise[1])
            return actor_loss(log_prob, self.critics.values(critics.params, inputs, action), temperature), log_prob

        (loss_of_actor, log_prob), gradient = jax.value_and_grad(policy_loss, has_aux=True)(train.params)
        actor, actor_norm = self.adam.step(train.actor, gradient, rate, hyper)
        metrics = {
            "critic_loss": loss,
            "actor_loss": loss_of_actor,
            "temperature": temperature,
            "entropy": -log_prob.mean(),
            "q_mean": value.mean(),
            "q_target_mean": target.mean(),
            "gradient_norm": jnp.sqrt(jnp.square(critic_norm) + jnp.square(actor_norm)),
        }
        next_temperature = self._temperature_step(train.temperature, log_prob, rate, hyper)
        moved = step_sizes.moved_target(train.target, critics.params)
        return SacTrainState(*actor, critics, moved, next_temperature, train.updates), metrics

    def _temperature_step(
        self, temperature: ParamsAndOpt, log_prob_B: jax.Array, learning_rate: jax.Array, hyper: ReplayHyper
    ) -> ParamsAndOpt:
        if not self.own.learn_temperature:
            return temperature
        gradient = jax.grad(temperature_loss)(temperature.params, log_prob_B, hyper.own["target_entropy"])
        return self.adam.step(temperature, gradient, learning_rate, hyper)[0]
