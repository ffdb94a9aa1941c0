"""Running statistics of reward components: what each rollout adds, the numbers of both tiers, and what is said once."""

# T steps, N environments, K components.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.data.rollout import Episodes, Rollout
from batchwright.learn.components import nested, tier_one, tier_two, varying
from batchwright.learn.returns import running_returns
from batchwright.nets.normalise import Running, batch_moments
from batchwright.planning.quantity import Plan
from batchwright.training.settings import component_names
from batchwright.training.state import ComponentState, Moments
from batchwright.training.update import ComponentNumbers

FORGETTING = 0.9
"""What `adaptive` keeps of its statistics from one rollout to the next: about ten rollouts are remembered."""
LOOKED_AT = 5
"""Rollouts at the beginning of a run in which relations between components are looked for."""
SAME_RETURN = 1e-3


class Seen(NamedTuple):
    """What one rollout tells of its components; moments are (count, mean [K], summed squared deviations [K])."""

    rewards: Any
    returns: Any
    low: Any
    high: Any
    terminates: Any
    carry: Any  # [N, K]


Look = Callable[[Rollout, Any], Seen]
LookAgain = Callable[[Rollout, Any, Any, Any], tuple[Any, Any]]


def fresh_components(num_envs: int, size: int) -> ComponentState:
    """Nothing seen yet."""
    nothing = Moments.of(Running.empty(size))
    zeros = np.zeros((num_envs, size), np.float32)
    return ComponentState(
        nothing,
        nothing,
        nothing,
        np.full(size, np.inf),
        np.full(size, -np.inf),
        np.bool_(False),
        zeros,
        zeros,
        np.bool_(False),
        np.zeros(size, np.bool_),
        np.bool_(False),
    )


def make_looks(plan: Plan) -> tuple[Look, LookAgain]:
    """Compiled: at the rewards as they are, and at what tier one made of them."""
    gamma = jnp.float32(plan["gamma"])

    def totals(reward_TNK: jax.Array, rollout: Rollout, carry_NK: jax.Array) -> tuple[jax.Array, jax.Array]:
        ended = (rollout.terminated | rollout.truncated)[..., None]
        return running_returns(reward_TNK, ended, carry_NK, gamma)

    def look(rollout: Rollout, carry_NK: jax.Array) -> Seen:
        weight, reward, rows = _rows(rollout)
        sums, carry = totals(reward, rollout, carry_NK)
        size = reward.shape[-1]
        inside = rollout.valid[..., None]
        return Seen(
            batch_moments(rows, weight),
            batch_moments(sums.reshape(-1, size), weight),
            jnp.where(inside, reward, jnp.inf).min((0, 1)),
            jnp.where(inside, reward, -jnp.inf).max((0, 1)),
            rollout.terminated.any(),
            carry,
        )

    def look_again(rollout: Rollout, carry_NK: jax.Array, shift: jax.Array, scale: jax.Array) -> tuple[Any, Any]:
        weight, reward, _ = _rows(rollout)
        output = (reward - shift) / scale * rollout.valid[..., None]
        sums, carry = totals(output, rollout, carry_NK)
        return batch_moments(sums.reshape(-1, output.shape[-1]), weight), carry

    return jax.jit(look), jax.jit(look_again)


def _rows(rollout: Rollout) -> tuple[jax.Array, jax.Array, jax.Array]:
    reward = jnp.asarray(rollout.reward)
    return rollout.valid.reshape(-1).astype(jnp.float32), reward, reward.reshape(-1, reward.shape[-1])


def take_in(
    plan: Plan, looks: tuple[Look, LookAgain], state: ComponentState, rollout: Rollout
) -> tuple[ComponentState, ComponentNumbers]:
    """The statistics with this rollout, and what its update does with each component.

    Before the update: the policy does not see rewards, so their scale may know the rollout that it scales.
    """
    method, weights = plan["component_norm"], stated_weights(plan)
    seen = jax.tree.map(np.asarray, looks[0](rollout, state.carry))
    if not np.isfinite(seen.rewards[2]).all():  # the guard undoes what such a rollout teaches
        ones = np.ones(len(weights), np.float32)
        return state, ComponentNumbers(0 * ones, ones, weights, ones)
    keep = FORGETTING if method == "adaptive" else 1.0
    rewards = _merge(state.rewards, seen.rewards, keep)
    returns = _merge(state.returns, seen.returns, keep)
    low, high = np.minimum(state.low, seen.low), np.maximum(state.high, seen.high)
    terminates = np.bool_(state.terminates | seen.terminates)
    varies = varying(low, high, bool(terminates))
    shift, scale = tier_one(method, rewards.mean, _std(rewards), _std(returns), low, high)
    shift, scale = np.where(varies, shift, 0.0), np.where(varies, scale, 1.0)
    factor, outputs, output_carry = 1.0 / scale, state.outputs.running, state.output_carry
    if plan["component_balance"]:
        told, carry = looks[1](rollout, state.output_carry, np.float32(shift), np.float32(scale))
        outputs, output_carry = _merge(state.outputs, told, keep), np.asarray(carry)
        factor = factor * tier_two(_std(outputs), varies)
    numbers = (shift, factor, weights, varies)
    state = state._replace(
        rewards=Moments.of(rewards),
        returns=Moments.of(returns),
        outputs=Moments.of(outputs),
        low=low,
        high=high,
        terminates=terminates,
        carry=seen.carry,
        output_carry=output_carry,
    )
    return state, ComponentNumbers(*(np.float32(number) for number in numbers))


def stated_weights(plan: Plan) -> np.ndarray:
    """The plan's weights [K]."""
    return np.array([float(text) for text in str(plan["component_weights"]).split(",")], np.float32)


def _merge(moments: Moments, added: Any, keep: float) -> Running:
    old = moments.running
    return Running(old.count * keep, old.mean, old.squares * keep).merge(*added)


def _std(running: Running) -> np.ndarray:
    """Without the floor that observations have: a component may be small and matter."""
    return np.sqrt(running.squares / max(running.count, 1.0))


def remarks(
    plan: Plan, state: ComponentState, rollout: Rollout, episodes: Episodes, iteration: int
) -> tuple[ComponentState, tuple[str, ...]]:
    """What a user should hear of the components, once each; nested ones are refused where weights are learned."""
    names: tuple[str, ...] = component_names(plan)
    said: list[str] = []
    if iteration < LOOKED_AT and not state.said_nested and len(names) > 1:
        relation = nested(np.asarray(rollout.reward)[np.asarray(rollout.valid)])
        if relation is not None:
            said.append(_nested_text(names, relation))
            if plan["component_weighting"] == "learned":
                raise UserError(f"{said[-1]} Learned weights need components apart.", _without(names, relation[0]))
            state = state._replace(said_nested=np.bool_(True))
    constant = ~varying(state.low, state.high, bool(state.terminates)) & ~state.said_constant
    for k in np.flatnonzero(constant) if iteration >= 1 else ():
        said.append(f"component {names[k]} is always {state.low[k]:g} so far: it has weight 0 until that changes.")
    if iteration >= 1:
        state = state._replace(said_constant=state.said_constant | constant)
    if not state.said_sum and (text := _sum_text(episodes)) is not None:
        said.append(text)
        state = state._replace(said_sum=np.bool_(True))
    return state, tuple(said)


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
        "what they leave out is not trained on."
    )
