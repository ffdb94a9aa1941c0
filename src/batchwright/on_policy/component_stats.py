"""Running statistics of reward components: updated by each rollout, they give the scales of its update."""

# T steps, N environments, K components, C = K or K + 1 columns (a success signal follows the components).

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.data.arrays import HostOrDevice
from batchwright.data.rollout import CollectResult, Episodes, Rollout
from batchwright.learn.component_scaling import SMALLEST_STD, nested, tier_one, tier_two, varying
from batchwright.learn.returns import running_returns
from batchwright.nets.normalise import RunningMoments, batch_moments
from batchwright.on_policy.normalisation import BatchMoments
from batchwright.on_policy.on_policy_settings import ComponentSettings, OnPolicySettings
from batchwright.on_policy.on_policy_state import ComponentScales, ComponentStats
from batchwright.planning.component_plan import SUCCESS, TOTAL, reweighting
from batchwright.runs.shared_programs import SharedPrograms

KEPT_SHARE = 0.9
"""What `adaptive` keeps of its statistics from one rollout to the next: about ten rollouts are remembered."""
NESTED_CHECKS = 5
"""Rollouts at the start of a run in which nested components are looked for."""
SAME_RETURN = 1e-3


class RolloutComponents(NamedTuple):
    """Statistics of the components of one rollout."""

    rewards: BatchMoments
    returns: BatchMoments
    low: jax.Array  # [C]
    high: jax.Array  # [C]
    terminates: jax.Array
    carry: jax.Array  # [N, C]


MeasureRewards = Callable[[Rollout, HostOrDevice, np.float32], RolloutComponents]
MeasureOutputs = Callable[
    [Rollout, HostOrDevice, np.float32, HostOrDevice, HostOrDevice], tuple[BatchMoments, jax.Array]
]


@dataclass(frozen=True)
class ComponentTracker:
    """Updates `ComponentStats` by rollouts, and warns of components that do not do what they seem to."""

    names: tuple[str, ...]
    settings: ComponentSettings
    gamma: np.float32
    measure_rewards: MeasureRewards
    """Compiled: statistics of the rewards as they are."""
    measure_outputs: MeasureOutputs
    """Compiled: moments of what the first tier of normalisation gave."""

    @classmethod
    def make(cls, settings: OnPolicySettings, programs: SharedPrograms) -> ComponentTracker:
        assert settings.components is not None
        measures = programs.get("component measures", make_measures)
        gamma = np.float32(settings.constants.gamma)
        return cls(settings.update.components, settings.components, gamma, *measures)

    @property
    def weights(self) -> np.ndarray:
        """The stated weights [K]."""
        return np.array(self.settings.weights, np.float32)

    @property
    def columns(self) -> int:
        """Value heads: one per component, and one for the success signal where it is the target."""
        return len(self.names) + (self.settings.target == SUCCESS)

    def start(self, num_envs: int) -> ComponentStats:
        """Statistics before the first rollout."""
        return start_component_stats(num_envs, len(self.names), self.columns)

    def absorb(
        self, stats: ComponentStats, collected: CollectResult, iteration: int
    ) -> tuple[ComponentStats, ComponentScales, tuple[str, ...]]:
        """The statistics with one more rollout, the scales of its update, and warnings for the user."""
        stats, scales = self.update(stats, collected.rollout)
        stats, warnings = self.warnings(stats, collected.rollout, collected.episodes, iteration)
        stats, balanced = self.reweighting(stats, scales)
        return stats, scales, (*warnings, *balanced)

    def update(self, stats: ComponentStats, rollout: Rollout) -> tuple[ComponentStats, ComponentScales]:
        """The statistics with one more rollout, and the scales of its update.

        Before the update: the policy does not see rewards, so their scale may include the rollout that it scales.
        """
        found: RolloutComponents = jax.tree.map(np.asarray, self.measure_rewards(rollout, stats.carry, self.gamma))
        if not np.isfinite(found.rewards[2]).all():  # the update of such a rollout is undone
            ones = np.ones(self.columns, np.float32)
            return stats, ComponentScales(0 * ones, ones, ones, ones, ones, 0 * ones, self.weights)
        keep = KEPT_SHARE if self.settings.norm == "adaptive" else 1.0
        rewards, returns = _merge(stats.rewards, found.rewards, keep), _merge(stats.returns, found.returns, keep)
        low, high = np.minimum(stats.low, found.low), np.maximum(stats.high, found.high)
        terminates = np.bool_(stats.terminates | found.terminates)
        varies = varying(low, high, bool(terminates))
        norm = self.settings.norm if self.settings.balance else "scale"
        shift, scale = tier_one(norm, rewards.mean, _std(rewards), _std(returns), low, high)
        shift, scale = np.where(varies, shift, 0.0), np.where(varies, scale, 1.0)
        factor, unit, spread = 1.0 / scale, scale, _std(returns)
        outputs, output_carry = stats.outputs, stats.output_carry
        if self.settings.balance:
            moments, carry = self.measure_outputs(
                rollout, stats.output_carry, self.gamma, shift.astype(np.float32), scale.astype(np.float32)
            )
            outputs, output_carry = _merge(stats.outputs, moments, keep), np.asarray(carry)
            balance = tier_two(_std(outputs), varies)
            factor, unit, spread = factor * balance, np.ones_like(scale), _std(outputs) * balance
        stats = stats._replace(
            rewards=rewards,
            returns=returns,
            outputs=outputs,
            low=low,
            high=high,
            terminates=terminates,
            carry=np.asarray(found.carry),
            output_carry=output_carry,
        )
        spread = np.where(spread > SMALLEST_STD, spread, 1.0)
        numbers = (shift, factor, unit, spread, varies, self._target(factor * unit, varies), self.weights)
        return stats, ComponentScales(*(np.asarray(number, np.float32) for number in numbers))

    def _target(self, balance: np.ndarray, varies: np.ndarray) -> np.ndarray:
        """The target's advantage as weights [C] of the columns' ones; `balance` is what one unit of each counts as."""
        named = [name == self.settings.target for name in (*self.names, SUCCESS)[: len(varies)]]
        counts = np.where(self.settings.target == TOTAL, 1.0 / balance, named)
        return np.asarray(counts * varies)

    def with_success(self, rollout: Rollout, episodes: Episodes) -> Rollout:
        """The rollout with its success signal, where it is the target of the weights."""
        if self.settings.target != SUCCESS:
            return rollout
        ended = np.asarray(rollout.terminated | rollout.truncated) & np.asarray(rollout.valid)
        success = np.full(ended.shape, np.nan) if episodes.success is None else np.asarray(episodes.success)
        if ended.any() and np.isnan(np.broadcast_to(success, ended.shape)[ended]).all():
            raise UserError(
                "--component-target success: episodes ended, and info had neither 'is_success' nor 'success'.",
                ["--component-target total", *(f"--component-target {name}" for name in self.names)],
            )
        return rollout._replace(success=jnp.asarray(np.where(ended, np.nan_to_num(success), 0.0), jnp.float32))

    def warnings(
        self, stats: ComponentStats, rollout: Rollout, episodes: Episodes, iteration: int
    ) -> tuple[ComponentStats, tuple[str, ...]]:
        """Each warning once per run; nested components are refused where weights are learned."""
        names, texts, size = self.names, [], len(self.names)
        if iteration < NESTED_CHECKS and not stats.warned_nested and len(names) > 1:
            relation = nested(np.asarray(rollout.reward)[np.asarray(rollout.valid)])
            if relation is not None:
                texts.append(_nested_text(names, relation))
                if self.settings.weighting == "learned":
                    raise UserError(f"{texts[-1]} Learned weights need components apart.", _without(names, relation[0]))
                stats = stats._replace(warned_nested=np.bool_(True))
        constant = ~varying(stats.low, stats.high, bool(stats.terminates))[:size] & ~stats.warned_constant
        if iteration >= 1:
            stats = stats._replace(warned_constant=stats.warned_constant | constant)
            texts += [
                f"component {names[k]} is always {stats.low[k]:g} so far: it has weight 0 until that changes."
                for k in np.flatnonzero(constant)
            ]
        if not stats.warned_sum and (text := _sum_text(episodes)) is not None:
            texts.append(text)
            stats = stats._replace(warned_sum=np.bool_(True))
        return stats, tuple(texts)

    def reweighting(self, stats: ComponentStats, scales: ComponentScales) -> tuple[ComponentStats, tuple[str, ...]]:
        """What balancing makes of one unit of each component: reported first, and when a figure has doubled."""
        if not self.settings.balance:
            return stats, ()
        size = len(self.names)
        counts = np.abs(scales.weight * scales.factor[:size] * scales.varies[:size]).astype(np.float64)
        text = reweighting(self.names, counts.tolist())
        if text is None or not _has_doubled(counts, stats.stated_balance):
            return stats, ()
        stated = np.abs(scales.weight)
        large, small = int(np.argmax(counts)), int(np.argmin(np.where(counts > 0, counts, np.inf)))
        text += f"; by the stated weights as {stated[large] / stated[small]:.3g}"
        return stats._replace(stated_balance=counts), (f"balanced components: {text}.",)


def _has_doubled(counts: np.ndarray, before: np.ndarray) -> bool:
    """Whether the trade-off between any two components has changed by a factor of 2, or was never reported."""
    both = (counts > 0) & (before > 0)
    if not both.any() or (both != (counts > 0)).any():
        return True
    change = counts[both] / before[both]
    return bool(change.max() >= 2 * change.min())


def start_component_stats(num_envs: int, components: int, columns: int) -> ComponentStats:
    """Statistics before the first rollout."""
    empty, zeros = RunningMoments.empty(columns), np.zeros((num_envs, columns), np.float32)
    return ComponentStats(
        rewards=empty,
        returns=empty,
        outputs=empty,
        low=np.full(columns, np.inf),
        high=np.full(columns, -np.inf),
        terminates=np.bool_(False),
        carry=zeros,
        output_carry=zeros,
        warned_nested=np.bool_(False),
        warned_constant=np.zeros(components, np.bool_),
        warned_sum=np.bool_(False),
        stated_balance=np.full(components, np.nan),
    )


def make_measures() -> tuple[MeasureRewards, MeasureOutputs]:
    """Compiled measures of the rewards as they are, and of what the first tier made of them."""

    def totals(
        reward_TNC: jax.Array, rollout: Rollout, carry_NC: jax.Array, gamma: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        ended = (rollout.terminated | rollout.truncated)[..., None]
        return running_returns(reward_TNC, ended, carry_NC, gamma)

    def measure_rewards(rollout: Rollout, carry_NC: jax.Array, gamma: jax.Array) -> RolloutComponents:
        weight, reward = rollout.valid.reshape(-1).astype(jnp.float32), reward_columns(rollout)
        sums, carry = totals(reward, rollout, carry_NC, gamma)
        size = reward.shape[-1]
        inside = rollout.valid[..., None]
        return RolloutComponents(
            batch_moments(reward.reshape(-1, size), weight),
            batch_moments(sums.reshape(-1, size), weight),
            jnp.where(inside, reward, jnp.inf).min((0, 1)),
            jnp.where(inside, reward, -jnp.inf).max((0, 1)),
            rollout.terminated.any(),
            carry,
        )

    def measure_outputs(
        rollout: Rollout, carry_NC: jax.Array, gamma: jax.Array, shift: jax.Array, scale: jax.Array
    ) -> tuple[BatchMoments, jax.Array]:
        weight, reward = rollout.valid.reshape(-1).astype(jnp.float32), reward_columns(rollout)
        output = (reward - shift) / scale * rollout.valid[..., None]
        sums, carry = totals(output, rollout, carry_NC, gamma)
        return batch_moments(sums.reshape(-1, output.shape[-1]), weight), carry

    return jax.jit(measure_rewards), jax.jit(measure_outputs)


def reward_columns(rollout: Rollout) -> jax.Array:
    """The components of the reward, and the success signal where it is the target [T, N, C]."""
    reward = jnp.asarray(rollout.reward)
    return reward if rollout.success is None else jnp.concatenate([reward, rollout.success[..., None]], -1)


def _merge(moments: RunningMoments, added: BatchMoments, keep: float) -> RunningMoments:
    kept = RunningMoments(np.float64(moments.count * keep), moments.mean, moments.squares * keep)
    return kept.merge(*added)


def _std(moments: RunningMoments) -> np.ndarray:
    """Without the floor that observations have: a component may be small and matter."""
    return np.sqrt(moments.squares / max(float(moments.count), 1.0))


def _nested_text(names: tuple[str, ...], relation: tuple[int, dict[int, float]]) -> str:
    whole, parts = relation
    sum_ = " + ".join(names[j] if abs(c - 1) < 1e-3 else f"{c:.4g} x {names[j]}" for j, c in parts.items())
    return f"component {names[whole]} is {sum_}: what it holds is counted twice."


def _without(names: tuple[str, ...], whole: int) -> list[str]:
    return [
        f"--components {' '.join(name for k, name in enumerate(names) if k != whole)}",
        "--component-weighting fixed",
    ]


def _sum_text(episodes: Episodes) -> str | None:
    ended = np.asarray(episodes.ended)
    if not ended.any():
        return None
    paid = np.asarray(episodes.returns)[ended].astype(np.float64)
    parts = np.asarray(episodes.components)[ended].astype(np.float64).sum(-1)
    if np.allclose(paid, parts, rtol=SAME_RETURN, atol=SAME_RETURN):
        return None
    return (
        f"the components sum to {parts.mean():.6g} per episode, the environment's reward to {paid.mean():.6g}: "
        "what they leave out is not trained on, unless rest is among --components."
    )
