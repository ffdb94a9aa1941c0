"""Ordinary faults of all algorithms in seeds, grades and tasks that no threshold was set on: the set `fresh`.

Five healthy seeds of each base instead of three: a run is harmed below all of them. `fresh-again` has the same cases
with other seeds, three of them healthy.
"""

from __future__ import annotations

from collections.abc import Iterator

from doctor_faults import BATCHING, ENVIRONMENT, NUMBERS, REPLAY, SICK, Base, Fault, FaultSet
from doctor_ordinary import SETS as EARLIER_SETS
from doctor_ordinary import Planner

SMALL = {"hidden": "64,64"}
BASES = {
    "cartpole": Base("CartPole-v1", {"preset": "ppo-cartpole", "total_steps": 40_000}, "cartpole"),
    "acrobot, no preset": Base("Acrobot-v1", {"preset": "none", "algo": "ppo", "total_steps": 60_000}, "acrobot"),
    "lane, no preset": Base(f"{SICK}:lane", {"algo": "ppo", "total_steps": 60_000}, "lane"),
    "chase, no preset": Base(f"{SICK}:chase", {"algo": "ppo", "total_steps": 80_000}, "chase"),
    "a2c cartpole": Base("CartPole-v1", {"preset": "a2c-cartpole", "total_steps": 90_000}, "cartpole"),
    "a2c collect, no preset": Base(f"{SICK}:collect", {"algo": "a2c", "total_steps": 200_000}, "collect"),
    "reinforce cartpole": Base("CartPole-v1", {"preset": "reinforce-cartpole", "total_steps": 90_000}, "cartpole"),
    "reinforce lane, no preset": Base(f"{SICK}:lane", {"algo": "reinforce", "total_steps": 500_000}, "lane"),
    "dqn cartpole": Base("CartPole-v1", SMALL | {"preset": "dqn-cartpole", "total_steps": 40_000}, "cartpole"),
    "dqn lane, no preset": Base(f"{SICK}:lane", SMALL | {"algo": "dqn", "total_steps": 40_000}, "lane"),
    "sac pendulum": Base("Pendulum-v1", {"preset": "sac-pendulum", "total_steps": 8_000}, "pendulum"),
    "sac chase, no preset": Base(f"{SICK}:chase", SMALL | {"algo": "sac", "total_steps": 10_000}, "chase"),
    "rrd chase": Base(
        f"{SICK}:chase",
        SMALL | {"algo": "sac", "redistribute": "rrd", "episodic_reward": True, "total_steps": 12_000},
        "chase",
    ),
}
RATES = {
    "cartpole": 1e-3,
    "acrobot, no preset": 3e-4,
    "lane, no preset": 3e-4,
    "chase, no preset": 3e-4,
    "a2c cartpole": 2e-3,
    "a2c collect, no preset": 7e-4,
    "reinforce cartpole": 5e-3,
    "reinforce lane, no preset": 1e-3,
    "dqn cartpole": 2.3e-3,
    "dqn lane, no preset": 1e-4,
    "sac pendulum": 1e-3,
    "sac chase, no preset": 3e-4,
    "rrd chase": 3e-4,
}
"""The learning rate of each base."""


def planner(base: str, kind: str) -> Planner:
    return Planner(base, BASES[base].settings, kind, RATES[base])


def of_ppo(base: str) -> Iterator[Fault]:
    """Numbers of PPO."""
    made = planner(base, NUMBERS)
    yield from made.rates((4, 15, 60), (4, 15))
    yield from made.gammas(0.4, 0.9997)
    yield made.one("clip range", "x 5", "clip-range-too-large", clip_range=1.0)
    yield made.one("clip range", "/ 20", "clip-range-too-small", clip_range=0.01)
    yield made.one("entropy coefficient", "0.4", "entropy-coef-too-high", entropy_start=0.4, entropy_end=0.4)
    yield made.one("gradient clip", "/ 2e4", "gradient-clip-too-tight", max_grad_norm=2.5e-5)
    yield made.one("value weight", "/ 50", "values-not-learned", value_weight=0.01)
    yield made.one("lambda", "0.3", "gae-lambda-too-low", BATCHING, gae_lambda=0.3)
    yield made.one("epochs", "30", "too-many-epochs overfitting-the-batch", BATCHING, epochs=30)
    few = "too-few-updates too-few-minibatches"
    yield made.one("one update per rollout", "", few, BATCHING, minibatch_transitions=999_999, epochs=1)
    yield made.one("minibatch", "8", "minibatch-too-small", BATCHING, minibatch_transitions=8)
    small = "rollout-too-small too-few-environments too-many-epochs"
    yield made.one("rollout", "2 x 32", small, BATCHING, num_envs=2, rollout_steps=32, minibatch_transitions=32)


def of_policy_gradient(base: str) -> Iterator[Fault]:
    """Numbers of A2C and REINFORCE."""
    made = planner(base, NUMBERS)
    yield from made.rates((4, 15, 60), (4, 15))
    yield from made.gammas(0.4, 0.9997)
    for coef in (0.05, 0.3):
        yield made.one(
            "entropy coefficient", f"{coef:g}", "entropy-coef-too-high", entropy_start=coef, entropy_end=coef
        )
    yield made.one("gradient clip", "/ 2e4", "gradient-clip-too-tight", max_grad_norm=2.5e-5)
    if base.startswith("a2c"):
        yield made.one("lambda", "0.3", "gae-lambda-too-low", BATCHING, gae_lambda=0.3)
        small = "rollout-too-small too-few-environments"
        yield made.one("rollout", "2 x 16", small, BATCHING, num_envs=2, rollout_steps=16)
        long = "rollout-too-large too-few-updates"
        yield made.one("rollout", "16 times longer", long, BATCHING, num_envs=16, rollout_steps=256)
    else:
        small = "rollout-too-small too-few-environments too-few-episodes"
        yield made.one("rollout", "2 x 32", small, BATCHING, num_envs=2, rollout_steps=32)
        yield made.one("rollout", "16 x 2048", "rollout-too-large", BATCHING, num_envs=16, rollout_steps=2048)


def of_dqn(base: str) -> Iterator[Fault]:
    """Numbers of DQN."""
    made, copies = planner(base, REPLAY), 128 if "cartpole" in base else 1000
    yield from made.rates((4, 15, 60), (4, 15))
    yield from made.gammas(0.4, 0.9997)
    yield from made.replay((15, 60), (), (0.02,), (0.5,))
    for factor in (15, 80):
        yield made.one(
            "target copies", f"{factor} times rarer", "target-too-slow", updates_per_target=round(copies * factor)
        )
    yield made.one("target copies", "every second update", "target-too-fast", updates_per_target=2)
    yield made.one("epsilon", "0.6 at the end", "epsilon-too-high", epsilon_end=0.6)
    yield made.one("epsilon", "ends at once", "epsilon-too-low", epsilon_start=0.02, epsilon_end=0.02, warmup_steps=64)
    yield made.one("huber limit", "0.02", "huber-limit-too-small", huber_limit=0.02)
    yield made.one("minibatch", "8", "minibatch-too-small", transitions_per_update=8)


def of_sac(base: str) -> Iterator[Fault]:
    """Numbers of SAC."""
    made = planner(base, REPLAY)
    yield from made.rates((4, 15), (4, 15))
    yield from made.gammas(0.4, 0.9997)
    yield from made.replay((8, 32), (), (0.03,), (0.5,))
    for factor in (15, 60):
        yield made.one("target speed", f"/ {factor}", "target-too-slow", polyak=0.005 / factor)
    yield made.one("target speed", "x 100", "target-too-fast", polyak=0.5)
    fixed = {"learn_temperature": False}
    yield made.one("temperature", "fixed 3", "temperature-too-high", temperature_start=3.0, **fixed)
    yield made.one("temperature", "fixed 0.002", "temperature-too-low", temperature_start=2e-3, **fixed)
    yield made.one("minibatch", "8", "minibatch-too-small", transitions_per_update=8)


def of_rrd(base: str) -> Iterator[Fault]:
    """Numbers of return decomposition over SAC."""
    made = planner(base, REPLAY)
    yield from made.rates((4, 15), (4, 15))
    yield made.one("reward rate", "/ 15", "reward-rate-too-low", reward_learning_rate=2e-5)
    yield made.one("reward rate", "x 40", "reward-rate-too-high", reward_learning_rate=1.2e-2)
    few = "reward-timesteps-too-few"
    yield made.one("reward timesteps", "8", few, rrd_timesteps_per_update=8, subsequence_timesteps=8)
    yield from made.replay((8,), (), (), (0.7,))


def of_environment(base: str) -> Iterator[Fault]:
    """Faults of the environment."""

    def one(name: str, grade: str, accepted: str, plant: str, value: float, mends: bool = False) -> Fault:
        return Fault(name, grade, ENVIRONMENT, base, (accepted,), {}, (plant, value), mends)

    for factor in (20.0, 1 / 200):
        yield one("rewards", f"x {factor:.3g}", "reward-scale", "rewards_times", factor, True)
    yield one("last entry of the observation", "x 40", "observation-scale", "entry_times", 40.0, True)
    yield one("dead sensor", "first entry", "constant-observation", "dead_entry", 0)
    yield one("delayed actions", "1 step", "delayed-actions", "delay", 1)
    yield one("delayed actions", "4 steps", "delayed-actions", "delay", 4)
    yield one("random terminations", "7%", "unexplained-terminations", "random_dones", 0.07)
    yield one("time limit as termination", "", "time-limit-as-termination", "limit_terminates", 0)


def faults() -> list[Fault]:
    """Numbers of every base, and faults of the environment of PPO, DQN and SAC."""
    makers = {"a2c": of_policy_gradient, "reinforce": of_policy_gradient, "dqn": of_dqn, "sac": of_sac, "rrd": of_rrd}
    found: list[Fault] = []
    for base in BASES:
        algo = base.split()[0]
        found += makers.get(algo, of_ppo)(base)
        found += of_environment(base) if algo not in ("a2c", "reinforce", "rrd") else []
    return found


_FRESH = FaultSet(BASES, faults())
SETS = EARLIER_SETS | {"fresh": _FRESH, "fresh-again": _FRESH}
