"""Ordinary faults in tasks, grades and seeds that no threshold was set on: the sets `unseen` and `further`.

Faults of the environment are planted under every algorithm, in the way that a user's wrapper would have them. `unseen`
judged the doctor first and was then looked at; `further` has three other tasks, other grades and seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from doctor_faults import BATCHING, ENVIRONMENT, NUMBERS, REPLAY, SICK, Base, Fault, FaultSet
from doctor_fresh import SETS as EARLIER_SETS
from doctor_ordinary import Planner

SMALL = {"hidden": "64,64"}


def of_tasks(discrete: str, box: str, sparse: str) -> dict[str, Base]:
    """Bases in three tasks: two with choices, of which the second pays seldom, and one with continuous actions."""

    def one(task: str, algo: str, steps: int, **more: Any) -> Base:
        return Base(f"{SICK}:{task}", more | {"algo": algo, "total_steps": steps}, task)

    delayed = SMALL | {"redistribute": "rrd", "episodic_reward": True}
    return {
        f"{discrete}, no preset": one(discrete, "ppo", 80_000),
        f"{box}, no preset": one(box, "ppo", 80_000),
        f"{sparse}, no preset": one(sparse, "ppo", 80_000),
        "a2c cartpole": Base("CartPole-v1", {"preset": "a2c-cartpole", "total_steps": 90_000}, "cartpole"),
        f"a2c {sparse}, no preset": one(sparse, "a2c", 250_000),
        f"reinforce {discrete}, no preset": one(discrete, "reinforce", 500_000),
        f"dqn {discrete}, no preset": one(discrete, "dqn", 40_000, **SMALL),
        "dqn cartpole": Base("CartPole-v1", SMALL | {"preset": "dqn-cartpole", "total_steps": 40_000}, "cartpole"),
        "sac pendulum": Base("Pendulum-v1", {"preset": "sac-pendulum", "total_steps": 8_000}, "pendulum"),
        f"sac {box}, no preset": one(box, "sac", 10_000, **SMALL),
        f"rrd {box}": one(box, "sac", 12_000, **delayed),
    }


@dataclass(frozen=True)
class Grades:
    """How far the numbers of a set are off."""

    rates: tuple[float, ...]
    low_rates: tuple[float, ...]
    gammas: tuple[float, float]
    clip: float
    entropy: float
    clipping: float
    value: float
    gae_lambda: float
    few_updates: tuple[float, ...]
    buffer: float
    warm_up: float
    targets: int
    epsilon: float
    huber: float
    temperature: float
    rewards: tuple[float, float]
    entry: float
    delay: int
    stale: int
    sticky: float
    frozen: float
    random: float
    planted: tuple[str, str]
    """The entry that is scaled, and that which is dead: `first` or `last`."""


UNSEEN_BASES = {
    "pendulum": Base("Pendulum-v1", {"preset": "ppo-pendulum", "total_steps": 60_000}, "pendulum"),
    "cartpole, no preset": Base("CartPole-v1", {"preset": "none", "algo": "ppo", "total_steps": 50_000}, "cartpole"),
} | of_tasks("lift", "arm", "keys")
FURTHER_BASES = {
    "cartpole": Base("CartPole-v1", {"preset": "ppo-cartpole", "total_steps": 50_000}, "cartpole"),
    "pendulum, no preset": Base("Pendulum-v1", {"preset": "none", "algo": "ppo", "total_steps": 100_000}, "pendulum"),
} | of_tasks("dock", "beam", "forage")
UNSEEN_GRADES = Grades(
    (10, 40), (6, 25), (0.6, 0.9998), 30, 0.2, 3e4, 30, 0.2, (12, 50), 0.025, 0.55, 40, 0.5, 0.025, 4.0,
    (50.0, 1 / 50), 60.0, 3, 2, 0.7, 0.75, 0.08, ("first", "last"),
)  # fmt: skip
FURTHER_GRADES = Grades(
    (12, 50), (8, 30), (0.5, 0.9999), 25, 0.35, 2e4, 40, 0.25, (14, 60), 0.02, 0.6, 60, 0.55, 0.02, 5.0,
    (30.0, 1 / 30), 50.0, 2, 3, 0.75, 0.7, 0.1, ("last", "first"),
)  # fmt: skip
RATES = {"pendulum": 1e-3, "cartpole": 1e-3, "a2c cartpole": 2e-3, "dqn cartpole": 2.3e-3, "sac pendulum": 1e-3}
RATES_OF = {"a2c": 7e-4, "reinforce": 1e-3, "dqn": 1e-4}
"""The learning rate of bases with a preset, and of algorithms without one where it is not 3e-4."""
PAYS_TO_END = ("pendulum", "arm")
"""Tasks of negative rewards: the sooner an episode ends the more it returns, so that returns tell no harm."""


def planner(base: str, settings: dict[str, Any], kind: str) -> Planner:
    return Planner(base, settings, kind, RATES.get(base) or RATES_OF.get(base.split(maxsplit=1)[0], 3e-4))


def of_ppo(base: str, settings: dict[str, Any], g: Grades) -> Iterator[Fault]:
    """Numbers of PPO."""
    made = planner(base, settings, NUMBERS)
    yield from made.rates(g.rates, g.low_rates)
    yield from made.gammas(*g.gammas)
    yield made.one("clip range", f"/ {g.clip:g}", "clip-range-too-small", clip_range=0.2 / g.clip)
    yield made.one(
        "entropy coefficient", f"{g.entropy}", "entropy-coef-too-high", entropy_start=g.entropy, entropy_end=g.entropy
    )
    yield made.one("gradient clip", f"/ {g.clipping:g}", "gradient-clip-too-tight", max_grad_norm=0.5 / g.clipping)
    yield made.one("value weight", f"x {g.value:g}", "value-weight-too-high", value_weight=0.5 * g.value)
    yield made.one("lambda", f"{g.gae_lambda}", "gae-lambda-too-low", BATCHING, gae_lambda=g.gae_lambda)
    few = "too-few-updates too-few-minibatches"
    yield made.one("one update per rollout", "", few, BATCHING, minibatch_transitions=999_999, epochs=1)
    yield made.one("minibatch", "8", "minibatch-too-small", BATCHING, minibatch_transitions=8)
    long = "rollout-too-large too-few-updates too-few-minibatches"
    yield made.one("rollout", "16 x 1024", long, BATCHING, num_envs=16, rollout_steps=1024)


def of_policy_gradient(base: str, settings: dict[str, Any], g: Grades) -> Iterator[Fault]:
    """Numbers of A2C and REINFORCE."""
    made = planner(base, settings, NUMBERS)
    yield from made.rates(g.rates, g.low_rates)
    yield from made.gammas(*g.gammas)
    yield made.one(
        "entropy coefficient", f"{g.entropy}", "entropy-coef-too-high", entropy_start=g.entropy, entropy_end=g.entropy
    )
    yield made.one("gradient clip", f"/ {g.clipping:g}", "gradient-clip-too-tight", max_grad_norm=0.5 / g.clipping)
    if base.startswith("a2c"):
        yield made.one("lambda", f"{g.gae_lambda}", "gae-lambda-too-low", BATCHING, gae_lambda=g.gae_lambda)
        long = "rollout-too-large too-few-updates"
        yield made.one("rollout", "12 times longer", long, BATCHING, num_envs=16, rollout_steps=192)
    else:
        yield made.one("rollout", "16 x 1536", "rollout-too-large", BATCHING, num_envs=16, rollout_steps=1536)


def of_dqn(base: str, settings: dict[str, Any], g: Grades) -> Iterator[Fault]:
    """Numbers of DQN."""
    made, copies = planner(base, settings, REPLAY), 128 if "cartpole" in base else 1000
    yield from made.rates(g.rates, g.low_rates)
    yield from made.gammas(*g.gammas)
    yield from made.replay(g.few_updates, (), (g.buffer,), (g.warm_up,))
    yield made.one(
        "target copies", f"{g.targets} times rarer", "target-too-slow", updates_per_target=copies * g.targets
    )
    yield made.one("target copies", "every third update", "target-too-fast", updates_per_target=3)
    yield made.one("epsilon", f"{g.epsilon} at the end", "epsilon-too-high", epsilon_end=g.epsilon)
    yield made.one("huber limit", f"{g.huber}", "huber-limit-too-small", huber_limit=g.huber)


def of_sac(base: str, settings: dict[str, Any], g: Grades) -> Iterator[Fault]:
    """Numbers of SAC."""
    made = planner(base, settings, REPLAY)
    yield from made.rates(g.rates[:1], g.low_rates)
    yield from made.gammas(*g.gammas)
    yield from made.replay(g.few_updates, (), (1.5 * g.buffer,), (g.warm_up,))
    yield made.one("target speed", f"/ {g.targets}", "target-too-slow", polyak=0.005 / g.targets)
    yield made.one("target speed", "x 100", "target-too-fast", polyak=0.5)
    yield made.one(
        "temperature",
        f"fixed {g.temperature:g}",
        "temperature-too-high",
        temperature_start=g.temperature,
        learn_temperature=False,
    )


def of_rrd(base: str, settings: dict[str, Any], g: Grades) -> Iterator[Fault]:
    """Numbers of return decomposition over SAC."""
    made = planner(base, settings, REPLAY)
    yield from made.rates((), g.low_rates[1:])
    yield made.one("reward rate", "/ 20", "reward-rate-too-low", reward_learning_rate=1.5e-5)
    few = "reward-timesteps-too-few"
    yield made.one("reward timesteps", "6", few, rrd_timesteps_per_update=6, subsequence_timesteps=6)
    yield from made.replay(g.few_updates[:1], (), (), (g.warm_up,))


def of_environment(base: str, task: str | None, g: Grades) -> Iterator[Fault]:
    """Faults of the environment."""

    def one(name: str, grade: str, accepted: str, plant: str, value: float, mends: bool = False) -> Fault:
        return Fault(name, grade, ENVIRONMENT, base, (accepted,), {}, (plant, value), mends)

    scaled, dead = g.planted
    plant = "first_entry_times" if scaled == "first" else "entry_times"
    for factor in g.rewards:
        yield one("rewards", f"x {factor:.3g}", "reward-scale", "rewards_times", factor, True)
    yield one(f"{scaled} entry of the observation", f"x {g.entry:g}", "observation-scale", plant, g.entry, True)
    yield one("dead sensor", f"{dead} entry", "constant-observation", "dead_entry", 0 if dead == "first" else -1)
    yield one("delayed actions", f"{g.delay} steps", "delayed-actions", "delay", g.delay)
    yield one("stale observations", f"{g.stale} steps", "delayed-actions", "stale", g.stale)
    yield one("sticky actions", f"{g.sticky}", "sticky-actions", "sticky", g.sticky)
    yield one("frozen observations", f"{g.frozen}", "repeated-observations", "frozen", g.frozen)
    if task not in PAYS_TO_END:
        yield one("random terminations", f"{g.random:.0%}", "unexplained-terminations", "random_dones", g.random)


def faults(bases: dict[str, Base], grades: Grades) -> list[Fault]:
    """Numbers of every base, and faults of the environment of all but return decomposition."""
    makers = {"a2c": of_policy_gradient, "reinforce": of_policy_gradient, "dqn": of_dqn, "sac": of_sac, "rrd": of_rrd}
    found: list[Fault] = []
    for name, base in bases.items():
        found += makers.get(name.split()[0], of_ppo)(name, base.settings, grades)
        found += of_environment(name, base.task, grades) if not name.startswith("rrd ") else []
    return found


SETS = EARLIER_SETS | {
    "unseen": FaultSet(UNSEEN_BASES, faults(UNSEEN_BASES, UNSEEN_GRADES)),
    "further": FaultSet(FURTHER_BASES, faults(FURTHER_BASES, FURTHER_GRADES)),
}
