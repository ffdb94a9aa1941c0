"""Ordinary faults of DQN, SAC, A2C, REINFORCE and RRD: numbers a factor of 3 to 30 from those that their base learns
with, and faults of the environment under replay.

Bases of the set `others` have tasks that findings were tuned on; `others-judging` has other seeds, other grades and a
further task for each algorithm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from doctor_faults import (
    BASES,
    BATCHING,
    ENVIRONMENT,
    LR_HIGH,
    LR_LOW,
    NUMBERS,
    REPLAY,
    SICK,
    Base,
    Fault,
    FaultSet,
)
from doctor_faults import SETS as EARLIER_SETS

SMALL = {"preset": "none", "hidden": "64,64"}
TUNING_BASES = {
    name: BASES[name] for name in ("dqn cartpole", "sac pendulum", "a2c cartpole", "reinforce cartpole", "rrd identity")
} | {
    "dqn choice, no preset": Base(
        "IdentityDiscrete-v0",
        SMALL | {"algo": "dqn", "total_steps": 15_000},
        "choice",
    ),
    "sac identity, no preset": BASES["sac identity, no preset"],
    "a2c identity, no preset": Base(
        "IdentityContinuous-v0", {"preset": "none", "algo": "a2c", "total_steps": 40_000}, "identity"
    ),
    "reinforce choice, no preset": Base(
        "IdentityDiscrete-v0", {"preset": "none", "algo": "reinforce", "total_steps": 120_000}, "choice"
    ),
}
JUDGING_BASES = {
    name: TUNING_BASES[name]
    for name in ("dqn cartpole", "sac pendulum", "a2c cartpole", "reinforce cartpole", "rrd identity")
} | {
    "dqn catch, no preset": Base(
        f"{SICK}:catch",
        {"algo": "dqn", "hidden": "64,64", "total_steps": 40_000},
        "catch",
    ),
    "sac point, no preset": Base(
        f"{SICK}:point",
        {"algo": "sac", "hidden": "64,64", "total_steps": 7_000},
        "point",
    ),
    "a2c catch, no preset": Base(f"{SICK}:catch", {"algo": "a2c", "total_steps": 150_000}, "catch"),
    "reinforce catch, no preset": Base(f"{SICK}:catch", {"algo": "reinforce", "total_steps": 200_000}, "catch"),
    "rrd point": Base(
        f"{SICK}:point",
        {"algo": "sac", "redistribute": "rrd", "episodic_reward": True, "hidden": "64,64", "total_steps": 8_000},
        "point",
    ),
}
RATES = {
    "dqn cartpole": 2.3e-3,
    "dqn choice, no preset": 1e-4,
    "dqn catch, no preset": 1e-4,
    "sac pendulum": 1e-3,
    "sac identity, no preset": 3e-4,
    "sac point, no preset": 3e-4,
    "a2c cartpole": 2e-3,
    "a2c identity, no preset": 7e-4,
    "a2c catch, no preset": 7e-4,
    "reinforce cartpole": 5e-3,
    "reinforce choice, no preset": 1e-3,
    "reinforce catch, no preset": 1e-3,
    "rrd identity": 1e-3,
    "rrd point": 3e-4,
}
"""The learning rate of each base."""
ROUNDS = {"dqn cartpole": (256, 128), "rrd identity": (100, 100), "rrd point": (100, 100)}
"""Steps and updates of an iteration, where they are not 32 each."""
Grades = tuple[float, ...]


class Planner:
    """Makes the faults of one base: a list of numbers, each with the findings that name it."""

    def __init__(self, base: str, settings: dict[str, Any], kind: str, rate: float | None = None) -> None:
        self.base, self.settings, self.kind, self.rate = base, settings, kind, rate or RATES[base]

    def one(self, name: str, grade: str, accepted: str, kind: str | None = None, **change: Any) -> Fault:
        return Fault(name, grade, kind or self.kind, self.base, tuple(accepted.split()), change)

    def rates(self, up: Grades, down: Grades) -> Iterator[Fault]:
        for factor in up:
            change = {"learning_rate": self.rate * factor}
            yield Fault("learning rate", f"x {factor:g}", NUMBERS, self.base, LR_HIGH, change)
        for factor in down:
            change = {"learning_rate": self.rate / factor}
            yield Fault("learning rate", f"/ {factor:g}", NUMBERS, self.base, LR_LOW, change)

    def gammas(self, *gammas: float) -> Iterator[Fault]:
        for gamma in gammas:
            found = "gamma-too-myopic" if gamma < 0.99 else "gamma-too-long"
            yield self.one("gamma", f"{gamma:g}", found, NUMBERS, gamma=gamma)

    def replay(self, few: Grades, many: Grades, buffers: Grades, warm_ups: Grades) -> Iterator[Fault]:
        """Updates, buffer, warm-up and rows, as both replay algorithms have them; the last as shares of the run."""
        steps, updates = ROUNDS.get(self.base, (32, 32))
        total = self.settings["total_steps"]
        for factor in few:
            made = max(1, round(updates / factor))
            yield self.one("updates", f"/ {factor:g}", "replay-ratio", rollout_steps=steps, updates_per_iteration=made)
        for factor in many:
            made = round(updates * factor)
            yield self.one("updates", f"x {factor:g}", "replay-ratio", rollout_steps=steps, updates_per_iteration=made)
        for share in buffers:
            yield self.one(
                "buffer", f"{share:.1%} of the run", "replay-buffer-too-small", replay_transitions=int(share * total)
            )
        for share in warm_ups:
            yield self.one("warm-up", f"{share:.0%} of the run", "warm-up-too-long", warmup_steps=int(share * total))


def of_dqn(base: str, settings: dict[str, Any], judging: bool) -> Iterator[Fault]:
    """Numbers of DQN."""
    made, copies = Planner(base, settings, REPLAY), 128 if "cartpole" in base else 1000
    yield from made.rates((5, 20), (5, 20)) if judging else made.rates((3, 10, 30), (3, 10, 30))
    yield from made.gammas(0.6, 0.999) if judging else made.gammas(0.5, 0.9, 0.9999)
    yield from made.replay(
        *(((6,), (4,), (0.015,), (0.6,)) if judging else ((4, 10, 30), (8,), (0.01, 0.03), (0.4, 0.8)))
    )
    for factor in (6, 25) if judging else (3, 10, 60):
        yield made.one(
            "target copies", f"{factor} times rarer", "target-too-slow", updates_per_target=round(copies * factor)
        )
    yield made.one("target copies", "every update", "target-too-fast", updates_per_target=1)
    for epsilon in (0.4,) if judging else (0.2, 0.5):
        yield made.one("epsilon", f"{epsilon:g} at the end", "epsilon-too-high", epsilon_end=epsilon)
    yield made.one("epsilon", "anneals for the whole run", "epsilon-too-high", epsilon_share=1.0)
    yield made.one("epsilon", "ends at once", "epsilon-too-low", epsilon_start=0.01, epsilon_end=0.01, warmup_steps=64)
    for limit in (0.03,) if judging else (0.1, 0.01):
        yield made.one("huber limit", f"{limit:g}", "huber-limit-too-small", huber_limit=limit)
    yield made.one("minibatch", "4", "minibatch-too-small", transitions_per_update=4)


def of_sac(base: str, settings: dict[str, Any], judging: bool) -> Iterator[Fault]:
    """Numbers of SAC."""
    made = Planner(base, settings, REPLAY)
    yield from made.rates((5, 20), (5, 20)) if judging else made.rates((3, 10, 30), (3, 10, 30))
    yield from made.gammas(0.5, 0.999) if judging else made.gammas(0.6, 0.9999)
    yield from made.replay(*(((6, 32), (), (0.03,), (0.6,)) if judging else ((4, 10, 30), (4,), (0.02,), (0.4, 0.8))))
    for factor in (8, 40) if judging else (5, 20, 100):
        yield made.one("target speed", f"/ {factor}", "target-too-slow", polyak=0.005 / factor)
    yield made.one("target speed", "x 200", "target-too-fast", polyak=1.0)
    fixed = {"learn_temperature": False}
    for heat in (2.0,) if judging else (1.0, 5.0):
        yield made.one("temperature", f"fixed {heat:g}", "temperature-too-high", temperature_start=heat, **fixed)
    yield made.one("temperature", "fixed 0.001", "temperature-too-low", temperature_start=1e-3, **fixed)
    for target in (0.5,) if judging else (0.6, -6.0):
        found = "target-entropy-too-high" if target > -1 else "target-entropy-too-low"
        yield made.one("target entropy", f"{target:g}", found, target_entropy=target)
    yield made.one("minibatch", "4", "minibatch-too-small", transitions_per_update=4)


def of_policy_gradient(base: str, settings: dict[str, Any], judging: bool) -> Iterator[Fault]:
    """Numbers of A2C and REINFORCE."""
    made = Planner(base, settings, NUMBERS)
    yield from made.rates((5, 20), (5, 20)) if judging else made.rates((3, 10, 30), (3, 10, 30))
    yield from made.gammas(0.6, 0.9999) if judging else made.gammas(0.5, 0.9, 0.9999)
    for coef in (0.2,) if judging else (0.1, 0.5):
        yield made.one(
            "entropy coefficient", f"{coef:g}", "entropy-coef-too-high", entropy_start=coef, entropy_end=coef
        )
    yield made.one("gradient clip", "/ 1e4", "gradient-clip-too-tight", max_grad_norm=5e-5)
    if base.startswith("a2c"):
        yield made.one("lambda", "0", "gae-lambda-too-low", BATCHING, gae_lambda=0.0)
        small = "rollout-too-small too-few-environments"
        yield made.one("rollout", "1 x 16", small, BATCHING, num_envs=1, rollout_steps=16)
        long = "rollout-too-large too-few-updates"
        yield made.one("rollout", "8 times longer", long, BATCHING, num_envs=16, rollout_steps=128)
    else:
        small = "rollout-too-small too-few-environments too-few-episodes"
        yield made.one("rollout", "1 x 32", small, BATCHING, num_envs=1, rollout_steps=32)
        yield made.one("rollout", "16 x 1024", "rollout-too-large", BATCHING, num_envs=16, rollout_steps=1024)


def of_rrd(base: str, settings: dict[str, Any], judging: bool) -> Iterator[Fault]:
    """Numbers of return decomposition over SAC."""
    made = Planner(base, settings, REPLAY)
    yield from made.rates((10,), (10,)) if judging else made.rates((10, 30), (10, 30))
    for factor in (10,) if judging else (30,):
        yield made.one("reward rate", f"/ {factor}", "reward-rate-too-low", reward_learning_rate=3e-4 / factor)
        yield made.one("reward rate", f"x {factor * 3}", "reward-rate-too-high", reward_learning_rate=9e-4 * factor)
    few = "reward-timesteps-too-few"
    yield made.one("reward timesteps", "4", few, rrd_timesteps_per_update=4, subsequence_timesteps=4)
    yield from made.replay((10,), (), (), (0.6,))


def of_environment(base: str, judging: bool) -> Iterator[Fault]:
    """Faults of the environment under replay."""

    def one(name: str, grade: str, accepted: str, plant: str, value: float, mends: bool = False) -> Fault:
        return Fault(name, grade, ENVIRONMENT, base, (accepted,), {}, (plant, value), mends)

    scale, wide = "reward-scale", "observation-scale"
    for factor in (30.0, 1 / 30) if judging else (10.0, 100.0, 0.1, 0.01):
        yield one("rewards", f"x {factor:.3g}", scale, "rewards_times", factor, True)
    for factor in (30.0,) if judging else (10.0, 100.0):
        yield one("last entry of the observation", f"x {factor:g}", wide, "entry_times", factor, True)
    yield one("constant sensor", "entry 1", "constant-observation", "stuck_entry", 1)
    delay = 2 if judging else 3
    yield one("delayed actions", f"{delay} steps", "delayed-actions", "delay", delay)
    yield one("stale observations", f"{delay - 1} steps", "delayed-actions", "stale", delay - 1)
    yield one("frozen observations", "0.7", "repeated-observations", "frozen", 0.7)
    yield one("random terminations", "10%", "unexplained-terminations", "random_dones", 0.1)
    if "catch" not in base:  # its episodes end before any limit
        yield one("time limit as termination", "", "time-limit-as-termination", "limit_terminates", 0)


def faults_of(bases: dict[str, Base], judging: bool) -> list[Fault]:
    """All faults of a set of bases."""
    found: list[Fault] = []
    for name, base in bases.items():
        algo = name.split()[0]
        make = {"dqn": of_dqn, "sac": of_sac, "rrd": of_rrd}.get(algo, of_policy_gradient)
        found += make(name, base.settings, judging)
        if algo in ("dqn", "sac"):
            found += of_environment(name, judging)
    return found


SETS = EARLIER_SETS | {
    "others": FaultSet(TUNING_BASES, faults_of(TUNING_BASES, judging=False)),
    "others-judging": FaultSet(JUDGING_BASES, faults_of(JUDGING_BASES, judging=True)),
}
