"""All updates of one replay iteration as one compiled program: a scan over draws from the buffer."""

# U updates, B rows of one, S subsequences, K timesteps of one.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from batchwright.learn import dqn, sac
from batchwright.learn.rrd import rrd_loss
from batchwright.nets.policy import ObsStats, Policy, join_leaves
from batchwright.nets.replay_nets import TwinCritics
from batchwright.nets.squashed import sample_with_log_prob
from batchwright.store.replay import Batch, Frames, gather

Told = dict[str, jax.Array]
Convert = Callable[[Any], Any]
"""From a parameter vector to its tree, or back."""


@dataclass(frozen=True)
class ReplayShape:
    """What is compiled into the program; everything else is an array of `ReplayHyper`."""

    algo: str
    learns_rewards: bool = False
    """Whether a reward network relabels every transition that the policy learns from."""
    unbiased: bool = False
    learns_temperature: bool = True
    clips: bool = False
    adam_beta2: float = 0.999
    adam_eps: float = 1e-8


class ReplayHyper(NamedTuple):
    """Numbers that may change between iterations without compiling again."""

    learning_rate: Any
    reward_learning_rate: Any
    gamma: Any
    polyak: Any
    updates_per_target: Any
    target_entropy: Any
    huber_limit: Any
    max_grad_norm: Any
    warmup_updates: Any


class Pace(NamedTuple):
    """How far one update goes; [U] for all of an iteration."""

    learning_rate: Any
    reward_learning_rate: Any
    polyak: Any  # 0 where the target stays


class Fitted(NamedTuple):
    """One parameter vector with its Adam."""

    flat: Any
    adam: Any


class SacLearner(NamedTuple):
    """What an update of SAC changes; `flat` is the actor.

    Between iterations every network is one vector. Within, it is a tree: slices of a vector would be copied for every
    product, and gradients joined.
    """

    flat: Any
    adam: Any
    critics: Fitted
    target: Any
    temperature: Fitted  # log alpha
    reward: Any  # Fitted where rewards are learned, else ()
    updates: jax.Array


class DqnLearner(NamedTuple):
    """What an update of DQN changes; `flat` is the Q-network. Vectors between iterations, trees within."""

    flat: Any
    adam: Any
    target: Any
    reward: Any
    updates: jax.Array


class Drawn(NamedTuple):
    """What U updates draw: rows of the buffer, or the transitions themselves where they were gathered on the host."""

    policy: Any  # Draw or Batch [U, B, ...]
    guidance: Any  # [U, B] rewards that replace the stored ones, or ()
    reward: Any  # Draw or Batch [U, S, K, ...], or ()
    episode_return: Any  # [U, S], or ()
    episode_length: Any  # [U, S], or ()
    mask: Any  # [U, S, K], or ()
    noise: Any  # [U, 2, B, D] normal for SAC, or ()


@dataclass(frozen=True, eq=False)
class RewardPart:
    """The reward network of an agent."""

    apply: Callable[[Any, Any, jax.Array, Any], jax.Array]
    """(parameter tree, observations, actions, next observations) -> rewards."""
    unravel: Callable[[jax.Array], Any]


@dataclass(frozen=True, eq=False)
class Networks:
    """What an agent is made of."""

    policy: Policy
    critics: TwinCritics | None = None
    reward: RewardPart | None = None

    def to_trees(self, learner: Any) -> Any:
        """A learner whose networks are trees."""
        critics = None if self.critics is None else self.critics.unravel
        reward = None if self.reward is None else self.reward.unravel
        return _converted(learner, self.policy.unravel, critics, reward)

    def to_vectors(self, learner: Any) -> Any:
        """The way back from `to_trees`."""
        critics = None if self.critics is None else self.critics.ravel
        return _converted(learner, join_leaves, critics, None if self.reward is None else join_leaves)


def _converted(learner: Any, policy: Convert, critics: Convert | None, reward: Convert | None) -> Any:
    own = _convert(Fitted(learner.flat, learner.adam), policy)
    learner = learner._replace(flat=own.flat, adam=own.adam)
    if reward is not None:
        learner = learner._replace(reward=_convert(learner.reward, reward))
    if critics is None:
        return learner._replace(target=policy(learner.target))
    return learner._replace(critics=_convert(learner.critics, critics), target=critics(learner.target))


def _convert(fitted: Fitted, convert: Convert) -> Fitted:
    """Parameters and both moments of Adam in another form."""
    adam = fitted.adam
    return Fitted(convert(fitted.flat), adam._replace(mu=convert(adam.mu), nu=convert(adam.nu)))


Update = Callable[[Any, Frames | None, ObsStats, ReplayHyper, Drawn], tuple[Any, Told]]


def make_replay_update(networks: Networks, shape: ReplayShape) -> Update:
    """A function of (learner, frames, observation statistics, hyper-parameters, draws); compile it."""
    adam = optax.scale_by_adam(0.9, shape.adam_beta2, shape.adam_eps)
    step = _make_sac_step(networks, shape, adam) if shape.algo == "sac" else _make_dqn_step(networks, shape, adam)

    def update(
        learner: Any, frames: Frames | None, stats: ObsStats, hyper: ReplayHyper, drawn: Drawn
    ) -> tuple[Any, Told]:
        def fetch(part: Any) -> Batch:
            return part if frames is None else gather(frames, part)

        names: list[str] = []  # of what an update tells, as one array: several would be a kernel each

        def one(learner: Any, now: tuple[Drawn, Pace]) -> tuple[Any, jax.Array]:
            draw, pace = now
            told: Told = {}
            if shape.learns_rewards:
                fitted, told = _fit_reward(networks, shape, adam, learner.reward, fetch(draw.reward), draw, hyper, pace)
                learner = learner._replace(reward=fitted)
            batch = _relabelled(networks, shape, learner, fetch(draw.policy), draw)
            learner, said = step(learner, batch, draw.noise, stats, hyper, pace)
            names[:] = told | said
            return learner, jnp.stack([*(told | said).values()])

        pace_U = _pace(learner.updates, hyper, jax.tree.leaves(drawn)[0].shape[0])
        trees, told_UM = jax.lax.scan(one, networks.to_trees(learner), (drawn, pace_U))
        learner = networks.to_vectors(trees)._replace(updates=learner.updates + len(told_UM))
        told = dict(zip(names, told_UM.mean(0), strict=True))
        finite = [jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(learner)]
        told["finite_parameters"] = jnp.stack(finite).all()
        return learner, told

    return update


def start_learner(shape: ReplayShape, flat: jax.Array, critics: Any, reward: Any, temperature: float) -> Any:
    """A learner that has made no update; `critics` and `reward` are parameter vectors or None."""
    adam = optax.scale_by_adam(0.9, shape.adam_beta2, shape.adam_eps)

    def fitted(flat: jax.Array) -> Fitted:
        return Fitted(flat, adam.init(flat))

    rewards = () if reward is None else fitted(reward)
    none = jnp.zeros((), jnp.int32)
    if shape.algo == "dqn":
        return DqnLearner(flat, adam.init(flat), jnp.array(flat), rewards, none)
    log_temperature = jnp.log(jnp.float32(temperature))
    twins = fitted(critics)
    return SacLearner(flat, adam.init(flat), twins, jnp.array(critics), fitted(log_temperature), rewards, none)


def _pace(updates: jax.Array, hyper: ReplayHyper, count: int) -> Pace:
    """The pace of the next `count` updates, of all at once: numbers made in a step would be a kernel each."""
    number_U = updates + 1 + jnp.arange(count, dtype=jnp.int32)
    warm_U = jnp.minimum(1.0, number_U / jnp.maximum(hyper.warmup_updates, 1.0))
    moves_U = number_U % hyper.updates_per_target == 0
    return Pace(
        warm_U * hyper.learning_rate, warm_U * hyper.reward_learning_rate, jnp.where(moves_U, hyper.polyak, 0.0)
    )


def _make_descend(shape: ReplayShape, adam: Any) -> Any:
    def descend(fitted: Fitted, gradient: Any, rate: Any, hyper: ReplayHyper) -> tuple[Fitted, jax.Array]:
        """One Adam step, and the norm of the gradient before it is clipped."""
        norm = jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(gradient)))
        if shape.clips:
            factor = jnp.minimum(1.0, hyper.max_grad_norm / (norm + 1e-6))
            gradient = jax.tree.map(lambda leaf: leaf * factor, gradient)
        direction, state = adam.update(gradient, fitted.adam)
        return Fitted(jax.tree.map(lambda old, by: old - rate * by, fitted.flat, direction), state), norm

    return descend


def _moved_target(target: Any, online: Any, pace: Pace) -> Any:
    return jax.tree.map(lambda old, new: sac.polyak(old, new, pace.polyak), target, online)


def _fit_reward(
    networks: Networks,
    shape: ReplayShape,
    adam: Any,
    fitted: Fitted,
    batch: Batch,
    draw: Drawn,
    hyper: ReplayHyper,
    pace: Pace,
) -> tuple[Fitted, Told]:
    """One step of the reward network on subsequences of finished episodes."""
    assert networks.reward is not None
    predict = networks.reward.apply

    def loss(tree: Any) -> Any:
        found = rrd_loss(
            predict,
            tree,
            batch.obs,
            batch.action,
            batch.next_obs,
            draw.episode_return,
            draw.episode_length,
            unbiased=shape.unbiased,
            timestep_mask_SK=None if isinstance(draw.mask, tuple) else draw.mask,
        )
        return found.loss, found

    (_, found), gradient = jax.value_and_grad(loss, has_aux=True)(fitted.flat)
    fitted, norm = _make_descend(shape, adam)(fitted, gradient, pace.reward_learning_rate, hyper)
    told = {
        "reward_model_loss": found.loss,
        "reward_model_variance": found.variance,
        "reward_model_mean": found.predicted,
        "reward_model_gradient_norm": norm,
    }
    return fitted, told


def _relabelled(networks: Networks, shape: ReplayShape, learner: Any, batch: Batch, draw: Drawn) -> Batch:
    """The batch with the rewards that the policy learns from: never cached, never differentiated."""
    if shape.learns_rewards:
        assert networks.reward is not None
        predicted = networks.reward.apply(learner.reward.flat, batch.obs, batch.action, batch.next_obs)
        return batch._replace(reward=jax.lax.stop_gradient(predicted))
    return batch if isinstance(draw.guidance, tuple) else batch._replace(reward=draw.guidance)


def _make_sac_step(networks: Networks, shape: ReplayShape, adam: Any) -> Any:
    """Critics, then the actor by the moved critics, then the temperature, then the target."""
    policy, critics = networks.policy, networks.critics
    assert critics is not None
    descend = _make_descend(shape, adam)

    def step(
        learner: SacLearner, batch: Batch, noise: jax.Array, stats: ObsStats, hyper: ReplayHyper, pace: Pace
    ) -> tuple[SacLearner, Told]:
        seen, after = policy.see(batch.obs, stats), policy.see(batch.next_obs, stats)
        temperature = jnp.exp(learner.temperature.flat)
        next_action, next_log_prob = sample_with_log_prob(policy.outputs_of(learner.flat, after).raw, noise[0])
        next_value = critics.values(learner.target, after, next_action)
        target = sac.soft_target(batch.reward, batch.terminated, next_value, next_log_prob, temperature, hyper.gamma)

        def critic_loss(pair: Any) -> Any:
            value = critics.values(pair, seen, batch.action)
            return sac.critic_loss(value, target), value

        (loss, value), gradient = jax.value_and_grad(critic_loss, has_aux=True)(learner.critics.flat)
        twins, critic_norm = descend(learner.critics, gradient, pace.learning_rate, hyper)

        def actor_loss(tree: Any) -> Any:
            action, log_prob = sample_with_log_prob(policy.outputs_of(tree, seen).raw, noise[1])
            return sac.actor_loss(log_prob, critics.values(twins.flat, seen, action), temperature), log_prob

        (policy_loss, log_prob), gradient = jax.value_and_grad(actor_loss, has_aux=True)(learner.flat)
        actor, actor_norm = descend(Fitted(learner.flat, learner.adam), gradient, pace.learning_rate, hyper)
        heat = learner.temperature
        if shape.learns_temperature:
            slope = jax.grad(sac.temperature_loss)(heat.flat, log_prob, hyper.target_entropy)
            heat, _ = descend(heat, slope, pace.learning_rate, hyper)
        learner = learner._replace(
            flat=actor.flat,
            adam=actor.adam,
            critics=twins,
            target=_moved_target(learner.target, twins.flat, pace),
            temperature=heat,
        )
        told = {
            "critic_loss": loss,
            "actor_loss": policy_loss,
            "temperature": temperature,
            "entropy": -log_prob.mean(),
            "q_mean": value.mean(),
            "q_target_mean": target.mean(),
            "gradient_norm": jnp.sqrt(jnp.square(critic_norm) + jnp.square(actor_norm)),
        }
        return learner, told

    return step


def _make_dqn_step(networks: Networks, shape: ReplayShape, adam: Any) -> Any:
    """The Q-network, then its target."""
    policy = networks.policy
    descend = _make_descend(shape, adam)

    def step(
        learner: DqnLearner, batch: Batch, noise: Any, stats: ObsStats, hyper: ReplayHyper, pace: Pace
    ) -> tuple[DqnLearner, Told]:
        seen, after = policy.see(batch.obs, stats), policy.see(batch.next_obs, stats)
        next_online, next_target = (policy.outputs_of(tree, after).raw for tree in (learner.flat, learner.target))
        target = dqn.double_q_target(batch.reward, batch.terminated, next_online, next_target, hyper.gamma)

        def q_loss(tree: Any) -> Any:
            value = dqn.taken_value(policy.outputs_of(tree, seen).raw, batch.action)
            return dqn.huber(value - target, hyper.huber_limit), value

        (loss, value), gradient = jax.value_and_grad(q_loss, has_aux=True)(learner.flat)
        online, norm = descend(Fitted(learner.flat, learner.adam), gradient, pace.learning_rate, hyper)
        moved = _moved_target(learner.target, online.flat, pace)
        learner = learner._replace(flat=online.flat, adam=online.adam, target=moved)
        told = {"critic_loss": loss, "q_mean": value.mean(), "q_target_mean": target.mean(), "gradient_norm": norm}
        return learner, told

    return step
