"""The plan of an on-policy run as typed settings, read once when the learner is built."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.on_policy.on_policy_state import Hyper
from batchwright.on_policy.shards import Shards
from batchwright.planning.component_plan import SUCCESS, component_names, component_target, component_weights
from batchwright.planning.episode_plan import EpisodeCut, episode_cut
from batchwright.planning.network_plan import OWN_NETWORK, hidden_sizes
from batchwright.planning.plan import Plan
from batchwright.runs.run_settings import RunSettings

NO_FLOOR_NATS = -1e9


@dataclass(frozen=True)
class UpdateSettings:
    """What is compiled into the update; every other number is an array of `Hyper`."""

    algo: str
    minibatches: int
    epochs: int
    advantage_norm: str = "rollout"
    """`rollout`, `minibatch` or `none`."""
    baseline: bool = True
    value_clipping: bool = False
    kl_stop: bool = False
    kl_adaptive: bool = False
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_eps: float = 1e-5
    components: tuple[str, ...] = ()
    """Names of the reward's components; empty where the reward is one number."""
    learned_weighting: bool = False
    success_head: bool = False
    """Whether the success signal has a value head, after those of the components."""
    entropy_by_kind: bool = False
    """Whether discrete and continuous heads have entropy weights or floors of their own."""
    agents: bool = False
    """Whether rows are agents, of which some may not be there."""
    shards: Shards | None = None
    """Where rollouts are spread over devices; None where one device has all of them."""


@dataclass(frozen=True)
class MemorySettings:
    """The memory of a policy, and the sequences that it learns from."""

    kind: str
    """`gru` or `lstm`."""
    size: int
    """Units."""
    seq_length: int


@dataclass(frozen=True)
class NetworkSettings:
    """The policy network."""

    hidden: tuple[int, ...]
    """Empty where the network is convolutional or passed in."""
    activation: str
    log_std_start: float
    passed_in: bool
    """Whether the caller brings the network."""
    memory: MemorySettings | None = None


@dataclass(frozen=True)
class ComponentSettings:
    """How reward components are scaled and weighed."""

    norm: str
    """`none`, `scale`, `adaptive`, `z-score` or `min-max`: the first tier of balancing."""
    balance: bool
    """Whether components are balanced; else they keep the units of the environment's reward."""
    weighting: str
    """`fixed` or `learned`."""
    weights: tuple[float, ...]
    target: str
    """What learned weights serve: `total`, `success` or a component; empty where weights are fixed."""


@dataclass(frozen=True)
class Schedule:
    """Start, end and shape of the numbers that move over a run."""

    learning_rate: float
    learning_rate_schedule: str
    clip_range: float
    clip_schedule: str
    entropy_start: float
    entropy_end: float
    entropy_anneal: float
    """The coefficient moves over this last share of the run."""
    entropy_episodes: int | None
    """Where stated, the coefficient moves over so many finished episodes from the start instead."""


@dataclass(frozen=True)
class OnPolicySettings:
    """Everything that an on-policy learner reads from its plan."""

    run: RunSettings
    update: UpdateSettings
    network: NetworkSettings
    schedule: Schedule
    constants: Hyper
    """Hyper-parameters as planned; the schedule and the running statistics replace some of them."""
    num_envs: int
    """Environments that run: no more than a rollout has episodes."""
    columns: int
    """Trajectories side by side in a rollout: environments, their agents, or whole episodes."""
    rollout_steps: int
    rollout_episodes: int | None
    """Whole episodes per rollout; None for rollouts of steps."""
    episode_cut: EpisodeCut | None
    engine: str
    num_threads: int | None
    normalize_obs: bool
    normalize_rewards: bool
    popart: bool
    value_clip: float
    """In units of the return's standard deviation; 0 is off."""
    keeps_targets: bool
    """Whether running moments of the value targets are needed."""
    components: ComponentSettings | None

    @classmethod
    def from_plan(cls, plan: Plan) -> OnPolicySettings:
        names = component_names(plan)
        episodes = plan.get("rollout_episodes")
        return cls(
            run=RunSettings.from_plan(plan),
            update=_update_settings(plan, names),
            network=_network_settings(plan),
            schedule=_schedule(plan),
            constants=_constants(plan),
            num_envs=plan["num_envs"] if episodes is None else min(plan["num_envs"], episodes),
            columns=plan["num_envs"] * plan.get("num_agents", 1) if episodes is None else episodes,
            rollout_steps=plan.get("rollout_steps") or 0,
            rollout_episodes=episodes,
            episode_cut=None if episodes is None else episode_cut(plan.quantities),
            engine=plan["engine"],
            num_threads=plan.get("num_threads"),
            normalize_obs=plan["normalize_obs"],
            normalize_rewards=plan["normalize_rewards"],
            popart=plan["popart"],
            value_clip=plan["value_clip"],
            keeps_targets=plan["popart"] or plan["value_clip"] > 0,
            components=_component_settings(plan) if names else None,
        )


def _update_settings(plan: Plan, names: tuple[str, ...]) -> UpdateSettings:
    weights = ("entropy_weight_discrete", "entropy_weight_continuous")
    floors = ("entropy_floor_discrete", "entropy_floor_continuous")
    return UpdateSettings(
        algo=plan.algo,
        minibatches=plan["minibatches"] or 1,
        epochs=plan["epochs"],
        advantage_norm=plan["advantage_norm"],
        baseline=plan["baseline"],
        value_clipping=plan["value_clip"] > 0,
        kl_stop=plan["kl_stop"] > 0,
        kl_adaptive=plan["learning_rate_schedule"] == "kl-adaptive",
        adam_beta2=plan["adam_beta2"],
        adam_eps=plan["adam_eps"],
        components=names,
        learned_weighting=plan.get("component_weighting") == "learned",
        success_head=component_target(plan) == SUCCESS,
        entropy_by_kind=any(plan.get(name, 1.0) != 1.0 for name in weights)
        or any(plan.get(name) is not None for name in floors),
        agents="num_agents" in plan.quantities,
    )


def _schedule(plan: Plan) -> Schedule:
    return Schedule(
        learning_rate=plan["learning_rate"],
        learning_rate_schedule=plan["learning_rate_schedule"],
        clip_range=plan.get("clip_range", 0.2),
        clip_schedule=plan.get("clip_schedule", "constant"),
        entropy_start=plan["entropy_start"],
        entropy_end=plan["entropy_end"],
        entropy_anneal=plan.get("entropy_anneal") or 0.0,
        entropy_episodes=plan.get("entropy_episodes"),
    )


def _constants(plan: Plan) -> Hyper:
    return Hyper(
        learning_rate=plan["learning_rate"],
        gamma=plan["gamma"],
        gae_lambda=plan["gae_lambda"],
        clip_range=plan.get("clip_range", 0.2),
        entropy_coef=plan["entropy_start"],
        value_weight=plan["value_weight"],
        max_grad_norm=plan["max_grad_norm"],
        weight_decay=plan["weight_decay"],
        value_rate_factor=plan["value_rate_factor"],
        kl_stop=plan["kl_stop"],
        kl_target=plan.get("kl_target", 0.0),
        value_clip=plan["value_clip"],
        reward_scale=1.0,
        warmup_updates=plan["warmup_updates"],
        entropy_weight_discrete=plan.get("entropy_weight_discrete", 1.0),
        entropy_weight_continuous=plan.get("entropy_weight_continuous", 1.0),
        entropy_floor_discrete=plan.get("entropy_floor_discrete", NO_FLOOR_NATS),
        entropy_floor_continuous=plan.get("entropy_floor_continuous", NO_FLOOR_NATS),
        entropy_floor_weight=plan.get("entropy_floor_weight", 0.0),
    )


def _network_settings(plan: Plan) -> NetworkSettings:
    return NetworkSettings(
        hidden=hidden_sizes(plan) or (),
        activation=plan.get("activation", "tanh"),
        log_std_start=plan["log_std_start"],
        passed_in=plan["hidden"] == OWN_NETWORK,
        memory=_memory_settings(plan),
    )


def _memory_settings(plan: Plan) -> MemorySettings | None:
    kind = plan.get("memory")
    return None if kind is None else MemorySettings(kind, plan["memory_size"], plan["seq_length"])


def _component_settings(plan: Plan) -> ComponentSettings:
    return ComponentSettings(
        norm=plan.get("component_norm", "scale"),
        balance=plan["component_balance"],
        weighting=plan["component_weighting"],
        weights=component_weights(plan),
        target=component_target(plan),
    )
