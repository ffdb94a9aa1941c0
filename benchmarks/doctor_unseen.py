"""Ordinary faults in three tasks, grades and seeds that no threshold was set on: the set `unseen`.

Faults of the environment are planted under every algorithm, in the way that a user's wrapper would have them.
"""

from __future__ import annotations

from collections.abc import Iterator

from doctor_faults import BATCHING, ENVIRONMENT, NUMBERS, REPLAY, SICK, Base, Fault, FaultSet
from doctor_fresh import SETS as EARLIER_SETS
from doctor_ordinary import Planner

SMALL = {"hidden": "64,64"}
BASES = {
    "pendulum": Base("Pendulum-v1", {"preset": "ppo-pendulum", "total_steps": 60_000}, "pendulum"),
    "cartpole, no preset": Base("CartPole-v1", {"preset": "none", "algo": "ppo", "total_steps": 50_000}, "cartpole"),
    "lift, no preset": Base(f"{SICK}:lift", {"algo": "ppo", "total_steps": 80_000}, "lift"),
    "arm, no preset": Base(f"{SICK}:arm", {"algo": "ppo", "total_steps": 80_000}, "arm"),
    "keys, no preset": Base(f"{SICK}:keys", {"algo": "ppo", "total_steps": 80_000}, "keys"),
    "a2c cartpole": Base("CartPole-v1", {"preset": "a2c-cartpole", "total_steps": 90_000}, "cartpole"),
    "a2c keys, no preset": Base(f"{SICK}:keys", {"algo": "a2c", "total_steps": 250_000}, "keys"),
    "reinforce lift, no preset": Base(f"{SICK}:lift", {"algo": "reinforce", "total_steps": 500_000}, "lift"),
    "dqn lift, no preset": Base(f"{SICK}:lift", SMALL | {"algo": "dqn", "total_steps": 40_000}, "lift"),
    "dqn cartpole": Base("CartPole-v1", SMALL | {"preset": "dqn-cartpole", "total_steps": 40_000}, "cartpole"),
    "sac pendulum": Base("Pendulum-v1", {"preset": "sac-pendulum", "total_steps": 8_000}, "pendulum"),
    "sac arm, no preset": Base(f"{SICK}:arm", SMALL | {"algo": "sac", "total_steps": 10_000}, "arm"),
    "rrd arm": Base(
        f"{SICK}:arm",
        SMALL | {"algo": "sac", "redistribute": "rrd", "episodic_reward": True, "total_steps": 12_000},
        "arm",
    ),
}
RATES = {
    "pendulum": 1e-3,
    "cartpole, no preset": 3e-4,
    "lift, no preset": 3e-4,
    "arm, no preset": 3e-4,
    "keys, no preset": 3e-4,
    "a2c cartpole": 2e-3,
    "a2c keys, no preset": 7e-4,
    "reinforce lift, no preset": 1e-3,
    "dqn lift, no preset": 1e-4,
    "dqn cartpole": 2.3e-3,
    "sac pendulum": 1e-3,
    "sac arm, no preset": 3e-4,
    "rrd arm": 3e-4,
}
"""The learning rate of each base."""


PAYS_TO_END = ("pendulum", "arm")
"""Tasks of negative rewards: the sooner an episode ends the more it returns, so that returns tell no harm."""


def planner(base: str, kind: str) -> Planner:
    return Planner(base, BASES[base].settings, kind, RATES[base])


def of_ppo(base: str) -> Iterator[Fault]:
    """Numbers of PPO."""
    made = planner(base, NUMBERS)
    yield from made.rates((10, 40), (6, 25))
    yield from made.gammas(0.6, 0.9998)
    yield made.one("clip range", "/ 30", "clip-range-too-small", clip_range=0.0067)
    yield made.one("entropy coefficient", "0.2", "entropy-coef-too-high", entropy_start=0.2, entropy_end=0.2)
    yield made.one("gradient clip", "/ 3e4", "gradient-clip-too-tight", max_grad_norm=1.7e-5)
    yield made.one("value weight", "x 30", "value-weight-too-high", value_weight=15.0)
    yield made.one("lambda", "0.2", "gae-lambda-too-low", BATCHING, gae_lambda=0.2)
    few = "too-few-updates too-few-minibatches"
    yield made.one("one update per rollout", "", few, BATCHING, minibatch_transitions=999_999, epochs=1)
    yield made.one("minibatch", "8", "minibatch-too-small", BATCHING, minibatch_transitions=8)
    long = "rollout-too-large too-few-updates too-few-minibatches"
    yield made.one("rollout", "16 x 1024", long, BATCHING, num_envs=16, rollout_steps=1024)


def of_policy_gradient(base: str) -> Iterator[Fault]:
    """Numbers of A2C and REINFORCE."""
    made = planner(base, NUMBERS)
    yield from made.rates((10, 40), (6, 25))
    yield from made.gammas(0.6, 0.9998)
    yield made.one("entropy coefficient", "0.2", "entropy-coef-too-high", entropy_start=0.2, entropy_end=0.2)
    yield made.one("gradient clip", "/ 3e4", "gradient-clip-too-tight", max_grad_norm=1.7e-5)
    if base.startswith("a2c"):
        yield made.one("lambda", "0.2", "gae-lambda-too-low", BATCHING, gae_lambda=0.2)
        long = "rollout-too-large too-few-updates"
        yield made.one("rollout", "12 times longer", long, BATCHING, num_envs=16, rollout_steps=192)
    else:
        yield made.one("rollout", "16 x 1536", "rollout-too-large", BATCHING, num_envs=16, rollout_steps=1536)


def of_dqn(base: str) -> Iterator[Fault]:
    """Numbers of DQN."""
    made, copies = planner(base, REPLAY), 128 if "cartpole" in base else 1000
    yield from made.rates((10, 40), (6, 25))
    yield from made.gammas(0.6, 0.9998)
    yield from made.replay((12, 50), (), (0.025,), (0.55,))
    yield made.one("target copies", "40 times rarer", "target-too-slow", updates_per_target=copies * 40)
    yield made.one("target copies", "every third update", "target-too-fast", updates_per_target=3)
    yield made.one("epsilon", "0.5 at the end", "epsilon-too-high", epsilon_end=0.5)
    yield made.one("huber limit", "0.025", "huber-limit-too-small", huber_limit=0.025)


def of_sac(base: str) -> Iterator[Fault]:
    """Numbers of SAC."""
    made = planner(base, REPLAY)
    yield from made.rates((10,), (6, 25))
    yield from made.gammas(0.5, 0.9998)
    yield from made.replay((12, 50), (), (0.04,), (0.55,))
    yield made.one("target speed", "/ 30", "target-too-slow", polyak=0.005 / 30)
    yield made.one("target speed", "x 100", "target-too-fast", polyak=0.5)
    yield made.one("temperature", "fixed 4", "temperature-too-high", temperature_start=4.0, learn_temperature=False)


def of_rrd(base: str) -> Iterator[Fault]:
    """Numbers of return decomposition over SAC."""
    made = planner(base, REPLAY)
    yield from made.rates((), (10,))
    yield made.one("reward rate", "/ 20", "reward-rate-too-low", reward_learning_rate=1.5e-5)
    few = "reward-timesteps-too-few"
    yield made.one("reward timesteps", "6", few, rrd_timesteps_per_update=6, subsequence_timesteps=6)
    yield from made.replay((12,), (), (), (0.65,))


def of_environment(base: str) -> Iterator[Fault]:
    """Faults of the environment."""

    def one(name: str, grade: str, accepted: str, plant: str, value: float, mends: bool = False) -> Fault:
        return Fault(name, grade, ENVIRONMENT, base, (accepted,), {}, (plant, value), mends)

    for factor in (50.0, 1 / 50):
        yield one("rewards", f"x {factor:.3g}", "reward-scale", "rewards_times", factor, True)
    yield one("first entry of the observation", "x 60", "observation-scale", "first_entry_times", 60.0, True)
    yield one("dead sensor", "last entry", "constant-observation", "dead_entry", -1)
    yield one("delayed actions", "3 steps", "delayed-actions", "delay", 3)
    yield one("stale observations", "2 steps", "delayed-actions", "stale", 2)
    yield one("sticky actions", "0.7", "sticky-actions", "sticky", 0.7)
    yield one("frozen observations", "0.75", "repeated-observations", "frozen", 0.75)
    if BASES[base].task not in PAYS_TO_END:
        yield one("random terminations", "8%", "unexplained-terminations", "random_dones", 0.08)


def faults() -> list[Fault]:
    """Numbers of every base, and faults of the environment of all but return decomposition."""
    makers = {"a2c": of_policy_gradient, "reinforce": of_policy_gradient, "dqn": of_dqn, "sac": of_sac, "rrd": of_rrd}
    found: list[Fault] = []
    for base in BASES:
        found += makers.get(base.split()[0], of_ppo)(base)
        found += of_environment(base) if base.split()[0] != "rrd" else []
    return found


SETS = EARLIER_SETS | {"unseen": FaultSet(BASES, faults())}
