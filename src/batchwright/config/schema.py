"""Every wish a user can state, as frozen dataclasses; None means "not stated: the planner decides".

The name of a field is the key in YAML and, with dashes, the flag on the command line. A field's metadata holds its
help, its bounds and the regimes it belongs to, so that flags, YAML and error messages read one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

ON_POLICY_ALGOS = ("ppo", "a2c", "reinforce")
REPLAY_ALGOS = ("sac", "dqn")
ALGOS = ON_POLICY_ALGOS + REPLAY_ALGOS
POLICIES = ("act", "smolvla")
HOLDS = ("transitions-per-update", "reuse", "total-steps")
TRAINERS = ("rl_games", "sb3", "lerobot")
REDISTRIBUTIONS = ("rrd", "rrd-unbiased", "ircr", "full")

COMPONENT_NORMS = ("none", "scale", "z-score", "min-max", "adaptive")

ENGINE_CHOICES = (
    "auto",
    "jax",
    "envpool",
    "envpool-host",
    "gymnasium",
    "gymnasium-vector",
    "gymnasium-sync",
    "gymnasium-async",
    "gymnasium-split",
)

ON_POLICY, REPLAY, DATASET, RECORDED = "on-policy", "replay", "dataset", "recorded"
REGIMES = (ON_POLICY, REPLAY, DATASET)

# Far beyond any real run, and small enough that products of two stay exact in a float.
LARGEST_COUNT = 10**12


def wish(
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    regimes: tuple[str, ...] = REGIMES,
    unit: str = "",
) -> Any:
    """A field that may be left unstated; bounds are inclusive."""
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "regimes": regimes, "unit": unit}
    return field(default=None, metadata=metadata)


def count(help: str, unit: str, regimes: tuple[str, ...], low: int = 1, high: int = LARGEST_COUNT) -> Any:
    """A whole number of things."""
    return wish(help, low=low, high=high, unit=unit, regimes=regimes)


BOTH_RL = (ON_POLICY, REPLAY)
BOTH_RRD = (REPLAY, RECORDED)


@dataclass(frozen=True)
class Task:
    """What is trained, by which method."""

    env: str | None = wish("environment by name: a Gymnasium id, an EnvPool id, one of our own, or file.py:factory")
    algo: str | None = wish("algorithm; ppo when not stated", choices=ALGOS, regimes=BOTH_RL)
    policy: str | None = wish("policy trained on recorded data (the dataset regime)", choices=POLICIES)
    obs_shape: tuple[int, ...] | None = wish(
        "shape of one observation when no environment is named, e.g. 17 or 256,256,3",
        low=1,
        high=10**6,
        regimes=BOTH_RL,
    )
    obs_dtype: str | None = wish(
        "stored type of an observation", choices=("float32", "float16", "uint8"), regimes=BOTH_RL
    )
    action_size: int | None = count("action dimensions when no environment is named", "dimensions", BOTH_RL, high=10**6)
    action_kind: str | None = wish(
        "kind of actions when no environment is named", choices=("discrete", "continuous"), regimes=BOTH_RL
    )
    episode_steps: int | None = count("steps of one episode when the environment does not tell", "steps", BOTH_RL)


@dataclass(frozen=True)
class Experience:
    """How much is gathered between updates, and how it is cut."""

    num_envs: int | None = count("environments stepped side by side", "envs", BOTH_RL, high=10**8)
    rollout_steps: int | None = count("steps of each environment per iteration", "steps", BOTH_RL, high=10**9)
    rollout_episodes: int | None = count("whole episodes per rollout, instead of steps", "episodes", (ON_POLICY,))
    num_agents: int | None = count("agents in each environment", "agents", (ON_POLICY,), high=10**6)
    minibatch_transitions: int | None = count(
        "transitions one update sees; more than the rollout means the full rollout", "transitions", (ON_POLICY,)
    )
    minibatches: int | None = count("minibatches per epoch, instead of their size", "minibatches", (ON_POLICY,))
    epochs: int | None = count("passes over each rollout", "epochs", (ON_POLICY,), high=10**6)
    seq_length: int | None = count("steps of one recurrent sequence; sequences are never cut", "steps", (ON_POLICY,))
    total_steps: int | None = count("environment steps of the whole run", "steps", BOTH_RL)
    total_episodes: int | None = count("episodes of the whole run, with rollout-episodes", "episodes", (ON_POLICY,))
    hold: str | None = wish(
        "keep this quantity as it was (preset, file or default) while other numbers change",
        choices=HOLDS,
        regimes=BOTH_RL,
    )


@dataclass(frozen=True)
class Replay:
    """The numbers of replay training and of return decomposition."""

    updates_per_iteration: int | None = count("updates of one iteration", "updates", BOTH_RRD, high=10**9)
    transitions_per_update: int | None = count("transitions one update draws", "transitions", (REPLAY,), high=10**9)
    episodic_reward: bool | None = wish("show no reward until an episode ends, then its sum", regimes=(REPLAY,))
    redistribute: str | None = wish(
        "how rewards are made of episode returns: random timesteps (rrd), without its variance term (rrd-unbiased), "
        "all timesteps (full), or the return itself as guidance (ircr)",
        choices=REDISTRIBUTIONS,
        regimes=BOTH_RRD,
    )
    reward_learning_rate: float | None = wish(
        "step size of the reward network", low=1e-12, high=10.0, regimes=(REPLAY,)
    )
    rrd_timesteps_per_update: int | None = count(
        "timesteps over all subsequences of one reward update", "timesteps", BOTH_RRD, high=10**9
    )
    subsequence_timesteps: int | None = count(
        "random timesteps drawn from one episode", "timesteps", BOTH_RRD, high=10**9
    )
    replay_transitions: int | None = count("capacity of the replay buffer", "transitions", (REPLAY,))
    warmup_steps: int | None = count("random steps before the first update", "steps", (REPLAY,), low=0)
    store_next_obs: bool | None = wish(
        "store next observations apart instead of sharing frames between neighbours", regimes=(REPLAY,)
    )
    stacked_frames: int | None = count(
        "frames that an observation stacks along its first axis, newest last; each is stored once",
        "frames",
        (REPLAY,),
        high=128,
    )
    replay_on: str | None = wish("where the buffer lies", choices=("device", "host"), regimes=(REPLAY,))
    polyak: float | None = wish(
        "how far the target moves to the online network at a time; 1 copies it", low=0.0, high=1.0, regimes=(REPLAY,)
    )
    updates_per_target: int | None = count("updates between two moves of the target", "updates", (REPLAY,), high=10**9)
    learn_temperature: bool | None = wish("adapt sac's temperature to the target entropy", regimes=(REPLAY,))
    temperature_start: float | None = wish("sac's first temperature", low=1e-9, high=1e6, regimes=(REPLAY,))
    target_entropy: float | None = wish(
        "entropy per action dimension that sac's temperature aims at, actions on the scale -1..1",
        low=-100.0,
        high=100.0,
        regimes=(REPLAY,),
    )
    epsilon_start: float | None = wish("dqn's chance of a random action at first", low=0.0, high=1.0, regimes=(REPLAY,))
    epsilon_end: float | None = wish("dqn's chance of a random action later", low=0.0, high=1.0, regimes=(REPLAY,))
    huber_limit: float | None = wish("error from which dqn's loss grows linearly", low=1e-6, regimes=(REPLAY,))
    epsilon_share: float | None = wish(
        "share of the run over which dqn's chance moves from start to end", low=0.0, high=1.0, regimes=(REPLAY,)
    )


@dataclass(frozen=True)
class Learning:
    """The numbers of the objective and of the optimiser."""

    learning_rate: float | None = wish("step size of the optimiser", low=1e-12, high=10.0, regimes=(*REGIMES, RECORDED))
    learning_rate_schedule: str | None = wish(
        "how the learning rate moves over the run",
        choices=("constant", "linear", "cosine", "kl-adaptive"),
        regimes=BOTH_RL,
    )
    warmup_updates: int | None = count("updates over which the learning rate rises from 0", "updates", BOTH_RL, low=0)
    scale_learning_rate: bool | None = wish(
        "scale the learning rate with the minibatch against the preset's, up to 4x", regimes=(ON_POLICY,)
    )
    gamma: float | None = wish("discount of future reward", low=0.0, high=1.0, regimes=BOTH_RL)
    gae_lambda: float | None = wish(
        "how far advantages look past the next value: 0 one step, 1 the whole return",
        low=0.0,
        high=1.0,
        regimes=(ON_POLICY,),
    )
    clip_range: float | None = wish(
        "how far the ratio may move before PPO ignores it", low=0.0, high=10.0, regimes=(ON_POLICY,)
    )
    clip_schedule: str | None = wish(
        "how the clip range moves over the run", choices=("constant", "linear"), regimes=(ON_POLICY,)
    )
    entropy_start: float | None = wish("entropy bonus at the start", low=0.0, high=100.0, regimes=(ON_POLICY,))
    entropy_end: float | None = wish(
        "entropy bonus at the end of its anneal; below 0 it sharpens the policy",
        low=-1.0,
        high=100.0,
        regimes=(ON_POLICY,),
    )
    entropy_anneal: float | None = wish(
        "share of the run, at its end, over which the bonus moves from start to end",
        low=0.0,
        high=1.0,
        regimes=(ON_POLICY,),
    )
    entropy_episodes: int | None = count(
        "episodes, from the first, over which the bonus moves from start to end, instead of a share of the run",
        "episodes",
        (ON_POLICY,),
    )
    entropy_weight_discrete: float | None = wish(
        "weight of the entropy of choices and bits in the bonus", low=0.0, high=100.0, regimes=(ON_POLICY,)
    )
    entropy_weight_continuous: float | None = wish(
        "weight of the entropy of boxes in the bonus", low=0.0, high=100.0, regimes=(ON_POLICY,)
    )
    entropy_floor_discrete: float | None = wish(
        "nats per choice or bit below which entropy is penalised", low=0.0, high=20.0, regimes=(ON_POLICY,)
    )
    entropy_floor_continuous: float | None = wish(
        "nats per box dimension below which entropy is penalised", low=-5.0, high=5.0, regimes=(ON_POLICY,)
    )
    entropy_floor_weight: float | None = wish(
        "penalty for every nat below a floor", low=0.0, high=100.0, regimes=(ON_POLICY,)
    )
    value_weight: float | None = wish("weight of the value loss", low=0.0, high=1e6, regimes=(ON_POLICY,))
    value_rate_factor: float | None = wish(
        "learning rate of the critic as a multiple of the actor's", low=0.0, high=1e3, regimes=(ON_POLICY,)
    )
    value_clip: float | None = wish(
        "clips value changes, in units of the return's spread; 0 is off", low=0.0, high=1e6, regimes=(ON_POLICY,)
    )
    advantage_norm: str | None = wish(
        "over what advantages are normalised", choices=("rollout", "minibatch", "none"), regimes=(ON_POLICY,)
    )
    baseline: bool | None = wish("subtract the value from the return", regimes=(ON_POLICY,))
    normalize_obs: bool | None = wish("centre and scale observations by running statistics", regimes=BOTH_RL)
    normalize_rewards: bool | None = wish("divide rewards by the running spread of the return", regimes=(ON_POLICY,))
    popart: bool | None = wish("normalise value targets and keep the outputs (PopArt)", regimes=(ON_POLICY,))
    kl_stop: float | None = wish(
        "nats of KL at which the updates of a rollout stop; 0 is off", low=0.0, high=1e3, regimes=(ON_POLICY,)
    )
    kl_target: float | None = wish(
        "nats of KL that the kl-adaptive schedule aims at", low=1e-9, high=1e3, regimes=(ON_POLICY,)
    )
    max_grad_norm: float | None = wish("global norm that gradients are clipped to", low=1e-9, high=1e9)
    weight_decay: float | None = wish(
        "L2 pull of the parameters towards 0", low=0.0, high=1.0, regimes=(ON_POLICY, RECORDED)
    )
    adam_beta2: float | None = wish("memory of Adam's second moment", low=0.0, high=0.999999, regimes=BOTH_RL)
    adam_eps: float | None = wish("Adam's guard against division by 0", low=1e-16, high=1.0, regimes=BOTH_RL)
    hidden: tuple[int, ...] | None = wish(
        "units of the hidden layers, e.g. 64,64", low=1, high=65536, regimes=(*BOTH_RL, RECORDED)
    )
    activation: str | None = wish("activation of the hidden layers", choices=("tanh", "relu", "elu"), regimes=BOTH_RL)
    log_std_start: float | None = wish(
        "log of the first standard deviation of box actions, in units of half their range",
        low=-5.0,
        high=2.0,
        regimes=(ON_POLICY,),
    )


@dataclass(frozen=True)
class Rewards:
    """Rewards of several named components."""

    components: tuple[str, ...] | None = wish(
        "reward components to train on: names of a vector reward, or keys of info; none for the plain sum",
        regimes=(ON_POLICY,),
    )
    component_weights: tuple[str, ...] | None = wish(
        "weight of each component, in order or as NAME=X", regimes=(ON_POLICY,)
    )
    component_norm: str | None = wish("how each component is normalised", choices=COMPONENT_NORMS, regimes=(ON_POLICY,))
    component_balance: bool | None = wish(
        "bring normalised components to one another's spread, by at most a factor of 10", regimes=(ON_POLICY,)
    )
    component_weighting: str | None = wish(
        "whether the weights of components are learned on the way", choices=("fixed", "learned"), regimes=(ON_POLICY,)
    )


@dataclass(frozen=True)
class Dataset:
    """The numbers of training on recorded data."""

    samples_per_step: int | None = count(
        "samples in memory at once (the micro-batch)", "samples", (DATASET,), high=10**6
    )
    accumulation: int | None = count("micro-batches per update", "micro-batches", (DATASET,), high=10**6)
    samples_per_update: int | None = count("samples one update sees", "samples", (DATASET,), high=10**9)
    workers: int | None = count("processes that load data", "processes", (DATASET,), low=0, high=4096)
    precision: str | None = wish("number format of activations", choices=("fp32", "bf16"), regimes=(DATASET,))
    gradient_checkpointing: bool | None = wish("recompute activations instead of keeping them", regimes=(DATASET,))
    cameras: int | None = count("cameras per sample", "cameras", (DATASET,), high=64)
    image_size: int | None = count("pixels along one side of an image", "pixels", (DATASET,), low=16, high=8192)
    datasets: int | None = count("datasets mixed in one run", "datasets", (DATASET,), high=10_000)
    dataset: str | None = wish("dataset name or folder, for the printed command", regimes=(DATASET,))
    total_updates: int | None = count("optimiser updates of the whole run", "updates", (DATASET, RECORDED))
    sample_mb: float | None = wish("measured memory of one sample in MB", low=1e-3, high=1e6, regimes=(DATASET,))
    fixed_mb: float | None = wish("measured memory of the fixed part in MB", low=0.0, high=1e7, regimes=(DATASET,))


@dataclass(frozen=True)
class Recorded:
    """Which recorded episodes a reward model learns from, and how."""

    data: str | None = wish(
        "recorded episodes: LIBERO HDF5 files, a Minari dataset or its id, or a LeRobot dataset", regimes=(RECORDED,)
    )
    obs_keys: str | None = wish(
        "observations to learn from, joined by commas; all when not stated", regimes=(RECORDED,)
    )
    action_key: str | None = wish("the recorded action, by its key", regimes=(RECORDED,))
    reward_key: str | None = wish("the recorded reward of a step, by its key; summed to returns", regimes=(RECORDED,))
    success_key: str | None = wish(
        "a flag per step, by its key: the return is 1 where any is set, else 0", regimes=(RECORDED,)
    )
    returns: str | None = wish("JSON or CSV file with the return of every episode", regimes=(RECORDED,))
    recorded_episodes: int | None = count(
        "read at most so many episodes, drawn by the seed", "episodes", (RECORDED,), low=2
    )
    held_out: float | None = wish(
        "share of the episodes that is not learned from, to measure the fit", low=0.0, high=0.9, regimes=(RECORDED,)
    )
    frames_on_disk: bool | None = wish(
        "keep what was read in memory-mapped files of the run directory instead of RAM", regimes=(RECORDED,)
    )
    allow_constant_returns: bool | None = wish(
        "train although all returns are the same, which teaches nothing", regimes=(RECORDED,)
    )


@dataclass(frozen=True)
class Hardware:
    """The machine planned for, where it is not this one."""

    cores: int | None = count("usable cores, instead of those of this machine", "cores", REGIMES, high=65536)
    ram_gb: float | None = wish(
        "RAM in GiB, instead of this machine's", low=0.01, high=1e6, regimes=(*REGIMES, RECORDED)
    )
    gpu_memory_gb: float | None = wish("memory of the GPU in GiB, instead of this machine's", low=0.1, high=1e5)


@dataclass(frozen=True)
class Running:
    """How a run is run: engine, seed, evaluation, checkpoints."""

    seed: int | None = count(
        "where every random stream of the run begins", "", (*BOTH_RL, RECORDED), low=0, high=2**31 - 1
    )
    engine: str | None = wish("what steps the environments; auto measures", choices=ENGINE_CHOICES, regimes=BOTH_RL)
    num_threads: int | None = count(
        "threads of EnvPool, processes of Gymnasium; results do not depend on it", "threads", BOTH_RL, high=4096
    )
    learner_threads: int | None = count(
        "threads of the compiled update on a CPU; the last digits depend on it", "threads", BOTH_RL, high=4096
    )
    eval_every: int | None = count(
        "iterations between evaluations; 0 only at the end", "iterations", (*BOTH_RL, RECORDED), low=0
    )
    eval_episodes: int | None = count("episodes of one evaluation", "episodes", BOTH_RL, high=100_000)
    eval_threshold: float | None = wish(
        "training return below which no evaluation is made", low=-1e12, high=1e12, regimes=BOTH_RL
    )
    stop_return: float | None = wish(
        "stop when the mean return of the last 100 training episodes reaches this",
        low=-1e12,
        high=1e12,
        regimes=BOTH_RL,
    )
    checkpoint_every: int | None = count("iterations between checkpoints", "iterations", (*BOTH_RL, RECORDED))
    doctor: str | None = wish(
        "what the doctor does while training: nothing, say what is wrong, or act on it",
        choices=("off", "say", "act"),
        regimes=BOTH_RL,
    )


@dataclass(frozen=True)
class Config:
    """All wishes of one run."""

    task: Task = field(default_factory=Task)
    experience: Experience = field(default_factory=Experience)
    replay: Replay = field(default_factory=Replay)
    learning: Learning = field(default_factory=Learning)
    rewards: Rewards = field(default_factory=Rewards)
    dataset: Dataset = field(default_factory=Dataset)
    recorded: Recorded = field(default_factory=Recorded)
    hardware: Hardware = field(default_factory=Hardware)
    running: Running = field(default_factory=Running)

    def get(self, name: str) -> Any:
        """The value of a wish by its name, whichever section it is in."""
        return getattr(getattr(self, SECTION_OF[name]), name)

    @property
    def regime(self) -> str:
        """Which of the ways data reaches the learner."""
        return regime_of(self.task.algo, self.task.policy, bool(self.replay.redistribute), self.recorded.data)

    @property
    def algo(self) -> str:
        """The algorithm stated, or the regime's usual one; the policy's name for recorded data."""
        if self.regime == RECORDED:
            return self.replay.redistribute or "rrd"
        if self.regime == DATASET:
            return self.task.policy or "act"
        return self.task.algo or ("sac" if self.replay.redistribute else "ppo")


SECTIONS: dict[str, type] = {
    "task": Task,
    "experience": Experience,
    "replay": Replay,
    "learning": Learning,
    "rewards": Rewards,
    "dataset": Dataset,
    "recorded": Recorded,
    "hardware": Hardware,
    "running": Running,
}
FIELDS = {f.name: f for section in SECTIONS.values() for f in fields(section)}
SECTION_OF = {f.name: name for name, section in SECTIONS.items() for f in fields(section)}


def regime_of(algo: str | None, policy: str | None, redistributes: bool, data: str | None = None) -> str:
    """on-policy, replay, dataset or recorded, from what is trained."""
    if data is not None:
        return RECORDED
    if policy is not None:
        return DATASET
    return REPLAY if redistributes or algo in REPLAY_ALGOS else ON_POLICY


def flag_of(name: str) -> str:
    """The command-line flag of a field."""
    return "--" + name.replace("_", "-")
