"""Builds what an on-policy run is made of from its plan: engine, policy, compiled collection and update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs.engines import make_engine
from batchwright.nets.normalise import Running
from batchwright.nets.policy import NetworkMaker
from batchwright.planning.quantity import Plan
from batchwright.store.minibatches import shuffled_orders
from batchwright.training.running import Measure, make_measure
from batchwright.training.session import EngineSession
from batchwright.training.settings import Schedules, make_plan_policy, update_shape
from batchwright.training.state import RECENT_EPISODES, Counters, Moments, TrainState
from batchwright.training.update import Learner, Update, make_update, start_learner

OWN_NETWORK = "own network"
"""What a plan says of the hidden layers where the user brings the network."""


@dataclass
class Session(EngineSession):
    """The living parts of an on-policy run; what must survive it is in `TrainState`."""

    schedules: Schedules
    update: Callable[..., tuple[Learner, jax.Array]]
    """The compiled update; its metrics come back as one vector, in the order of `metric_names`."""
    measure: Measure
    metric_names: list[str]

    @property
    def rows(self) -> int:
        return int(self.plan["num_envs"] * self.plan["rollout_steps"])

    def noise(self, iteration: int) -> tuple[np.ndarray, ...]:
        """The randomness of all actions of an iteration."""
        shape = (self.plan["rollout_steps"], self.plan["num_envs"])
        return self.policy.heads.noise(self.streams.number("actions", iteration), shape)

    def orders(self, iteration: int) -> np.ndarray:
        """The order of rows in every epoch of an iteration [E, B]."""
        return shuffled_orders(self.streams.number("minibatch-order", iteration), self.rows, self.plan["epochs"])

    def unpack(self, metrics: jax.Array) -> dict[str, Any]:
        """Metrics by name: one transfer instead of thirty."""
        return dict(zip(self.metric_names, np.asarray(metrics).tolist(), strict=True))

    def fresh_state(self) -> TrainState:
        """The state before the first iteration."""
        flat = self.policy.init(jax.random.key(self.streams.number("parameters", 0)))
        shape = update_shape(self.plan, self.plan["minibatches"])
        width, num_envs = self.policy.inputs.vector_size, self.plan["num_envs"]
        return TrainState(
            learner=start_learner(flat, shape),
            obs=Moments.of(Running.empty(width)),
            rewards=Moments.of(Running.empty(1)),
            reward_carry=np.zeros(num_envs, np.float32),
            targets=Moments.of(Running.empty(1)),
            recent_returns=np.full(RECENT_EPISODES, np.nan),
            counters=Counters.zero(),
            position=self.start_engine(0),
        )


def refuse_untrainable(plan: Plan) -> None:
    """What can be planned and not trained yet; asked before a run directory is made."""
    if plan.get("rollout_episodes"):
        raise UserError(
            "training by whole episodes is not there yet; rollouts are counted in steps.",
            [f"--rollout-steps {plan.get('rollout_steps') or 256} (instead of --rollout-episodes or its preset)"],
        )
    if plan.get("num_agents", 1) > 1 or plan.get("seq_length", 1) > 1:
        raise UserError(
            "several agents and recurrent sequences are planned for other trainers only.", ["--for rl_games"]
        )


def build_session(
    plan: Plan,
    env: str,
    *,
    network: NetworkMaker | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
) -> Session:
    """Everything compiled lazily on first use; bad spaces are refused here."""
    refuse_untrainable(plan)
    engine = make_engine(env, plan["num_envs"], plan["engine"], num_threads=plan.get("num_threads"), on_event=on_event)
    policy = make_plan_policy(plan, engine, network)
    factor_matters = plan["value_rate_factor"] != 1.0
    nothing = np.zeros(1, bool)
    value_only = policy.value_only(jax.random.key(0)) if factor_matters else nothing
    shape = update_shape(plan, plan["minibatches"])
    rows = plan["num_envs"] * plan["rollout_steps"]
    names: list[str] = []
    update = jax.jit(_with_vector(make_update(policy, shape, rows, value_only), names))
    measure = make_measure(plan, policy)
    return Session(plan, env, Streams(plan["seed"]), engine, policy, Schedules(plan), update, measure, names)


def _with_vector(update: Update, names: list[str]) -> Callable[..., tuple[Learner, jax.Array]]:
    """The same update with its metrics in one float32 vector; tracing it writes their names down."""

    def packed(learner: Learner, rollout: Any, stats: Any, hyper: Any, order_EB: Any) -> tuple[Learner, jax.Array]:
        learner, told = update(learner, rollout, stats, hyper, order_EB)
        names[:] = list(told)
        return learner, jnp.stack([jnp.asarray(value, jnp.float32) for value in told.values()])

    return packed
