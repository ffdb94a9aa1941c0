"""Builds what a replay run is made of from its plan: engine, networks, buffer, compiled collection and update."""

# U updates, B rows of one, S subsequences, K timesteps of one, D numbers of one action.

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.streams import Streams
from batchwright.envs.components import NO_COMPONENTS
from batchwright.envs.engines import Engine, make_engine
from batchwright.learn.rrd import ircr_reward
from batchwright.nets.normalise import Running
from batchwright.nets.policy import ObsStats, Policy, unraveller
from batchwright.nets.replay_nets import make_actor, make_q_policy, make_twin_critics
from batchwright.nets.reward import make_reward_network
from batchwright.nets.squashed import GreedyHeads, SquashedHeads
from batchwright.planning.memory import show_bytes
from batchwright.planning.quantity import Plan
from batchwright.store.replay import ReplayBuffer, gather
from batchwright.store.replay_files import ReplayFiles
from batchwright.training.replay_update import (
    Drawn,
    Networks,
    ReplayHyper,
    ReplayShape,
    RewardPart,
    make_replay_update,
    start_learner,
)
from batchwright.training.session import EngineSession
from batchwright.training.state import RECENT_EPISODES, Counters, Moments

EPISODES_FILE = "episodes.npy"
HOST_BATCH_BYTES = 256 * 1024**2
"""Of transitions gathered on the host at a time, where the buffer does not lie on the device."""


class ReplayState(NamedTuple):
    """One replay run between two iterations; the buffer itself is kept beside it."""

    learner: Any
    obs: Moments
    recent_returns: Any  # [RECENT_EPISODES] of the last training episodes, oldest first, NaN where there were fewer
    counters: Counters
    position: Any

    def solved(self, stop_return: float | None) -> bool:
        """Whether the mean return of the last episodes has reached what the user called enough."""
        return stop_return is not None and bool(np.mean(self.recent_returns) >= stop_return)

    def obs_stats(self, enabled: bool) -> ObsStats:
        """The statistics that observations are normalised with."""
        return self.obs.obs_stats(enabled)


@dataclass
class ReplaySession(EngineSession):
    """The living parts of a replay run."""

    networks: Networks
    shape: ReplayShape
    buffer: ReplayBuffer
    reward_parameters: Any
    """A fresh vector of the reward network, or None."""
    files: ReplayFiles = field(init=False)
    update: Any = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.files = ReplayFiles(self.buffer)
        self.update = jax.jit(make_replay_update(self.networks, self.shape))

    def fresh_state(self) -> ReplayState:
        key = jax.random.key(self.streams.number("parameters", 0))
        critics = self.networks.critics
        twins = critics.init(jax.random.key(self.streams.number("critics", 0))) if critics is not None else None
        learner = start_learner(
            self.shape, self.policy.init(key), twins, self.reward_parameters, self.plan.get("temperature_start", 1.0)
        )
        return ReplayState(
            learner,
            Moments.of(Running.empty(self.policy.inputs.vector_size)),
            np.full(RECENT_EPISODES, np.nan),
            Counters.zero(),
            self._start_without_masks(),
        )

    def _start_without_masks(self) -> Any:
        position = self.start_engine(0)
        if position.mask is not None:
            raise UserError(
                f"{self.env} masks actions; {self.plan.algo} would learn values of forbidden ones.", ["--algo ppo"]
            )
        return position

    def noise(self, iteration: int, env_steps: int) -> tuple[np.ndarray, ...]:
        """The randomness of all actions of an iteration: random ones in the warm-up, the policy's own after it."""
        shape = (self.plan["rollout_steps"], self.plan["num_envs"])
        stream = self.streams.number("actions", iteration)
        heads = self.policy.heads
        warm = env_steps < self.plan["warmup_steps"]
        if isinstance(heads, GreedyHeads):
            return heads.explore(stream, shape, 1.0 if warm else self.epsilon(env_steps))
        assert isinstance(heads, SquashedHeads)
        return heads.random(stream, shape) if warm else heads.noise(stream, shape)

    def epsilon(self, env_steps: int) -> float:
        """DQN's chance of a random action after so many steps of the planned total."""
        plan = self.plan
        start, end, share = (plan[name] for name in ("epsilon_start", "epsilon_end", "epsilon_share"))
        along = min(1.0, env_steps / (share * plan["total_steps"])) if share > 0 else 1.0
        return float(start + (end - start) * along)

    def hyper(self, done: float) -> ReplayHyper:
        """All hyper-parameters when a share `done` of the run is behind us."""
        plan = self.plan
        schedule = plan["learning_rate_schedule"]
        fall = {"linear": 1.0 - done, "cosine": 0.5 * (1.0 + math.cos(math.pi * done))}.get(schedule, 1.0)
        numbers = ReplayHyper(
            learning_rate=plan["learning_rate"] * fall,
            reward_learning_rate=plan.get("reward_learning_rate", 0.0) * fall,
            gamma=plan["gamma"],
            polyak=plan["polyak"],
            updates_per_target=plan["updates_per_target"],
            target_entropy=plan.get("target_entropy", 0.0) * self.policy.heads.action_size,
            huber_limit=plan.get("huber_limit", 1.0),
            max_grad_norm=plan.get("max_grad_norm") or 0.0,
            warmup_updates=plan["warmup_updates"],
        )
        floats = ReplayHyper(*(np.float32(number) for number in numbers))
        return floats._replace(updates_per_target=np.int32(numbers.updates_per_target))

    def can_update(self, env_steps_before: int) -> bool:
        """After the warm-up; where rewards are made of returns, not before an episode has ended."""
        if env_steps_before < self.plan["warmup_steps"]:
            return False
        if self.plan.get("redistribute") is None:
            return self.buffer.transitions > 0
        return len(self.buffer.table.whole().first) > 0

    def remarks(self, env_steps_before: int, updates: int) -> tuple[str, ...]:
        """Said once, where the warm-up is over and rewards made of returns still have no return to go by."""
        first = 0 <= env_steps_before - self.plan["warmup_steps"] < self.plan["steps_per_iteration"]
        if updates or not first:
            return ()
        return ("no episode has ended and stands whole in the buffer: no update is made until one does",)

    def draw(self, iteration: int) -> Drawn:
        """What all updates of an iteration draw from the buffer, by rows."""
        plan, buffer = self.plan, self.buffer
        source = np.random.Generator(np.random.PCG64(self.streams.number("replay-draws", iteration)))
        updates, rows = plan["updates_per_iteration"], plan["transitions_per_update"]
        guidance: Any = ()
        if plan.get("redistribute") == "ircr":
            policy, returns = buffer.draw_guided(source, updates * rows)
            known = buffer.table.finished().episode_return
            guidance = ircr_reward(returns, known.min(), known.max()).astype(np.float32).reshape(updates, rows)
        else:
            policy = buffer.draw_transitions(source, updates * rows)
        policy = jax.tree.map(lambda x: x.reshape(updates, rows, *x.shape[1:]), policy)
        noise: Any = ()
        if self.shape.algo == "sac":
            noise = source.standard_normal((updates, 2, rows, self.policy.heads.action_size), np.float32)
        if not self.shape.learns_rewards:
            return Drawn(policy, guidance, (), (), (), (), noise)
        parts, length = plan["subsequences_per_update"], plan["subsequence_timesteps"]
        whole = plan["redistribute"] == "full"
        draw = buffer.draw_whole if whole else buffer.draw_subsequences
        found = jax.tree.map(lambda x: x.reshape(updates, parts, *x.shape[1:]), draw(source, updates * parts, length))
        mask = found.mask if whole else ()
        return Drawn(policy, guidance, found.draw, found.episode_return, found.episode_length, mask, noise)

    def learn(self, learner: Any, stats: ObsStats, hyper: ReplayHyper, drawn: Drawn) -> tuple[Any, dict[str, Any]]:
        """All updates of an iteration; (learner, means of what they told)."""
        if self.buffer.on_device:
            learner, told = self.update(learner, self.buffer.frames, stats, hyper, drawn)
            return learner, _floats(told)
        parts = _parts(drawn, self.plan)
        heard = []
        for part in parts:
            learner, told = self.update(learner, None, stats, hyper, self._gathered(part))
            heard.append(_floats(told))
        return learner, {name: float(np.mean([one[name] for one in heard])) for name in heard[0]}

    def _gathered(self, drawn: Drawn) -> Drawn:
        reward = gather(self.buffer.frames, drawn.reward) if self.shape.learns_rewards else ()
        return drawn._replace(policy=gather(self.buffer.frames, drawn.policy), reward=reward)

    def save_beside(self, folder: Path, state: Any) -> tuple[dict[str, list[np.ndarray]], dict[str, str]]:
        return {EPISODES_FILE: [self.buffer.table.to_array()]}, self.files.save(folder)

    def load_beside(self, folder: Path, checkpoint: Path, shared: dict[str, str], state: Any) -> None:
        self.buffer.table.take(np.load(checkpoint / EPISODES_FILE, allow_pickle=False)[0])
        self.files.load(folder, shared)


def _floats(told: dict[str, jax.Array]) -> dict[str, float]:
    return {name: float(value) for name, value in jax.device_get(told).items()}


def _parts(drawn: Drawn, plan: Plan) -> list[Drawn]:
    """The draws in equal parts, each of which fits beside the rest when it is gathered."""
    updates = plan["updates_per_iteration"]
    each = (plan.get("batch_bytes") or 0) + (plan.get("rrd_batch_bytes") or 0)
    most = max(1, min(updates, HOST_BATCH_BYTES // max(each, 1)))
    size = next(size for size in range(most, 0, -1) if updates % size == 0)
    return [jax.tree.map(lambda x, at=at: x[at : at + size], drawn) for at in range(0, updates, size)]


def build_replay_session(
    plan: Plan, env: str, on_event: Callable[[dict[str, Any]], None] | None = None
) -> ReplaySession:
    """Everything compiled lazily on first use; the buffer's memory is taken here."""
    refuse_untrainable_replay(plan)
    engine = make_engine(
        env,
        plan["num_envs"],
        plan["engine"],
        num_threads=plan.get("num_threads"),
        on_event=on_event,
        components=NO_COMPONENTS,
    )
    policy = make_replay_policy(plan, engine)
    streams = Streams(plan["seed"])
    networks, reward = _networks(plan, policy, engine, streams)
    shape = ReplayShape(
        plan.algo,
        learns_rewards=reward is not None,
        unbiased=plan.get("redistribute") == "rrd-unbiased",
        learns_temperature=bool(plan.get("learn_temperature")),
        clips=plan.get("max_grad_norm") is not None,
        adam_beta2=plan["adam_beta2"],
        adam_eps=plan["adam_eps"],
    )
    buffer = _allocate(plan, engine, policy)
    return ReplaySession(plan, env, streams, engine, policy, networks, shape, buffer, reward)


def make_replay_policy(plan: Plan, engine: Engine) -> Policy:
    """The policy that a replay plan describes."""
    hidden, activation = _sizes(plan), plan.get("activation", "relu")
    if plan.algo == "sac":
        return make_actor(engine.observation, engine.action, hidden, activation)
    return make_q_policy(engine.observation, engine.action, hidden, activation, plan["epsilon_end"])


def _sizes(plan: Plan) -> tuple[int, ...]:
    hidden = plan["hidden"]
    return tuple(int(units) for units in hidden.split(",")) if hidden[:1].isdigit() else ()


def _networks(plan: Plan, policy: Policy, engine: Engine, streams: Streams) -> tuple[Networks, Any]:
    """(networks, fresh parameters of the reward network or None)."""
    critics = None
    if plan.algo == "sac":
        activation = plan.get("activation", "relu")
        critics = make_twin_critics(policy.inputs, policy.heads.action_size, _sizes(plan), activation)
    if plan.get("redistribute") in (None, "ircr"):
        return Networks(policy, critics), None
    net = make_reward_network(engine.observation, engine.action, _sizes(plan))
    tree = net.init(jax.random.key(streams.number("reward-parameters", 0)))
    fresh = jnp.asarray(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]))
    return Networks(policy, critics, RewardPart(net.apply, unraveller(tree))), fresh


def _allocate(plan: Plan, engine: Engine, policy: Policy) -> ReplayBuffer:
    try:
        return ReplayBuffer(
            engine.observation,
            policy.heads.action_size,
            plan["replay_transitions"],
            plan["num_envs"],
            plan["store_next_obs"],
            plan["replay_on"] == "device",
            plan.get("stacked_frames", 1),
        )
    except (MemoryError, RuntimeError) as error:
        smaller = max(1, plan["replay_transitions"] // 2)
        raise UserError(
            f"the replay buffer of {show_bytes(plan.get('buffer_bytes') or 0)} cannot be allocated: {error}.",
            [f"--replay-transitions {smaller}"],
        ) from error


def refuse_untrainable_replay(plan: Plan) -> None:
    """Numbers that can be planned and not trained; asked before a run directory is made."""
    capacity, steps = plan["replay_transitions"], plan["steps_per_iteration"]
    if capacity < steps:
        raise UserError(
            f"a replay buffer of {capacity} transitions cannot take the {steps} of one iteration.",
            [f"--replay-transitions {steps}", f"--rollout-steps {max(1, capacity // plan['num_envs'])}"],
        )
