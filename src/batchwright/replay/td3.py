"""TD3 (Fujimoto et al., 2018): its losses as functions of arrays, and its update."""

# U updates of an iteration, B rows of one, C = 2 critics, D numbers of one action. Actions are on the scale -1..1.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from batchwright.core.streams import Streams
from batchwright.envs.engines import Engine
from batchwright.envs.spaces import Spec
from batchwright.nets.head_layout import make_heads
from batchwright.nets.networks import Inputs
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import join_leaves
from batchwright.nets.replay_nets import SquashedHeads, make_tower, make_twin_critics, policy_of_tower, refuse_unbounded
from batchwright.replay.replay_settings import ReplaySettings
from batchwright.replay.replay_state import Adam, Metrics, Params, ParamsAndOpt, ReplayHyper, StepSizes
from batchwright.store.replay_buffer import Batch


def smoothed_action(action_BD: jax.Array, normal_BD: jax.Array, noise: ArrayLike, clip: ArrayLike) -> jax.Array:
    """Target policy smoothing: actions with clipped noise of this standard deviation, inside their bounds."""
    added_BD = jnp.clip(noise * normal_BD, jnp.negative(clip), clip)
    return jnp.clip(action_BD + added_BD, -1.0, 1.0)


def clipped_double_q_target(
    reward_B: jax.Array, terminated_B: jax.Array, next_value_CB: jax.Array, gamma: ArrayLike
) -> jax.Array:
    """Targets of the critics [B]: the smaller next value, nothing after a termination."""
    target: jax.Array = jax.lax.stop_gradient(reward_B + gamma * jnp.where(terminated_B, 0.0, next_value_CB.min(0)))
    return target


def critic_loss(value_CB: jax.Array, target_B: jax.Array) -> jax.Array:
    """The squared error, summed over critics, mean over rows."""
    return jnp.square(value_CB - target_B).sum(0).mean()


def actor_loss(value_CB: jax.Array) -> jax.Array:
    """The negative value of the actor's actions by the first critic."""
    return -value_CB[0].mean()


@dataclass(frozen=True)
class Td3Settings:
    """Numbers that only TD3 has."""

    exploration_noise: float
    target_noise: float
    target_noise_clip: float
    policy_delay: int


class Td3TrainState(NamedTuple):
    """What an update of TD3 changes; `params` are the actor's."""

    params: Params
    opt_state: optax.ScaleByAdamState
    critics: ParamsAndOpt
    target_actor: Params
    target_critics: Params
    updates: jax.Array

    @property
    def actor(self) -> ParamsAndOpt:
        return ParamsAndOpt(self.params, self.opt_state)


@dataclass(frozen=True, eq=False)
class DeterministicHeads(SquashedHeads):
    """Boxes as tanh of the raw output [B, D]; noise is added after it, inside the bounds."""

    exploration_noise: float = 0.0

    def noise(self, stream: int, shape: tuple[int, ...]) -> tuple[np.ndarray, ...]:
        normal, forced = super().noise(stream, shape)
        return np.float32(self.exploration_noise) * normal, forced

    def sample(
        self, params: Any, raw_BP: jax.Array, noise: tuple[jax.Array, ...], mask_BM: jax.Array | None = None
    ) -> jax.Array:
        added, forced = noise
        return jnp.where(jnp.isnan(forced), jnp.clip(jnp.tanh(raw_BP) + added, -1.0, 1.0), forced)


def make_deterministic_heads(spec: Spec, exploration_noise: float) -> DeterministicHeads:
    """Heads for bounded boxes."""
    refuse_unbounded(spec, "td3")
    plain = make_heads(spec)
    return DeterministicHeads(spec, plain.heads, plain.action_size, plain.action_size, 0, exploration_noise)


class Td3:
    """A deterministic actor and twin critics, all with targets; the actor learns every `policy_delay` updates."""

    def __init__(self, settings: ReplaySettings, engine: Engine) -> None:
        self.own = settings.own(Td3Settings)
        self.warmup_steps = settings.warmup_steps
        self.adam = Adam(settings.adam_beta2, settings.adam_eps, settings.max_grad_norm is not None)
        hidden, activation = settings.hidden, settings.activation
        inputs = Inputs(engine.observation)
        self.heads = make_deterministic_heads(engine.action, self.own.exploration_noise)
        tower = make_tower(inputs, 0, hidden, activation, self.heads.raw_size)
        self.policy = policy_of_tower(inputs, self.heads, tower)
        self.critics = make_twin_critics(inputs, self.heads.action_size, hidden, activation)

    def init(self, streams: Streams) -> Td3TrainState:
        actor = self.adam.init(self.policy.init(jax.random.key(streams.number("parameters", 0))))
        critics = self.adam.init(self.critics.init(jax.random.key(streams.number("critics", 0))))
        targets = jnp.array(actor.params), jnp.array(critics.params)
        return Td3TrainState(*actor, critics, *targets, jnp.zeros((), jnp.int32))

    def to_trees(self, train: Td3TrainState) -> Td3TrainState:
        actor, critics = self.policy.unravel, self.critics.unravel
        targets = actor(train.target_actor), critics(train.target_critics)
        return Td3TrainState(*train.actor.converted(actor), train.critics.converted(critics), *targets, train.updates)

    def to_vectors(self, train: Td3TrainState) -> Td3TrainState:
        critics = self.critics.ravel
        targets = join_leaves(train.target_actor), critics(train.target_critics)
        actor = train.actor.converted(join_leaves)
        return Td3TrainState(*actor, train.critics.converted(critics), *targets, train.updates)

    def hyper(self) -> dict[str, float]:
        return {"target_noise": self.own.target_noise, "target_noise_clip": self.own.target_noise_clip}

    def update_noise(self, rng: np.random.Generator, updates: int, rows: int) -> np.ndarray:
        """Normal [U, B, D], for next actions."""
        return rng.standard_normal((updates, rows, self.heads.action_size), np.float32)

    def exploration_noise(self, stream: int, shape: tuple[int, int], env_steps: int) -> tuple[np.ndarray, ...]:
        heads = self.heads
        return heads.random(stream, shape) if env_steps < self.warmup_steps else heads.noise(stream, shape)

    def metrics(self, env_steps: int) -> dict[str, float]:
        return {}

    def step(
        self,
        train: Td3TrainState,
        batch: Batch,
        noise: jax.Array,
        stats: ObsStats,
        hyper: ReplayHyper,
        step_sizes: StepSizes,
    ) -> tuple[Td3TrainState, Metrics]:
        """Critics, then the actor by the new critics where its turn has come, then both targets."""
        policy = self.policy
        inputs, next_inputs = policy.preprocess(batch.obs, stats), policy.preprocess(batch.next_obs, stats)
        own = hyper.own
        next_action = jnp.tanh(policy.outputs_of(train.target_actor, next_inputs).raw)
        next_action = smoothed_action(next_action, noise, own["target_noise"], own["target_noise_clip"])
        next_value = self.critics.values(train.target_critics, next_inputs, next_action)
        target = clipped_double_q_target(batch.reward, batch.terminated, next_value, hyper.gamma)

        def critics_loss(params: Params) -> tuple[jax.Array, jax.Array]:
            value = self.critics.values(params, inputs, batch.action)
            return critic_loss(value, target), value

        (loss, value), gradient = jax.value_and_grad(critics_loss, has_aux=True)(train.critics.params)
        critics, critic_norm = self.adam.step(train.critics, gradient, step_sizes.learning_rate, hyper)
        actor, loss_of_actor, actor_norm = self._actor_step(train.actor, critics.params, inputs, hyper, step_sizes)
        metrics = {
            "critic_loss": loss,
            "actor_loss": loss_of_actor,
            "q_mean": value.mean(),
            "q_target_mean": target.mean(),
            "gradient_norm": jnp.sqrt(jnp.square(critic_norm) + jnp.square(actor_norm)),
        }
        targets = (
            step_sizes.moved_target(train.target_actor, actor.params),
            step_sizes.moved_target(train.target_critics, critics.params),
        )
        return Td3TrainState(*actor, critics, *targets, train.updates), metrics

    def _actor_step(
        self, actor: ParamsAndOpt, critics: Params, inputs: Any, hyper: ReplayHyper, step_sizes: StepSizes
    ) -> tuple[ParamsAndOpt, jax.Array, jax.Array]:
        """(actor, its loss, norm of its gradient): unchanged and with norm 0 between its turns."""

        def loss(params: Params) -> jax.Array:
            action = jnp.tanh(self.policy.outputs_of(params, inputs).raw)
            return actor_loss(self.critics.values(critics, inputs, action))

        def step(actor: ParamsAndOpt) -> tuple[ParamsAndOpt, jax.Array, jax.Array]:
            value, gradient = jax.value_and_grad(loss)(actor.params)
            moved, norm = self.adam.step(actor, gradient, step_sizes.learning_rate, hyper)
            return moved, value, norm

        def wait(actor: ParamsAndOpt) -> tuple[ParamsAndOpt, jax.Array, jax.Array]:
            return actor, loss(actor.params), jnp.zeros(())

        due = step_sizes.number % self.own.policy_delay == 0
        found: tuple[ParamsAndOpt, jax.Array, jax.Array] = jax.lax.cond(due, step, wait, actor)
        return found
