"""Builds what an on-policy run is made of from its plan: engine, policy, compiled collection and update."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.config.schema import REPLAY
from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.data.rollout import CollectResult, Rollout
from batchwright.envs.components import NO_COMPONENTS
from batchwright.envs.engines import make_engine
from batchwright.nets.normalise import Running
from batchwright.nets.policy import NetworkMaker, ObsStats
from batchwright.planning.episodes import episode_cut
from batchwright.planning.quantity import Plan
from batchwright.store.minibatches import shuffled_orders
from batchwright.training.episode_update import make_episode_update
from batchwright.training.remedies import first_remedies, refuse_unable_to_act
from batchwright.training.replay_build import refuse_untrainable_replay
from batchwright.training.reward_parts import fresh_components, make_looks, stated_weights
from batchwright.training.running import Measure, make_measure
from batchwright.training.session import EngineSession
from batchwright.training.settings import Schedules, component_names, make_plan_policy, update_shape
from batchwright.training.state import RECENT_EPISODES, Counters, Moments, TrainState
from batchwright.training.update import Hyper, Learner, Update, make_update, start_learner

OWN_NETWORK = "own network"
"""What a plan says of the hidden layers where the user brings the network."""


@dataclass
class Session(EngineSession):
    """The living parts of an on-policy run; what must survive it is in `TrainState`."""

    schedules: Schedules
    update: Any
    """The jitted update: (learner, rollout, statistics, hyper-parameters, orders) -> (learner, metrics).

    The metrics are one vector, in the order of `metric_names`.
    """
    measure: Measure
    metric_names: list[str]
    looks: Any = None
    """Compiled looks at the components of rewards, where there are any."""
    value_only: Any = None
    """Which parameters move the values alone, where the critic has a learning rate of its own."""
    compiling: threading.Thread | None = None
    """Compiles the update while the first rollout is compiled and collected."""

    def compile_ahead(self, state: TrainState, stats: ObsStats, hyper: Hyper) -> None:
        """Begins to compile the update, where the shape of a rollout is known; wait for `compiling` before a call."""
        by_episodes = self.plan.get("rollout_episodes") is not None
        if not self.engine.compiled or by_episodes or state.components is not None:
            return
        _, rollout, _ = jax.eval_shape(self.collect, state.learner.flat, stats, state.position, self.noise(0))
        args = state.learner, rollout, stats, hyper, self.orders(0, rollout)

        def compile_update() -> None:
            # What fails here fails again, and is heard, when the update is called.
            with contextlib.suppress(Exception):
                self.update.lower(*args).compile()

        self.compiling = threading.Thread(target=compile_update, daemon=True)
        self.compiling.start()

    @property
    def columns(self) -> int:
        """Trajectories side by side in a rollout."""
        return int(self.plan["num_envs"])

    def gather(self, state: TrainState, stats: ObsStats) -> CollectResult:
        """The rollout of the next iteration."""
        noise = self.noise(int(state.counters.iteration))
        position, rollout, episodes = self.collect(state.learner.flat, stats, state.position, noise)
        jax.block_until_ready(rollout)  # type: ignore[no-untyped-call]
        return CollectResult(position, rollout, episodes, rollout.action, int(np.size(episodes.ended)))

    def noise(self, *counters: int) -> tuple[np.ndarray, ...]:
        """The randomness of all actions of one call of `collect`."""
        shape = (self.chunk_steps, self.engine.num_envs)
        return self.policy.heads.noise(self.streams.number("actions", *counters), shape)

    def orders(self, iteration: int, rollout: Rollout) -> Any:
        """The order of rows in every epoch of an iteration [E, B]."""
        rows = self.columns * self.chunk_steps
        return shuffled_orders(self.streams.number("minibatch-order", iteration), rows, self.plan["epochs"])

    def unpack(self, metrics: jax.Array) -> dict[str, Any]:
        """Metrics by name: one transfer instead of thirty."""
        return dict(zip(self.metric_names, np.asarray(metrics).tolist(), strict=True))

    def resize(self, plan: Plan) -> None:
        """Goes on with rollouts of another length: what is compiled for their shape is compiled again."""
        self.plan = plan
        self.collect = self._make_collect()
        shape = update_shape(plan, plan["minibatches"])
        names: list[str] = []
        made = make_update(self.policy, shape, self.columns * plan["rollout_steps"], self.value_only)
        self.update, self.metric_names = jax.jit(_with_vector(made, names)), names

    def fresh_state(self) -> TrainState:
        """The state before the first iteration."""
        flat = self.policy.init(jax.random.key(self.streams.number("parameters", 0)))
        shape = update_shape(self.plan, self.plan["minibatches"] or 1)
        width, size = self.policy.inputs.vector_size, len(shape.components)
        state = TrainState(
            learner=start_learner(flat, shape, stated_weights(self.plan) if size else None),
            obs=Moments.of(Running.empty(width)),
            rewards=Moments.of(Running.empty(1)),
            reward_carry=np.zeros(self.columns, np.float32),
            targets=Moments.of(Running.empty(1)),
            recent_returns=np.full(RECENT_EPISODES, np.nan),
            counters=Counters.zero(),
            position=self.start_engine(0),
            components=fresh_components(self.columns, size) if size else None,
        )
        acts = self.plan.get("doctor") == "act"
        return state._replace(remedies=first_remedies(self.plan, state)) if acts else state


def refuse_untrainable(plan: Plan) -> None:
    """What can be planned and not trained; asked before a run directory is made."""
    if plan.regime == REPLAY:
        refuse_untrainable_replay(plan)
    refuse_unable_to_act(plan)
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
    episodes = plan.get("rollout_episodes")
    num_envs = plan["num_envs"] if episodes is None else min(plan["num_envs"], episodes)
    engine = make_engine(
        env,
        num_envs,
        plan["engine"],
        num_threads=plan.get("num_threads"),
        on_event=on_event,
        components=component_names(plan) or NO_COMPONENTS,
    )
    policy = make_plan_policy(plan, engine, network)
    factor_matters = plan["value_rate_factor"] != 1.0
    nothing = np.zeros(1, bool)
    value_only = policy.value_only(jax.random.key(0)) if factor_matters else nothing
    shape = update_shape(plan, plan["minibatches"] or 1)
    names: list[str] = []
    if episodes is None:
        made = make_update(policy, shape, num_envs * plan["rollout_steps"], value_only)
    else:
        made = make_episode_update(policy, shape, episode_cut(plan), value_only)
    update = jax.jit(_with_vector(made, names))
    kind = Session if episodes is None else _episode_session()
    measure = make_measure(plan, policy)
    looks = make_looks(plan) if shape.components else None
    streams, schedules = Streams(plan["seed"]), Schedules(plan)
    return kind(plan, env, streams, engine, policy, schedules, update, measure, names, looks, value_only)


def _episode_session() -> type[Session]:
    """Imported here: that session is one of ours with other rollouts."""
    from batchwright.training.episodes import EpisodeSession

    return EpisodeSession


def _with_vector(update: Update, names: list[str]) -> Callable[..., tuple[Learner, jax.Array]]:
    """The same update with its metrics in one float32 vector; tracing it writes their names down."""

    def packed(learner: Learner, rollout: Any, stats: Any, hyper: Any, order_EB: Any) -> tuple[Learner, jax.Array]:
        learner, told = update(learner, rollout, stats, hyper, order_EB)
        names[:] = list(told)
        return learner, jnp.stack([jnp.asarray(value, jnp.float32) for value in told.values()])

    return packed
