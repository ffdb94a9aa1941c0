"""A trained policy to call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from batchwright.config.schema import DATASET, RECORDED
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.core.trust import check_trust
from batchwright.envs import spaces
from batchwright.envs.agent_groups import AgentLayout
from batchwright.envs.engines import make_engine
from batchwright.envs.engines.host_arrays import native_tree
from batchwright.envs.masks import flat_mask, refuse_empty
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.nets.entry_moments import EntryMoments
from batchwright.nets.grouped_policy import GroupedPolicy
from batchwright.nets.normalise import ObsStats, RunningMoments
from batchwright.nets.policy import NetworkMaker, Policy
from batchwright.planning.component_plan import component_names
from batchwright.planning.plan import Plan
from batchwright.regimes import make_trained_policy
from batchwright.runs.checkpoint_choice import LAST, Checkpoint, load_checkpoint
from batchwright.runs.evaluation import Evaluator
from batchwright.runs.launch import open_run
from batchwright.runs.run_settings import RunSettings

PARAMS = ".train.params"
"""Where every learner's checkpoint keeps the parameters of the policy that acts."""


class TrainedPolicy:
    """Call it with one observation of the environment; it gives the environment's own kind of action.

    A policy with memory remembers the observations of its calls: call `reset` before every episode. Where an
    environment has several agents, call it with one agent's observation, or with a dict of them by agent.
    """

    def __init__(
        self,
        plan: Plan,
        env: str,
        policy: Policy,
        params: np.ndarray,
        stats: ObsStats,
        iteration: int,
        layout: AgentLayout | None = None,
    ) -> None:
        self.plan, self.env, self.iteration, self.layout = plan, env, iteration, layout
        self.policy, self.params, self.stats = policy, jnp.asarray(params), stats
        self._calls = 0
        self.groups: dict[str, TrainedPolicy] = {}
        """The policy of each group of agents, by name; empty where there is one."""
        self.group: str | None = None
        """Of agents that this policy is for, where there are several."""
        if isinstance(policy, GroupedPolicy):
            self.groups = {name: self._of_group(policy, name) for name in policy.groups}
        self.reset()

        @jax.jit
        def act(params: jax.Array, obs: Any, noise: Any, mask: Any, memory: Any) -> tuple[Any, Any]:
            out, memory = policy.step(params, policy.preprocess(obs, stats), memory)
            return policy.to_env(policy.heads.sample(out.params, out.raw, noise, mask)), memory

        self._act = act

    def _of_group(self, policy: GroupedPolicy, name: str) -> TrainedPolicy:
        own = policy.groups[name]
        stats = policy.stats_of(self.stats, name)
        params = np.asarray(policy.params_of(self.params, name))
        found = TrainedPolicy(self.plan, self.env, own, params, stats, self.iteration)
        found.group = name
        return found

    def reset(self, episodes: int = 1) -> None:
        """Forgets what the policy remembers, because episodes begin; nothing where it has no memory.

        `episodes` are those side by side in `act_stored`.
        """
        self._memory = self.policy.initial_memory(episodes)
        self._memories = dict.fromkeys(self.agents, self._memory)

    @property
    def agents(self) -> tuple[str, ...]:
        """Agents of the environment; empty where it has one."""
        return () if self.layout is None else self.layout.names

    def __call__(self, obs: Any, deterministic: bool = True, mask: Any = None) -> Any:
        """The action for one observation; sampled where `deterministic` is False.

        `mask` is what may be done, as the environment gives it in `info["action_mask"]`. A dict of observations by
        agent gives a dict of actions; `mask` is then a dict by agent, too.
        """
        if self.layout is None:
            return self._act_one(obs, deterministic, mask)
        if isinstance(obs, Mapping) and all(str(agent) in self.layout.names for agent in obs):
            return {agent: self._act_for(agent, obs[agent], deterministic, (mask or {}).get(agent)) for agent in obs}
        if self._memory is not None or self.groups:
            why = "is several, by group of agents" if self.groups else "remembers what each of its agents observed"
            raise UserError(
                f"the policy of {self.env} {why}: a call must say which agent it is for.",
                ["policy({agent: observation, ...}), with the agents that are there"],
            )
        return self._act_one(*self._split(0, obs, deterministic, mask))

    def _act_for(self, agent: Any, obs: Any, deterministic: bool, mask: Any) -> Any:
        """The action of one agent, by the policy of its group and with its own memory."""
        assert self.layout is not None
        group = self.layout.group_of(str(agent))
        policy = self.groups.get(self.layout.groups[group].name, self)
        policy._memory = self._memories[str(agent)]
        action = policy._act_one(*self._split(group, obs, deterministic, mask))
        self._memories[str(agent)] = policy._memory
        return action

    def _split(self, group: int, obs: Any, deterministic: bool, mask: Any) -> tuple[Any, bool, Any]:
        """Observation and mask, which an agent may be given as one."""
        assert self.layout is not None
        obs, mask = self.layout.groups[group].split_mask(obs, mask)
        return obs, deterministic, mask

    def _act_one(self, obs: Any, deterministic: bool, mask: Any) -> Any:
        heads = self.policy.heads
        noise = heads.no_noise((1,)) if deterministic else heads.noise(self._calls, (1,))
        self._calls += not deterministic
        one = jax.tree.map(lambda x: np.asarray(x)[None], self._stored(obs))
        action, self._memory = self._act(self.params, one, noise, self._row(mask), self._memory)
        return jax.tree.map(lambda x: x[0], native_tree(heads.spec, action))

    def act_stored(self, obs: Any) -> Any:
        """The most likely actions for observations [B, ...] as an engine gives them, as an engine takes them."""
        noise = self.policy.heads.no_noise((len(jax.tree.leaves(obs)[0]),))
        action, self._memory = self._act(self.params, obs, noise, None, self._memory)
        return jax.tree.map(np.asarray, action)

    def _row(self, mask: Any) -> Any:
        if mask is None:
            return None
        row = flat_mask(self.policy.heads.spec, mask, self.env)[None]
        refuse_empty(self.policy.heads.spec, row, self.env)
        return row

    def _stored(self, obs: Any) -> Any:
        spec = self.policy.inputs.spec
        leaves = [
            np.asarray(spaces.value_at(obs, path)).astype(spaces.stored_dtype(leaf)) - _start(leaf)
            for path, leaf in spaces.leaves(spec)
        ]
        return spaces.unflatten(spec, leaves)

    def evaluate(self, episodes: int = 20, seed: int = 0, deterministic: bool = True) -> dict[str, Any]:
        """{"episodes", "mean", "median", "iqr", "iqm", "returns", ...} of whole episodes in fresh environments."""
        settings = RunSettings.from_plan(self.plan)
        limits = (settings.eval_max_steps, None, settings.step_timeout)
        more = (None, settings.agent_groups)
        evaluator = Evaluator.with_own_engine(self.env, self.plan["engine"], self.policy, episodes, *limits, *more)
        try:
            return evaluator(self.params, self.stats, seed, deterministic).summary()
        finally:
            evaluator.close()


def _start(leaf: spaces.Leaf) -> Any:
    return np.asarray(leaf.start or 0, np.int32) if isinstance(leaf, spaces.Discrete | spaces.MultiDiscrete) else 0


def load(
    run: str | Path,
    network: NetworkMaker | None = None,
    trust: bool = False,
    on_warning: Callable[[str], None] | None = None,
    checkpoint: Checkpoint = LAST,
) -> TrainedPolicy:
    """The policy of one checkpoint of a run, the last good one by default, normalisers included; runs no code of it.

    The environment that the run names is made. Where it is code of its own, and the run was not made here by this user,
    that needs `trust`. `on_warning` hears of damaged checkpoints; a Python warning is raised where there is none.
    """
    directory, resolved, plan = open_run(run)
    if plan.regime == RECORDED:
        raise UserError(f"{directory} is the run of a reward model, not of a policy.", ["batchwright.load_reward(run)"])
    if plan.regime == DATASET:
        path = directory.checkpoints / "last" / "pretrained_model"
        raise UserError(f"{directory} holds a policy of LeRobot.", [f"lerobot-eval --policy.path={path}"])
    env = str(resolved.config.task.env)
    check_trust(directory, env, trust)
    warn = on_warning or (lambda text: warnings.warn(text, stacklevel=4))
    arrays, manifest = load_checkpoint(directory, checkpoint, warn)
    options: Any = {"agent_groups": RunSettings.from_plan(plan).agent_groups}
    engine = make_engine(env, 1, plan["engine"], components=component_names(plan) or NO_COMPONENTS, **options)
    policy, layout = make_trained_policy(plan, engine, network), engine.layout
    engine.close()
    count, mean, squares, params = _checked(directory, arrays, policy)
    moments = EntryMoments(count, mean, squares) if count.ndim else RunningMoments(np.float64(count), mean, squares)
    stats = moments.obs_stats(plan["normalize_obs"])
    return TrainedPolicy(plan, env, policy, params, stats, manifest["iteration"], layout)


def _checked(run: RunDir, arrays: dict[str, np.ndarray], policy: Policy) -> list[np.ndarray]:
    """The arrays of a checkpoint that a policy needs; refused where one is missing or cannot be that policy's."""
    size = (policy.inputs.vector_size,)
    params = policy.init(jax.random.key(0)).shape
    counts = size if isinstance(policy, GroupedPolicy) else ()
    wanted: dict[str, tuple[int, ...]] = {".obs.count": counts, ".obs.mean": size, ".obs.squares": size, PARAMS: params}
    for name, shape in wanted.items():
        found = arrays.get(name)
        if found is None or found.dtype.kind != "f" or found.shape != shape:
            what = "is missing" if found is None else f"is {found.dtype} {found.shape}, not float {shape}"
            raise UserError(
                f"the checkpoint of {run} does not fit its plan: {name} {what}.", ["train anew in another --run-dir"]
            )
    return [arrays[name] for name in wanted]
