"""The graded faults of the doctor's benchmark: what is planted, at which grade, and which findings name its cause.

Whether a fault harms is measured, never assumed: `benchmarks/doctor.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SICK = str(Path(__file__).with_name("sick_envs.py"))
NUMBERS, ENVIRONMENT, REPLAY, BATCHING = "numbers", "environment", "replay", "batching"


@dataclass(frozen=True)
class Base:
    """A setting that learns within a short budget; `task` is its name among the tasks that faults are planted in."""

    env: str
    settings: dict[str, Any]
    task: str | None = None


PPO_BASES = {
    "cartpole": Base("CartPole-v1", {"preset": "ppo-cartpole", "total_steps": 40_000}, "cartpole"),
    "pendulum": Base("Pendulum-v1", {"preset": "ppo-pendulum", "total_steps": 60_000}, "pendulum"),
    "acrobot": Base("Acrobot-v1", {"preset": "ppo-acrobot", "total_steps": 50_000, "num_envs": 8}, "acrobot"),
    "cartpole, no preset": Base("CartPole-v1", {"preset": "none", "algo": "ppo", "total_steps": 60_000}, "cartpole"),
    "choice, no preset": Base(
        "IdentityDiscrete-v0", {"preset": "none", "algo": "ppo", "total_steps": 40_000}, "choice"
    ),
}
OTHER_BASES = {
    "a2c cartpole": Base("CartPole-v1", {"preset": "a2c-cartpole", "total_steps": 60_000}, "cartpole"),
    "reinforce cartpole": Base("CartPole-v1", {"preset": "reinforce-cartpole", "total_steps": 60_000}, "cartpole"),
    "sac pendulum": Base("Pendulum-v1", {"preset": "sac-pendulum", "total_steps": 6_000}, "pendulum"),
    "sac identity, no preset": Base(
        "IdentityContinuous-v0",
        {"preset": "none", "algo": "sac", "hidden": "64,64", "gamma": 0.9, "warmup_steps": 500, "total_steps": 4_000},
        "identity",
    ),
    "dqn cartpole": Base(
        "CartPole-v1", {"preset": "dqn-cartpole", "hidden": "64,64", "total_steps": 30_000}, "cartpole"
    ),
    "rrd identity": Base(
        "IdentityContinuous-v0",
        {
            "preset": "none",
            "algo": "sac",
            "redistribute": "rrd",
            "episodic_reward": True,
            "hidden": "64,64",
            "learning_rate": 1e-3,
            "gamma": 0.5,
            "total_steps": 2_000,
        },
        "identity",
    ),
}
BASES = PPO_BASES | OTHER_BASES


@dataclass(frozen=True)
class Fault:
    """One fault at one grade in one base, and the findings that name its cause."""

    name: str
    grade: str
    kind: str
    base: str
    accepted: tuple[str, ...]
    change: dict[str, Any] = field(default_factory=dict)
    env_fault: tuple[str, float] | None = None
    """A name and a grade of `sick_envs.PLANTS`."""
    repairable: bool = True
    """Whether a flag can mend it."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.grade} @ {self.base}"

    @property
    def reward_factor(self) -> float:
        return self.env_fault[1] if self.env_fault and self.env_fault[0] == "rewards_times" else 1.0


LR_HIGH, LR_LOW = ("learning-rate-too-high",), ("learning-rate-too-low",)
REFERENCE = {
    "cartpole": {"learning_rate": 1e-3, "max_grad_norm": 0.5, "clip_range": 0.2, "minibatch_transitions": 64},
    "pendulum": {"learning_rate": 1e-3, "max_grad_norm": 0.5, "clip_range": 0.2, "minibatch_transitions": 128},
    "acrobot": {"learning_rate": 1e-3, "max_grad_norm": 0.5, "clip_range": 0.2, "minibatch_transitions": 64},
    "cartpole, no preset": {"learning_rate": 3e-4, "max_grad_norm": 0.5, "clip_range": 0.2},
    "choice, no preset": {"learning_rate": 3e-4, "max_grad_norm": 0.5, "clip_range": 0.2},
    "a2c cartpole": {"learning_rate": 2e-3},
    "reinforce cartpole": {"learning_rate": 5e-3},
    "sac pendulum": {"learning_rate": 1e-3},
    "sac identity, no preset": {"learning_rate": 3e-4},
    "dqn cartpole": {"learning_rate": 2.3e-3},
    "rrd identity": {"learning_rate": 1e-3},
}
GRADES = {"x 3": 3.0, "x 10": 10.0, "x 30": 30.0, "x 100": 100.0}


def learning_rates(base: str, grades: dict[str, float] = GRADES) -> Iterator[Fault]:
    """The learning rate up and down."""
    rate = REFERENCE[base]["learning_rate"]
    for label, factor in grades.items():
        yield Fault("learning rate", label, NUMBERS, base, LR_HIGH, {"learning_rate": rate * factor})
        yield Fault("learning rate", label.replace("x", "/"), NUMBERS, base, LR_LOW, {"learning_rate": rate / factor})


def ppo_numbers(base: str) -> Iterator[Fault]:
    """Numbers of PPO other than the learning rate, each at natural grades."""

    def one(name: str, grade: str, accepted: tuple[str, ...], kind: str = NUMBERS, **change: Any) -> Fault:
        return Fault(name, grade, kind, base, accepted, change)

    discrete = "pendulum" not in base
    yield one("gamma", "0.3", ("gamma-too-myopic",), gamma=0.3)
    yield one("gamma", "0.7", ("gamma-too-myopic",), gamma=0.7)
    yield one("gamma", "0.9999", ("gamma-too-long",), gamma=0.9999)
    yield one("clip range", "x 10", ("clip-range-too-large",), clip_range=2.0)
    yield one("clip range", "/ 10", ("clip-range-too-small",), clip_range=0.02)
    yield one("clip range", "/ 100", ("clip-range-too-small",), clip_range=0.002)
    high = ("entropy-coef-too-high",)
    for coef in (0.1, 0.3, 1.0):
        yield one("entropy coefficient", str(coef), high, entropy_start=coef, entropy_end=coef)
    tight = ("gradient-clip-too-tight",)
    yield one("gradient clip", "/ 100", tight, max_grad_norm=0.005)
    yield one("gradient clip", "/ 1e5", tight, max_grad_norm=5e-6)
    yield one("value weight", "0", ("values-not-learned",), value_weight=0.0)
    yield one("value weight", "x 100", ("value-weight-too-high",), value_weight=50.0)
    yield one("lambda", "0", ("gae-lambda-too-low",), BATCHING, gae_lambda=0.0)
    yield one("lambda", "1", ("gae-lambda-too-high",), BATCHING, gae_lambda=1.0)
    few = ("too-few-updates", "too-few-minibatches")
    yield one("epochs", "1", few, BATCHING, epochs=1)
    many = ("too-many-epochs", "overfitting-the-batch")
    yield one("epochs", "50", many, BATCHING, epochs=50)
    yield one("whole-rollout minibatches", "1 epoch", few, BATCHING, minibatch_transitions=999_999, epochs=1)
    yield one("whole-rollout minibatches", "", few, BATCHING, minibatch_transitions=999_999)
    yield one("minibatch", "4", ("minibatch-too-small",), BATCHING, minibatch_transitions=4)
    small = ("rollout-too-small", "too-few-environments", "too-many-epochs")
    yield one("one environment", "32 steps", small, BATCHING, num_envs=1, rollout_steps=32, minibatch_transitions=32)
    yield one("rollout", "of a quarter of the run", ("rollout-too-large",), BATCHING, num_envs=8, rollout_steps=1250)
    if not discrete:
        yield one("first spread of actions", "e^-3", ("entropy-collapse",), log_std_start=-3.0)
        yield one("first spread of actions", "e^2", ("actions-clipped",), log_std_start=2.0)


def environment(base: str) -> Iterator[Fault]:
    """Faults of the environment, graded."""

    def one(name: str, grade: str, accepted: tuple[str, ...], plant: str, value: float, repairable: bool) -> Fault:
        return Fault(name, grade, ENVIRONMENT, base, accepted, {}, (plant, value), repairable)

    for label, factor in (("x 10", 10.0), ("x 100", 100.0), ("/ 10", 0.1), ("/ 100", 0.01), ("/ 1000", 1e-3)):
        yield one("rewards", label, ("reward-scale",), "rewards_times", factor, True)
    for label, factor in (("x 10", 10.0), ("x 100", 100.0), ("/ 100", 0.01)):
        yield one("last entry of the observation", label, ("observation-scale",), "entry_times", factor, True)
    constant = ("constant-observation",)
    yield one("dead sensor", "last entry", constant, "dead_entry", -1, False)
    yield one("constant sensor", "entry 1", constant, "stuck_entry", 1, False)
    delayed = ("delayed-actions",)
    yield one("delayed actions", "1 step", delayed, "delay", 1, False)
    yield one("delayed actions", "3 steps", delayed, "delay", 3, False)
    yield one("stale observations", "2 steps", delayed, "stale", 2, False)
    yield one("sticky actions", "0.25", ("sticky-actions",), "sticky", 0.25, False)
    yield one("sticky actions", "0.75", ("sticky-actions",), "sticky", 0.75, False)
    yield one("frozen observations", "0.5", ("repeated-observations",), "frozen", 0.5, False)
    yield one("frozen observations", "0.9", ("repeated-observations",), "frozen", 0.9, False)
    yield one("time limit as termination", "", ("time-limit-as-termination",), "limit_terminates", 0, False)
    random = ("unexplained-terminations",)
    yield one("random terminations", "5%", random, "random_dones", 0.05, False)
    yield one("random terminations", "20%", random, "random_dones", 0.2, False)


def sac_numbers(base: str) -> Iterator[Fault]:
    """Numbers of SAC."""

    def one(name: str, grade: str, accepted: tuple[str, ...], **change: Any) -> Fault:
        return Fault(name, grade, REPLAY, base, accepted, change)

    fixed = {"learn_temperature": False}
    yield one("temperature", "fixed 3", ("temperature-too-high",), temperature_start=3.0, **fixed)
    yield one("temperature", "fixed 0.0001", ("temperature-too-low",), temperature_start=1e-4, **fixed)
    yield one("target speed", "/ 100", ("target-too-slow",), polyak=5e-5)
    yield one("target speed", "x 200", ("target-too-fast",), polyak=1.0)
    yield one("updates", "/ 16", ("replay-ratio",), rollout_steps=64, updates_per_iteration=4)
    yield one("updates", "/ 64", ("replay-ratio",), rollout_steps=64, updates_per_iteration=1)
    yield one("buffer", "300", ("replay-buffer-too-small",), replay_transitions=300)
    yield one("warm-up", "80% of the run", ("warm-up-too-long",), warmup_steps=3_200 if "identity" in base else 4_800)
    yield one("minibatch", "4", ("minibatch-too-small",), transitions_per_update=4)
    yield one("gamma", "0.3", ("gamma-too-myopic",), gamma=0.3)


def dqn_numbers(base: str) -> Iterator[Fault]:
    """Numbers of DQN."""

    def one(name: str, grade: str, accepted: tuple[str, ...], **change: Any) -> Fault:
        return Fault(name, grade, REPLAY, base, accepted, change)

    yield one("target copies", "every 10,000", ("target-too-slow",), updates_per_target=10_000)
    yield one("target copies", "every update", ("target-too-fast",), updates_per_target=1)
    yield one("updates", "/ 16", ("replay-ratio",), updates_per_iteration=8)
    yield one("updates", "/ 64", ("replay-ratio",), updates_per_iteration=2)
    yield one("epsilon", "0.5 at the end", ("epsilon-too-high",), epsilon_end=0.5)
    yield one("epsilon", "0 at the start", ("epsilon-too-low",), epsilon_start=0.0, epsilon_end=0.0, warmup_steps=64)
    yield one("buffer", "300", ("replay-buffer-too-small",), replay_transitions=300)
    yield one("warm-up", "80% of the run", ("warm-up-too-long",), warmup_steps=24_000)
    yield one("huber limit", "0.01", ("huber-limit-too-small",), huber_limit=0.01)
    yield one("minibatch", "2", ("minibatch-too-small",), transitions_per_update=2)
    yield one("gamma", "0.3", ("gamma-too-myopic",), gamma=0.3)


def policy_gradient_numbers(base: str) -> Iterator[Fault]:
    """Numbers of A2C and REINFORCE."""

    def one(name: str, grade: str, accepted: tuple[str, ...], **change: Any) -> Fault:
        return Fault(name, grade, NUMBERS, base, accepted, change)

    yield one("gamma", "0.3", ("gamma-too-myopic",), gamma=0.3)
    yield one("entropy coefficient", "0.5", ("entropy-coef-too-high",), entropy_start=0.5, entropy_end=0.5)
    yield one("gradient clip", "/ 1e5", ("gradient-clip-too-tight",), max_grad_norm=5e-6)
    small = ("rollout-too-small", "too-few-environments", "too-few-episodes")
    yield one("one environment", "16 steps", small, num_envs=1, rollout_steps=16)


def tuning_faults() -> list[Fault]:
    """The faults that thresholds were set on."""
    tens = {"x 10": 10.0, "x 100": 100.0}
    found: list[Fault] = []
    for base in ("cartpole", "pendulum", "acrobot"):
        found += [*learning_rates(base), *environment(base), *ppo_numbers(base)]
    found += [*learning_rates("dqn cartpole", tens), *dqn_numbers("dqn cartpole")]
    found += [*learning_rates("sac pendulum", tens), *sac_numbers("sac pendulum")]
    found += [*learning_rates("cartpole, no preset"), *ppo_numbers("cartpole, no preset")]
    for base in ("a2c cartpole", "reinforce cartpole"):
        found += [*learning_rates(base, tens), *policy_gradient_numbers(base)]
    found += [*learning_rates("choice, no preset", tens), *learning_rates("sac identity, no preset", tens)]
    found += [*sac_numbers("sac identity, no preset"), *learning_rates("rrd identity", {"x 100": 100.0})]
    some = ("x 100", "/ 100", "last entry", "1 step", "3 steps")
    found += [one for base in ("sac pendulum", "dqn cartpole") for one in environment(base) if one.grade in some]
    return found


SMALL_REPLAY = {"hidden": "32,32", "transitions_per_update": 64, "warmup_steps": 300, "rollout_steps": 32}
JUDGING_BASES = {
    name: BASES[name] for name in ("cartpole", "pendulum", "cartpole, no preset", "a2c cartpole", "reinforce cartpole")
} | {
    "point, no preset": Base(
        f"{SICK}:point", {"algo": "ppo", "learning_rate_schedule": "linear", "total_steps": 50_000}, "point"
    ),
    "catch, no preset": Base(f"{SICK}:catch", {"algo": "ppo", "total_steps": 50_000}, "catch"),
    "dqn catch, no preset": Base(
        f"{SICK}:catch",
        {"algo": "dqn", "learning_rate": 1e-3, "updates_per_target": 100, "total_steps": 12_000}
        | SMALL_REPLAY
        | {"updates_per_iteration": 16},
        "catch",
    ),
    "sac point, no preset": Base(
        f"{SICK}:point",
        {"algo": "sac", "learning_rate": 1e-3, "gamma": 0.95, "total_steps": 5_000} | SMALL_REPLAY,
        "point",
    ),
}
"""Five bases with other seeds, and four in two environments that thresholds were not set on."""


def judging_faults() -> list[Fault]:
    """Faults and grades other than those that thresholds were set on, and some of those again."""
    found = [*_of_numbers("cartpole", 1e-3), *_of_numbers("pendulum", 1e-3), *_of_numbers("point, no preset", 3e-4)]
    found += [*_of_numbers("catch, no preset", 3e-4), *_of_rates("cartpole, no preset", 3e-4)]
    found += [*_of_rates("a2c cartpole", 2e-3), *_of_rates("reinforce cartpole", 5e-3)]
    found += [*_of_rates("dqn catch, no preset", 1e-3), *_of_dqn("dqn catch, no preset")]
    found += [*_of_rates("sac point, no preset", 1e-3), *_of_sac("sac point, no preset")]
    found += [*_of_environment("cartpole"), *_of_environment("point, no preset"), *_of_environment("catch, no preset")]
    return found


def _of_rates(base: str, rate: float) -> Iterator[Fault]:
    for factor in (5, 20, 50):
        yield Fault("learning rate", f"x {factor}", NUMBERS, base, LR_HIGH, {"learning_rate": rate * factor})
        yield Fault("learning rate", f"/ {factor}", NUMBERS, base, LR_LOW, {"learning_rate": rate / factor})


def _of_numbers(base: str, rate: float) -> Iterator[Fault]:
    yield from _of_rates(base, rate)

    def one(name: str, grade: str, accepted: tuple[str, ...], kind: str = NUMBERS, **change: Any) -> Fault:
        return Fault(name, grade, kind, base, accepted, change)

    yield one("gamma", "0.5", ("gamma-too-myopic",), gamma=0.5)
    yield one("gamma", "0.99999", ("gamma-too-long",), gamma=0.99999)
    yield one("clip range", "/ 40", ("clip-range-too-small",), clip_range=0.005)
    yield one("clip range", "x 5", ("clip-range-too-large",), clip_range=1.0)
    yield one("entropy coefficient", "0.05", ("entropy-coef-too-high",), entropy_start=0.05, entropy_end=0.05)
    yield one("entropy coefficient", "0.5", ("entropy-coef-too-high",), entropy_start=0.5, entropy_end=0.5)
    yield one("gradient clip", "/ 1e4", ("gradient-clip-too-tight",), max_grad_norm=5e-5)
    yield one("value weight", "/ 100", ("values-not-learned",), value_weight=0.005)
    yield one("value weight", "x 30", ("value-weight-too-high",), value_weight=15.0)
    yield one("lambda", "0.1", ("gae-lambda-too-low",), BATCHING, gae_lambda=0.1)
    few = ("too-few-updates", "too-few-minibatches")
    yield one("one update per rollout", "", few, BATCHING, minibatch_transitions=999_999, epochs=1)
    many = ("too-many-epochs", "overfitting-the-batch")
    yield one("epochs", "40", many, BATCHING, epochs=40)
    small = ("rollout-too-small", "too-few-environments", "too-many-epochs")
    yield one("rollout", "2 x 16", small, BATCHING, num_envs=2, rollout_steps=16, minibatch_transitions=32)


def _of_environment(base: str) -> Iterator[Fault]:
    def one(name: str, grade: str, accepted: tuple[str, ...], plant: str, value: float, mends: bool = False) -> Fault:
        return Fault(name, grade, ENVIRONMENT, base, accepted, {}, (plant, value), mends)

    delayed = ("delayed-actions",)
    yield one("delayed actions", "2 steps", delayed, "delay", 2)
    yield one("stale observations", "3 steps", delayed, "stale", 3)
    yield one("sticky actions", "0.6", ("sticky-actions",), "sticky", 0.6)
    yield one("random terminations", "10%", ("unexplained-terminations",), "random_dones", 0.1)
    yield one("rewards", "x 50", ("reward-scale",), "rewards_times", 50.0, True)
    yield one("rewards", "/ 300", ("reward-scale",), "rewards_times", 1 / 300, True)
    yield one("first entry of the observation", "x 50", ("observation-scale",), "first_entry_times", 50.0, True)
    yield one("dead sensor", "first entry", ("constant-observation",), "dead_entry", 0)
    yield one("frozen observations", "0.8", ("repeated-observations",), "frozen", 0.8)


def _of_dqn(base: str) -> Iterator[Fault]:
    def one(name: str, grade: str, accepted: tuple[str, ...], **change: Any) -> Fault:
        return Fault(name, grade, REPLAY, base, accepted, change)

    yield one("target copies", "every 3,000", ("target-too-slow",), updates_per_target=3_000)
    yield one("updates", "/ 16", ("replay-ratio",), updates_per_iteration=1)
    yield one("epsilon", "0.7 at the end", ("epsilon-too-high",), epsilon_end=0.7)
    yield one("warm-up", "70% of the run", ("warm-up-too-long",), warmup_steps=8_400)
    yield one("huber limit", "0.001", ("huber-limit-too-small",), huber_limit=0.001)
    yield one("gamma", "0.2", ("gamma-too-myopic",), gamma=0.2)


def _of_sac(base: str) -> Iterator[Fault]:
    def one(name: str, grade: str, accepted: tuple[str, ...], **change: Any) -> Fault:
        return Fault(name, grade, REPLAY, base, accepted, change)

    fixed = {"learn_temperature": False}
    yield one("temperature", "fixed 2", ("temperature-too-high",), temperature_start=2.0, **fixed)
    yield one("target speed", "/ 50", ("target-too-slow",), polyak=1e-4)
    yield one("updates", "/ 32", ("replay-ratio",), updates_per_iteration=1)
    yield one("warm-up", "70% of the run", ("warm-up-too-long",), warmup_steps=3_500)
    yield one("gamma", "0.2", ("gamma-too-myopic",), gamma=0.2)


@dataclass(frozen=True)
class FaultSet:
    """Bases and the faults planted in them."""

    bases: dict[str, Base]
    faults: list[Fault]


_JUDGING = FaultSet(JUDGING_BASES, judging_faults())
SETS = {"tuning": FaultSet(BASES, tuning_faults()), "judging": _JUDGING, "again": _JUDGING}
