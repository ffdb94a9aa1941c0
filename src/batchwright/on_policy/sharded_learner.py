"""On-policy learning by several devices or processes: each steps its own environments, all make the same updates.

Statistics, counters, parameters and optimiser are the same in every process; only what belongs to environments differs.
A checkpoint holds the environments of all, so that another number of processes can go on from it.
"""

# T steps, n environments of this process, N of all, D devices of this process, E epochs, R rows of one shard.

from __future__ import annotations

import io
import json
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.data.rollout import CollectResult, Episodes, Rollout
from batchwright.envs.engines import Engine
from batchwright.envs.engines.engine import OnEvent
from batchwright.nets.normalise import ObsStats
from batchwright.nets.policy import Policy
from batchwright.on_policy.component_stats import ComponentTracker
from batchwright.on_policy.normalisation import RolloutMoments, make_measure, merge_rewards
from batchwright.on_policy.on_policy_learner import OnPolicyLearner, ScaledRollout
from batchwright.on_policy.on_policy_settings import OnPolicySettings
from batchwright.on_policy.on_policy_state import ComponentScales, ComponentStats, Hyper, OnPolicyState
from batchwright.on_policy.on_policy_update import Update, make_update
from batchwright.on_policy.recurrent_learner import RecurrentLearner
from batchwright.on_policy.sharded_programs import TimedReduce, sharded_obs_moments, sharded_update
from batchwright.on_policy.shards import Shards
from batchwright.planning.plan import Plan
from batchwright.runs.checkpoints import ACTIONS, load_actions
from batchwright.runs.learner import CheckpointParts, SavedCheckpoint
from batchwright.runs.process_group import ProcessGroup, own_rows
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.store.minibatches import shuffled_orders


def share_of(settings: OnPolicySettings, group: ProcessGroup) -> OnPolicySettings:
    """The settings of one process: its share of the environments."""
    envs = settings.num_envs // group.processes
    update = replace(settings.update, shards=Shards(group.shards))
    return replace(settings, num_envs=envs, columns=envs, update=update)


class ShardedLearner(OnPolicyLearner):
    """Overrides what of an on-policy learner must know that environments are spread."""

    def __init__(
        self,
        plan: Plan,
        settings: OnPolicySettings,
        env: str,
        engine: Engine,
        policy: Policy,
        on_event: OnEvent | None,
        programs: SharedPrograms | None = None,
        group: ProcessGroup | None = None,
    ) -> None:
        self.group = group or ProcessGroup()
        super().__init__(plan, settings, env, engine, policy, on_event, programs)
        self.session.first_env = self.group.process_id * engine.num_envs
        self._measure = make_measure(replace(settings, normalize_obs=False), policy)
        with_obs = settings.normalize_obs and policy.inputs.vector_size > 0
        self._measure_obs = sharded_obs_moments(policy, self.group, Shards(self.group.shards)) if with_obs else None
        if self._components is not None:
            self._components = ShardedTracker.over(self._components, self.group)
        self._reduce = TimedReduce(self.group, policy.num_params)
        self._received = False

    @property
    def all_envs(self) -> int:
        return self.engine.num_envs * self.group.processes

    def program_key(self, name: str) -> Hashable:
        return super().program_key(name), self.group.process_id

    def start(self) -> OnPolicyState:
        state = super().start()
        components = None if self._components is None else self._components.start(self.all_envs)
        return replace(state, reward_carry=np.zeros(self.all_envs, np.float32), components=components)

    def collect_rollout(self, state: OnPolicyState, stats: ObsStats) -> CollectResult:
        """The rollout of this process's environments, and the episodes and rewards of all."""
        collected = super().collect_rollout(state, stats)
        rewards, episodes = gather_rewards(collected.rollout, collected.episodes, self.group)
        return collected._replace(episodes=episodes, env_steps=int(np.size(episodes.ended)), all_rewards=rewards)

    def noise(self, *counters: int) -> tuple[np.ndarray, ...]:
        """Drawn for all environments: each gets the numbers that it would get in one process."""
        shape = (self.collect_steps, self.all_envs)
        drawn = self.policy.heads.noise(self.streams.number("actions", *counters), shape)
        return tuple(own_rows(numbers, self.group, 1) for numbers in drawn)

    def minibatch_order(self, iteration: int, rollout: Rollout) -> Any:
        """The order of rows in every epoch [D, E, R]: every shard brings its part of each minibatch."""
        first, settings = self.group.process_id * self.group.devices, self.on_policy_settings
        streams = [self.streams.number("minibatch-order", iteration, first + d) for d in range(self.group.devices)]
        return np.stack([shuffled_orders(stream, self._shard_rows, settings.update.epochs) for stream in streams])

    @property
    def _shard_rows(self) -> int:
        return self.on_policy_settings.columns * self.on_policy_settings.rollout_steps // self.group.devices

    def _make_update(self) -> Update:
        return make_update(self.policy, self.on_policy_settings.update, self._shard_rows, self._value_only)

    def _shared_update(self) -> Any:
        return sharded_update(self._make_update(), self.group, Shards(self.group.shards))

    def _compile_update_ahead(self, state: OnPolicyState) -> None:
        """All processes compile in step with their first update."""

    def _absorb_rewards(self, state: OnPolicyState, collected: CollectResult) -> ScaledRollout:
        """As with one process, from the rewards of all environments."""
        assert collected.all_rewards is not None
        moments: RolloutMoments | None = None
        if self._measure is not None:
            moments = self._measure(collected.all_rewards, state.reward_carry, self.gamma)
            state = merge_rewards(state, moments)
        if self._measure_obs is not None:
            moments = (moments or RolloutMoments(None, None, state.reward_carry))._replace(
                obs=self._measure_obs(collected.rollout)
            )
        hyper: Hyper = self.hyper(state)
        if self._components is None or state.components is None:
            return ScaledRollout(state, hyper, moments)
        iteration = int(state.counters.iteration)
        components, scales, messages = self._components.absorb(state.components, collected, iteration)
        state = replace(state, components=components)
        return ScaledRollout(state, hyper._replace(components=scales), moments, messages)

    def _find_non_finite(self, rollout: Rollout, metrics: dict[str, float], params: jax.Array) -> str | None:
        if metrics["finite_rollout"] and metrics["finite_parameters"] and not metrics.get("empty_masks"):
            return None
        found = super()._find_non_finite(rollout, metrics, params) or ""
        texts = self.group.texts(found)
        named = [f"process {number}: {text}" for number, text in enumerate(texts) if text]
        return named[0] if named else "a number that is not finite"

    def _recorded_metrics(self, metrics: dict[str, float], hyper: Hyper, collected: CollectResult) -> dict[str, float]:
        recorded = super()._recorded_metrics(metrics, hyper, collected)
        return recorded | {"reduce_seconds": self._reduce.seconds() * max(1, int(metrics["updates"]))}

    def checkpoint_template(self, state: OnPolicyState) -> OnPolicyState:
        """Shapes of all environments; what collection knows of each is filled in by `save`."""
        local = super().checkpoint_template(state)
        grown = jax.tree.map(lambda x: _grown(np.asarray(x), self.group.processes), local.collect_state)
        return replace(local, collect_state=grown)

    def save(self, state: OnPolicyState, shared_folder: Path, scheduled: bool) -> CheckpointParts:
        """Of all environments; every process must call it, the first one writes what comes back."""
        parts = super().save(state, shared_folder, scheduled)
        local = super().checkpoint_template(state).collect_state
        parts.manifest["processes"] = self.group.processes
        files = parts.files
        if ACTIONS in files:  # [S, n, D], with the environments first while they are gathered
            actions = self.group.gather_rows(np.moveaxis(np.stack(files[ACTIONS]), 1, 0))
            files = {**files, ACTIONS: list(np.moveaxis(actions, 0, 1))}
        gathered = replace(parts.state, collect_state=_gather_envs(local, self.group))
        return replace(parts, state=gathered, files=files)

    def load(self, state: OnPolicyState, saved: SavedCheckpoint) -> OnPolicyState:
        """Sends a checkpoint to all processes; each takes its own environments from it."""
        replays = not self.session.resumes_from_state and bool(saved.manifest["replay"])
        actions = load_actions(saved.folder) if replays else []
        self.group.send(_pack({"resumed": True, "replays": replays}, state, actions))
        self._received = True
        return self._take_share(state, replays, actions)

    def share_start(self, state: OnPolicyState) -> OnPolicyState:
        """Sends the state of a fresh run, which may have the parameters of another one, to all processes."""
        if not self._received:
            shared = replace(state, collect_state=self.checkpoint_template(state).collect_state)
            self.group.send(_pack({"resumed": False, "replays": False}, shared, []))
        return state

    def receive_start(self) -> OnPolicyState:
        """The state that the first process has sent, with this process's environments."""
        fresh = self.start()
        template = self.checkpoint_template(fresh)
        about, arrays, actions = _unpack(self.group.send(None), template)
        state: OnPolicyState = jax.tree.map(
            lambda new, old: jnp.asarray(new) if isinstance(old, jax.Array) else new, arrays, template
        )
        if not about["resumed"]:
            return replace(state, collect_state=fresh.collect_state)
        return self._take_share(state, about["replays"], actions)

    def _take_share(self, state: OnPolicyState, replays: bool, actions: list[np.ndarray]) -> OnPolicyState:
        collect_state = jax.tree.map(partial(_own_envs, group=self.group), state.collect_state)
        started = int(state.counters.engine_started)
        if not self.session.resumes_from_state:
            if replays:
                own = [own_rows(action, self.group, 1) for action in actions]
                self.session.actions_since_start = own
                collect_state = self.session.replay(started, own, collect_state)
            else:
                collect_state = self.session.start(started)
        return replace(state, collect_state=collect_state)


class ShardedRecurrentLearner(ShardedLearner, RecurrentLearner):
    """The same for policies with memory: minibatches are made of whole sequences of every shard."""

    @property
    def sequences(self) -> int:
        """Of one shard's rollout."""
        return super().sequences // self.group.devices

    @property
    def _shard_rows(self) -> int:
        return self.sequences

    def _make_update(self) -> Update:
        return RecurrentLearner._make_update(self)


@dataclass(frozen=True)
class ShardedTracker(ComponentTracker):
    """Statistics of components from the rewards of all environments."""

    group: ProcessGroup = field(default_factory=ProcessGroup)

    @classmethod
    def over(cls, tracker: ComponentTracker, group: ProcessGroup) -> ShardedTracker:
        measures = tracker.measure_rewards, tracker.measure_outputs
        return cls(tracker.names, tracker.settings, tracker.gamma, *measures, group)

    def with_success(self, rollout: Rollout, episodes: Episodes) -> Rollout:
        own: Any = [None if column is None else own_rows(column, self.group, 1) for column in episodes]
        return super().with_success(rollout, Episodes(*own))

    def absorb(
        self, stats: ComponentStats, collected: CollectResult, iteration: int
    ) -> tuple[ComponentStats, ComponentScales, tuple[str, ...]]:
        assert collected.all_rewards is not None
        rewards = super().with_success(collected.all_rewards, collected.episodes)
        return super().absorb(stats, collected._replace(rollout=rewards), iteration)


def gather_rewards(rollout: Rollout, episodes: Episodes, group: ProcessGroup) -> tuple[Rollout, Episodes]:
    """(rewards and flags, episodes) [T, N] of the environments of all processes, in one exchange."""
    success: Any = episodes.success
    if success is None:  # other processes may have seen one
        success = np.full(np.shape(episodes.ended), np.nan, np.float32)
    flags = rollout.reward, rollout.terminated, rollout.truncated, rollout.valid
    columns = (flags, (episodes.ended, episodes.returns, episodes.lengths, episodes.components, success))
    first = jax.tree.map(lambda x: np.moveaxis(np.asarray(x), 1, 0), columns)
    flags, (ended, returns, lengths, components, success) = jax.tree.map(
        lambda x: np.moveaxis(x, 0, 1), group.gather_rows(first)
    )
    reported = success if np.isfinite(success).any() else None
    nothing: Any = ()
    rewards = Rollout(nothing, nothing, *flags)
    return rewards, Episodes(ended, returns, lengths, components, reported)


def _grown(x: np.ndarray, times: int) -> np.ndarray:
    """Zeros with `times` as many environments; a number that is not of environments stays."""
    return x if x.ndim == 0 else np.zeros((x.shape[0] * times, *x.shape[1:]), x.dtype)


def _own_envs(x: Any, group: ProcessGroup) -> Any:
    return x if np.ndim(x) == 0 else own_rows(x, group)


def _gather_envs(tree: Any, group: ProcessGroup) -> Any:
    """Arrays [n, ...] as those of all processes; numbers that are not of environments stay."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in leaves]
    gathered = iter(group.gather_rows([array for array in arrays if array.ndim]))
    return jax.tree.unflatten(structure, [next(gathered) if array.ndim else array for array in arrays])


def _pack(about: dict[str, Any], state: Any, actions: list[np.ndarray]) -> bytes:
    """What processes need to begin, as plain arrays."""
    arrays = {f"state-{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(state))}
    arrays |= {f"actions-{number}": action for number, action in enumerate(actions)}
    content = json.dumps({**about, "actions": len(actions)}).encode()
    buffer = io.BytesIO()
    np.savez(buffer, about=np.frombuffer(content, np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(content: bytes, template: Any) -> tuple[dict[str, Any], Any, list[np.ndarray]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        leaves = [arrays[f"state-{number}"] for number in range(len(jax.tree.leaves(template)))]
        actions = [arrays[f"actions-{number}"] for number in range(about["actions"])]
    scalars = [leaf[()] if leaf.ndim == 0 else leaf for leaf in leaves]
    return about, jax.tree.unflatten(jax.tree.structure(template), scalars), actions
