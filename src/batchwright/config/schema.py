"""Every setting of a run, as frozen dataclasses; None means "not stated: the planner decides".

The name of a field is the key in YAML and, with dashes, the flag on the command line. A field's metadata holds its
help, its bounds and the regimes it belongs to, so that flags, YAML and error messages read one table.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

ON_POLICY_ALGOS = ("ppo", "a2c", "reinforce")
REPLAY_ALGOS = ("sac", "td3", "dqn")
ALGOS = ON_POLICY_ALGOS + REPLAY_ALGOS
POLICIES = ("act", "smolvla")
HOLDS = ("transitions-per-update", "reuse", "total-steps")
CHECKED_TRAINERS = ("rl_games", "rsl_rl", "sb3", "skrl", "brax", "cleanrl", "pufferlib")
"""Those whose rule for minibatches we know."""
TRAINERS = (*CHECKED_TRAINERS, "lerobot")
REDISTRIBUTIONS = ("rrd", "rrd-unbiased", "ircr", "full")

MEMORIES = ("gru", "lstm")

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


def setting(
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    regimes: tuple[str, ...] = REGIMES,
    unit: str = "",
) -> Any:
    """A field that may be left unset; bounds are inclusive."""
    metadata = {"help": help, "low": low, "high": high, "choices": choices, "regimes": regimes, "unit": unit}
    return field(default=None, metadata=metadata)


def count(help: str, unit: str, regimes: tuple[str, ...], low: int = 1, high: int = LARGEST_COUNT) -> Any:
    """A whole number of things."""
    return setting(help, low=low, high=high, unit=unit, regimes=regimes)


BOTH_RL = (ON_POLICY, REPLAY)
BOTH_RRD = (REPLAY, RECORDED)


@dataclass(frozen=True)
class Task:
    """What is trained, by which method."""

    env: str | None = setting("environment by name: a Gymnasium id, an EnvPool id, one of our own, or file.py:factory")
    algo: str | None = setting("algorithm; ppo when not stated", choices=ALGOS, regimes=BOTH_RL)
    policy: str | None = setting("policy trained on recorded data (the dataset regime)", choices=POLICIES)
    obs_shape: tuple[int, ...] | None = setting(
        "shape of one observation when no environment is named, e.g. 17 or 256,256,3",
        low=1,
        high=10**6,
        regimes=BOTH_RL,
    )
    obs_dtype: str | None = setting(
        "stored type of an observation", choices=("float32", "float16", "uint8"), regimes=BOTH_RL
    )
    action_size: int | None = count("action dimensions when no environment is named", "dimensions", BOTH_RL, high=10**6)
    action_kind: str | None = setting(
        "kind of actions when no environment is named", choices=("discrete", "continuous"), regimes=BOTH_RL
    )
    episode_steps: int | None = count("steps of one episode where the environment has no time limit", "steps", BOTH_RL)


@dataclass(frozen=True)
class Experience:
    """How much is collected between updates, and how it is split into minibatches."""

    num_envs: int | None = count("environments stepped in parallel", "envs", BOTH_RL, high=10**8)
    processes: int | None = count(
        "processes that train together: each has its share of the environments, or of the samples of an update",
        "processes",
        (ON_POLICY, DATASET),
        high=1024,
    )
    devices: int | None = count("devices of each process that share its updates", "devices", (ON_POLICY,), high=4096)
    rollout_steps: int | None = count("steps of each environment per iteration", "steps", BOTH_RL, high=10**9)
    rollout_episodes: int | None = count("whole episodes per rollout, instead of steps", "episodes", (ON_POLICY,))
    num_agents: int | None = count("agents in each environment", "agents", (ON_POLICY,), high=10**6)
    agent_groups: tuple[str, ...] | None = setting(
        "agents that share a policy, a name or pattern per group (red_* blue_*); by default those of equal spaces",
        regimes=(ON_POLICY,),
    )
    minibatch_transitions: int | None = count(
        "transitions one update sees; more than the rollout means the full rollout", "transitions", (ON_POLICY,)
    )
    minibatches: int | None = count("minibatches per epoch, instead of their size", "minibatches", (ON_POLICY,))
    epochs: int | None = count("passes over each rollout", "epochs", (ON_POLICY,), high=10**6)
    seq_length: int | None = count("steps of one recurrent sequence; sequences are never cut", "steps", (ON_POLICY,))
    total_steps: int | None = count("environment steps of the whole run", "steps", BOTH_RL)
    total_episodes: int | None = count(
        "episodes of the whole run, collected as whole episodes", "episodes", (ON_POLICY,)
    )
    hold: str | None = setting(
        "keep this quantity as it was (preset, file or default) while other numbers change",
        choices=HOLDS,
        regimes=BOTH_RL,
    )

    @property
    def by_episodes(self) -> bool:
        """Whether rollouts are whole episodes: stated so, or meant by a total counted in episodes."""
        return self.rollout_episodes is not None or (self.total_episodes is not None and self.rollout_steps is None)


@dataclass(frozen=True)
class Replay:
    """Replay training and return decomposition."""

    updates_per_iteration: int | None = count(
        "updates of one iteration; of one line of metrics where data is recorded",
        "updates",
        (*BOTH_RRD, DATASET),
        high=10**9,
    )
    transitions_per_update: int | None = count("transitions one update draws", "transitions", (REPLAY,), high=10**9)
    episodic_reward: bool | None = setting(
        "give no reward until an episode ends, then the sum of its rewards", regimes=(REPLAY,)
    )
    redistribute: str | None = setting(
        "how rewards are made from episode returns: from random timesteps (rrd), the same without its variance term "
        "(rrd-unbiased), from all timesteps (full), or by the normalised return itself (ircr)",
        choices=REDISTRIBUTIONS,
        regimes=BOTH_RRD,
    )
    reward_only: bool | None = setting(
        "learn the reward network alone: actions are random, or those of --collecting-run, and no policy is updated",
        regimes=(REPLAY,),
    )
    collecting_run: str | None = setting(
        "run directory whose trained policy collects, with --reward-only", regimes=(REPLAY,)
    )
    reward_learning_rate: float | None = setting(
        "learning rate of the reward network", low=1e-12, high=10.0, regimes=(REPLAY,)
    )
    rrd_timesteps_per_update: int | None = count(
        "timesteps over all subsequences of one reward update", "timesteps", BOTH_RRD, high=10**9
    )
    subsequence_timesteps: int | None = count(
        "random timesteps drawn from one episode", "timesteps", BOTH_RRD, high=10**9
    )
    replay_transitions: int | None = count("capacity of the replay buffer", "transitions", (REPLAY,))
    warmup_steps: int | None = count("random steps before the first update", "steps", (REPLAY,), low=0)
    store_next_obs: bool | None = setting(
        "store next observations separately instead of sharing frames with the next transition", regimes=(REPLAY,)
    )
    stacked_frames: int | None = count(
        "frames that an observation stacks along its first axis, newest last; each is stored once",
        "frames",
        (REPLAY,),
        high=128,
    )
    replay_on: str | None = setting("where the replay buffer is kept", choices=("device", "host"), regimes=(REPLAY,))
    polyak: float | None = setting(
        "Polyak factor (tau) of each target update; 1 copies the online network", low=0.0, high=1.0, regimes=(REPLAY,)
    )
    updates_per_target: int | None = count("updates between target updates", "updates", (REPLAY,), high=10**9)
    learn_temperature: bool | None = setting("adapt sac's temperature (alpha) to the target entropy", regimes=(REPLAY,))
    temperature_start: float | None = setting(
        "sac's initial temperature (alpha)", low=1e-9, high=1e6, regimes=(REPLAY,)
    )
    target_entropy: float | None = setting(
        "entropy per action dimension that sac's temperature aims at, actions on the scale -1..1",
        low=-100.0,
        high=100.0,
        regimes=(REPLAY,),
    )
    exploration_noise: float | None = setting(
        "standard deviation of the noise on td3's actions, on the scale -1..1", low=0.0, high=2.0, regimes=(REPLAY,)
    )
    target_noise: float | None = setting(
        "standard deviation of the noise on next actions in td3's targets, on the scale -1..1",
        low=0.0,
        high=2.0,
        regimes=(REPLAY,),
    )
    target_noise_clip: float | None = setting(
        "largest noise on a next action in td3's targets, on the scale -1..1", low=0.0, high=2.0, regimes=(REPLAY,)
    )
    policy_delay: int | None = count("updates of td3's critics for one of its actor", "updates", (REPLAY,), high=10**6)
    epsilon_start: float | None = setting(
        "dqn's epsilon at the start: probability of a random action", low=0.0, high=1.0, regimes=(REPLAY,)
    )
    epsilon_end: float | None = setting(
        "dqn's epsilon at the end of its schedule", low=0.0, high=1.0, regimes=(REPLAY,)
    )
    huber_limit: float | None = setting(
        "TD error from which dqn's Huber loss grows linearly", low=1e-6, regimes=(REPLAY,)
    )
    epsilon_share: float | None = setting(
        "share of the run over which dqn's epsilon goes from start to end", low=0.0, high=1.0, regimes=(REPLAY,)
    )


@dataclass(frozen=True)
class Learning:
    """Loss, optimiser, normalisation and networks."""

    learning_rate: float | None = setting(
        "learning rate of the optimiser", low=1e-12, high=10.0, regimes=(*REGIMES, RECORDED)
    )
    learning_rate_schedule: str | None = setting(
        "how the learning rate changes over the run",
        choices=("constant", "linear", "cosine", "kl-adaptive"),
        regimes=BOTH_RL,
    )
    warmup_updates: int | None = count("updates over which the learning rate rises from 0", "updates", BOTH_RL, low=0)
    scale_learning_rate: bool | None = setting(
        "scale the learning rate with the minibatch against the preset's, up to 4x", regimes=(ON_POLICY,)
    )
    gamma: float | None = setting("discount of future reward", low=0.0, high=1.0, regimes=BOTH_RL)
    gae_lambda: float | None = setting(
        "lambda of GAE: 0 is the one-step TD error, 1 the whole return",
        low=0.0,
        high=1.0,
        regimes=(ON_POLICY,),
    )
    clip_range: float | None = setting(
        "PPO's clip range (epsilon) of the probability ratio", low=0.0, high=10.0, regimes=(ON_POLICY,)
    )
    clip_schedule: str | None = setting(
        "how the clip range changes over the run", choices=("constant", "linear"), regimes=(ON_POLICY,)
    )
    entropy_start: float | None = setting("entropy coefficient at the start", low=0.0, high=100.0, regimes=(ON_POLICY,))
    entropy_end: float | None = setting(
        "entropy coefficient at the end of its schedule; negative values reduce entropy",
        low=-1.0,
        high=100.0,
        regimes=(ON_POLICY,),
    )
    entropy_anneal: float | None = setting(
        "share of the run, at its end, over which the entropy coefficient goes from start to end",
        low=0.0,
        high=1.0,
        regimes=(ON_POLICY,),
    )
    entropy_episodes: int | None = count(
        "episodes, from the first, over which the entropy coefficient goes from start to end, instead of a share",
        "episodes",
        (ON_POLICY,),
    )
    entropy_weight_discrete: float | None = setting(
        "weight of the entropy of discrete actions in the bonus", low=0.0, high=100.0, regimes=(ON_POLICY,)
    )
    entropy_weight_continuous: float | None = setting(
        "weight of the entropy of continuous actions in the bonus", low=0.0, high=100.0, regimes=(ON_POLICY,)
    )
    entropy_floor_discrete: float | None = setting(
        "nats per discrete action below which entropy is penalised", low=0.0, high=20.0, regimes=(ON_POLICY,)
    )
    entropy_floor_continuous: float | None = setting(
        "nats per continuous dimension below which entropy is penalised", low=-5.0, high=5.0, regimes=(ON_POLICY,)
    )
    entropy_floor_weight: float | None = setting(
        "penalty per nat below a floor", low=0.0, high=100.0, regimes=(ON_POLICY,)
    )
    value_weight: float | None = setting("coefficient of the value loss", low=0.0, high=1e6, regimes=(ON_POLICY,))
    value_rate_factor: float | None = setting(
        "learning rate of the critic as a multiple of the actor's", low=0.0, high=1e3, regimes=(ON_POLICY,)
    )
    value_clip: float | None = setting(
        "clip range of the value function, in units of the return's std; 0 is off",
        low=0.0,
        high=1e6,
        regimes=(ON_POLICY,),
    )
    advantage_norm: str | None = setting(
        "over what advantages are normalised", choices=("rollout", "minibatch", "none"), regimes=(ON_POLICY,)
    )
    baseline: bool | None = setting("subtract the value function from returns", regimes=(ON_POLICY,))
    normalize_obs: bool | None = setting("normalise observations by running mean and std", regimes=BOTH_RL)
    normalize_rewards: bool | None = setting("divide rewards by the running std of the return", regimes=(ON_POLICY,))
    popart: bool | None = setting("normalise value targets and keep the outputs (PopArt)", regimes=(ON_POLICY,))
    kl_stop: float | None = setting(
        "nats of KL at which the updates of a rollout stop; 0 is off", low=0.0, high=1e3, regimes=(ON_POLICY,)
    )
    kl_target: float | None = setting(
        "KL target of the kl-adaptive schedule, in nats", low=1e-9, high=1e3, regimes=(ON_POLICY,)
    )
    max_grad_norm: float | None = setting("global norm that gradients are clipped to", low=1e-9, high=1e9)
    weight_decay: float | None = setting(
        "weight decay of the optimiser", low=0.0, high=1.0, regimes=(ON_POLICY, RECORDED)
    )
    adam_beta2: float | None = setting("Adam's beta2", low=0.0, high=0.999999, regimes=BOTH_RL)
    adam_eps: float | None = setting("Adam's epsilon", low=1e-16, high=1.0, regimes=BOTH_RL)
    hidden: tuple[int, ...] | None = setting(
        "units of the hidden layers, e.g. 64,64", low=1, high=65536, regimes=(*BOTH_RL, RECORDED)
    )
    memory: str | None = setting(
        "what the policy remembers its observations with; it has no memory when not stated",
        choices=MEMORIES,
        regimes=(ON_POLICY,),
    )
    memory_size: int | None = count("units of the memory", "units", (ON_POLICY,), high=65536)
    activation: str | None = setting(
        "activation of the hidden layers", choices=("tanh", "relu", "elu"), regimes=BOTH_RL
    )
    log_std_start: float | None = setting(
        "initial log std of continuous actions, in units of half their range",
        low=-5.0,
        high=2.0,
        regimes=(ON_POLICY,),
    )


@dataclass(frozen=True)
class Rewards:
    """Rewards of several named components."""

    components: tuple[str, ...] | None = setting(
        "reward components to train on: names of a vector reward, or keys of info; none for the plain sum",
        regimes=(ON_POLICY,),
    )
    component_weights: tuple[str, ...] | None = setting(
        "weight of each component, in order or as NAME=X", regimes=(ON_POLICY,)
    )
    component_balance: bool | None = setting(
        "bring components without a common unit to a common std; changes the objective", regimes=(ON_POLICY,)
    )
    component_norm: str | None = setting(
        "how balancing normalises each component", choices=COMPONENT_NORMS, regimes=(ON_POLICY,)
    )
    component_weighting: str | None = setting(
        "whether the weights of components are learned during training",
        choices=("fixed", "learned"),
        regimes=(ON_POLICY,),
    )
    component_target: str | None = setting(
        "what learned weights serve: total, success or the name of a component", regimes=(ON_POLICY,)
    )


@dataclass(frozen=True)
class Dataset:
    """Training on recorded data."""

    samples_per_step: int | None = count(
        "samples in memory at once (the micro-batch)", "samples", (DATASET,), high=10**6
    )
    accumulation: int | None = count("micro-batches per update", "micro-batches", (DATASET,), high=10**6)
    samples_per_update: int | None = count("samples one update sees", "samples", (DATASET,), high=10**9)
    workers: int | None = count("processes that load data", "processes", (DATASET,), low=0, high=4096)
    precision: str | None = setting("number format of activations", choices=("fp32", "bf16"), regimes=(DATASET,))
    gradient_checkpointing: bool | None = setting("recompute activations instead of keeping them", regimes=(DATASET,))
    cameras: int | None = count("cameras per sample", "cameras", (DATASET,), high=64)
    image_size: int | None = count("pixels along one side of an image", "pixels", (DATASET,), low=16, high=8192)
    datasets: int | None = count("datasets mixed in one run", "datasets", (DATASET,), high=10_000)
    dataset: str | None = setting("dataset in LeRobot's format: a folder, or a name on the hub", regimes=(DATASET,))
    grow: bool | None = setting("let the micro-batch grow while memory allows", regimes=(DATASET,))
    total_updates: int | None = count("optimiser updates of the whole run", "updates", (DATASET, RECORDED))
    sample_mb: float | None = setting("measured memory of one sample in MB", low=1e-3, high=1e6, regimes=(DATASET,))
    fixed_mb: float | None = setting("measured memory of the fixed part in MB", low=0.0, high=1e7, regimes=(DATASET,))


@dataclass(frozen=True)
class Recorded:
    """Which recorded episodes a reward model learns from, and how."""

    data: str | None = setting(
        "recorded episodes: LIBERO HDF5 files, a Minari dataset or its id, or a LeRobot dataset", regimes=(RECORDED,)
    )
    obs_keys: str | None = setting(
        "observations to learn from, separated by commas; all when not stated", regimes=(RECORDED,)
    )
    action_key: str | None = setting("the recorded action, by its key", regimes=(RECORDED,))
    reward_key: str | None = setting(
        "the recorded reward of a step, by its key; summed to returns", regimes=(RECORDED,)
    )
    success_key: str | None = setting(
        "a flag per step, by its key: the return is 1 where any is set, else 0", regimes=(RECORDED,)
    )
    returns: str | None = setting("JSON or CSV file with the return of every episode", regimes=(RECORDED,))
    recorded_episodes: int | None = count(
        "read at most so many episodes, drawn by the seed", "episodes", (RECORDED,), low=2
    )
    held_out: float | None = setting(
        "share of the episodes that is not learned from, to measure the fit", low=0.0, high=0.9, regimes=(RECORDED,)
    )
    frames_on_disk: bool | None = setting(
        "keep the recording in memory-mapped files of the run directory instead of RAM", regimes=(RECORDED,)
    )
    allow_constant_returns: bool | None = setting(
        "train although all returns are equal and nothing can be learned from them", regimes=(RECORDED,)
    )


@dataclass(frozen=True)
class Hardware:
    """The machine planned for, where it is not this one."""

    cores: int | None = count("usable cores, instead of those of this machine", "cores", REGIMES, high=65536)
    ram_gb: float | None = setting(
        "RAM in GiB, instead of this machine's", low=0.01, high=1e6, regimes=(*REGIMES, RECORDED)
    )
    gpu_memory_gb: float | None = setting("memory of the GPU in GiB, instead of this machine's", low=0.1, high=1e5)


@dataclass(frozen=True)
class Running:
    """Engine, seed, evaluation and checkpoints."""

    seed: int | None = count("seed of every random stream of the run", "", (*REGIMES, RECORDED), low=0, high=2**31 - 1)
    init_from: str | None = setting(
        "start from the parameters and normalisers of another run: RUN, RUN@best or RUN@iteration", regimes=BOTH_RL
    )
    log_info: tuple[str, ...] | None = setting(
        "keys of info whose mean is logged, over all steps and over last steps of episodes; not trained on",
        regimes=BOTH_RL,
    )
    engine: str | None = setting("what steps the environments; auto measures", choices=ENGINE_CHOICES, regimes=BOTH_RL)
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
    eval_max_steps: int | None = count(
        "steps after which an evaluated episode is cut, and said to be", "steps", BOTH_RL, high=10**9
    )
    eval_threshold: float | None = setting(
        "training return below which no evaluation is made but the last, which is the result of the run",
        low=-1e12,
        high=1e12,
        regimes=BOTH_RL,
    )
    stop_return: float | None = setting(
        "stop when the mean return of the last 100 training episodes reaches this",
        low=-1e12,
        high=1e12,
        regimes=BOTH_RL,
    )
    step_timeout: float | None = setting(
        "seconds that a step may take in a worker process before the worker is replaced; 0: no limit",
        low=0,
        high=10**7,
        regimes=BOTH_RL,
        unit="seconds",
    )
    checkpoint_every: int | None = count("iterations between checkpoints", "iterations", (*REGIMES, RECORDED))
    doctor: str | None = setting(
        "what the doctor does during training: nothing, report problems, or also act on them",
        choices=("off", "say", "act"),
        regimes=BOTH_RL,
    )


@dataclass(frozen=True)
class Config:
    """All settings of one run."""

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
        """The value of a setting by its name, whichever section it is in."""
        return getattr(getattr(self, SECTION_OF[name]), name)

    @property
    def regime(self) -> str:
        """How data reaches the learner: on-policy, replay, dataset or recorded."""
        return regime_of(self.task.algo, self.task.policy, bool(self.replay.redistribute), self.recorded.data)

    @property
    def algo(self) -> str:
        """The stated algorithm, else the regime's default; the policy's name for recorded data."""
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
