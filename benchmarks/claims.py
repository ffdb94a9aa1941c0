"""Measures the claims for batches of whole episodes against single-episode updates, on CartPole-v1 over several seeds.

python benchmarks/claims.py [--seeds 5] [--pieces 1] [--json benchmarks/results/claims.json]

Four modes, so that the two things which "batch training" changes are told apart: episodes per rollout (1 or 10) and use
of a rollout (one update on all of it, or 4 epochs of minibatches of 64).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from batchwright.api import set_up_jax

set_up_jax()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

import batchwright  # noqa: E402
from batchwright.core.streams import Streams  # noqa: E402
from batchwright.data.rollout import Rollout  # noqa: E402
from batchwright.envs.engines.jax_engine import JaxEngine  # noqa: E402
from batchwright.envs.tasks import OWN_TASKS  # noqa: E402
from batchwright.envs.tasks.jax_task import JaxTask  # noqa: E402
from batchwright.on_policy.on_policy_factory import make_on_policy_learner  # noqa: E402
from batchwright.on_policy.on_policy_learner import OnPolicyLearner  # noqa: E402
from batchwright.on_policy.on_policy_state import OnPolicyState  # noqa: E402
from batchwright.on_policy.on_policy_update import make_minibatch_step, prepare_rollout  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from peers.machine import describe  # noqa: E402

ENV = "CartPole-v1"
WHOLE, PARTS = {"epochs": 1, "minibatch_transitions": 999_999}, {"epochs": 4, "minibatch_transitions": 64}
MODES = {
    "1 episode, 1 update": {"rollout_episodes": 1, **WHOLE},
    "1 episode, 4 epochs of 64": {"rollout_episodes": 1, **PARTS},
    "10 episodes, 1 update": {"rollout_episodes": 10, **WHOLE},
    "10 episodes, 4 epochs of 64": {"rollout_episodes": 10, **PARTS},
}
SINGLE, BATCH = "1 episode, 1 update", "10 episodes, 4 epochs of 64"
EQUAL_STEPS, EQUAL_UPDATES, MOST_STEPS = 40_000, 500, 150_000
SOLVED = 475.0
OUTLIER_SHARE, OUTLIER_REWARD = 0.02, -20.0
GRADIENT_ROLLOUTS = 30
STAGES = (0, 10_000, 40_000)


class OutlierState(NamedTuple):
    task: Any
    corrupt: jax.Array


class WithOutliers(JaxTask):
    """A task in which a share of the episodes pays a wrong reward in every step, as a broken sensor would."""

    def __init__(self, task: JaxTask) -> None:
        self._task = task
        self.observation, self.action, self.max_episode_steps = task.observation, task.action, task.max_episode_steps

    def init(self, key: Any) -> OutlierState:
        corrupt = jax.random.uniform(jax.random.fold_in(key, 1)) < OUTLIER_SHARE
        return OutlierState(self._task.init(key), corrupt)

    def step(self, state: OutlierState, action: Any, key: Any) -> tuple[OutlierState, Any, Any]:
        after, reward, terminated = self._task.step(state.task, action, key)
        return state._replace(task=after), jnp.where(state.corrupt, OUTLIER_REWARD, reward), terminated

    def observe(self, state: OutlierState) -> Any:
        return self._task.observe(state.task)


def make_learner(mode: str, outliers: bool = False) -> OnPolicyLearner:
    """The parts of a run of one mode; all else at its default, `total_steps` beyond what is used."""
    plan = batchwright.plan(ENV, engine="jax", total_steps=MOST_STEPS, **MODES[mode])
    learner = make_on_policy_learner(plan, ENV)
    if outliers:
        task = WithOutliers(OWN_TASKS[ENV].load())
        learner.engine = learner.session.engine = JaxEngine(task, learner.engine.num_envs)
        learner.session.set_collect_steps(learner.collect_steps)
    return learner


def learn(
    learner: OnPolicyLearner, seed: int, enough: Callable[[OnPolicyState, dict[str, Any]], bool]
) -> dict[str, Any]:
    """One run: where it stood at equal data and at equal updates, and what it took to be solved."""
    learner.streams = learner.session.streams = Streams(seed)
    state, found, seconds = learner.start(), {"seed": seed}, 0.0
    while not enough(state, found):
        began = time.process_time()
        state, _ = learner.iterate(state)
        seconds += time.process_time() - began
        steps, updates = int(state.counters.env_steps), int(state.train.updates)
        now = {
            "steps": steps,
            "updates": updates,
            "processor_seconds": round(seconds, 2),
            "episodes": int(state.counters.episodes),
        }
        if "equal_data" not in found and steps >= EQUAL_STEPS:
            found["equal_data"] = now | {"return": evaluate(state)}
        if "equal_updates" not in found and updates >= EQUAL_UPDATES:
            found["equal_updates"] = now | {"return": evaluate(state)}
        if "solved" not in found and state.mean_return_reaches(SOLVED):
            found["solved"] = now
    found["transitions"], found["updates"] = int(state.counters.transitions), int(state.train.updates)
    return found


@cache
def _evaluator() -> Any:
    plan = batchwright.plan(ENV, engine="jax", num_envs=20, rollout_steps=64, total_steps=1)
    return make_on_policy_learner(plan, ENV).session.make_evaluator(20)


def evaluate(state: OnPolicyState) -> float:
    """Mean return of 20 episodes, exploration off, on the uncorrupted task."""
    return float(_evaluator()(state.train.params, state.obs_stats(False), 1000).returns.mean())


def gradients(seed: int) -> list[dict[str, Any]]:
    """Spread of one update's gradient around its mean, by mode, at several stages of one run of the batch mode."""
    learner = make_learner(BATCH)
    learner.streams = learner.session.streams = Streams(seed)
    gradient = jax.jit(_gradient_of(learner))
    state, rows = learner.start(), []
    for stage in STAGES:
        while int(state.counters.env_steps) < stage:
            state, _ = learner.iterate(state)
        hyper, stats = learner.hyper(state)._replace(value_weight=np.float32(0.0)), state.obs_stats(False)
        drawn: dict[str, list[np.ndarray]] = {"1 episode": [], "minibatch of 64": [], "10 episodes": []}
        for number in range(GRADIENT_ROLLOUTS):
            at = replace(state, counters=state.counters._replace(iteration=np.int64(10_000 + number)))
            rollout = learner.collect_rollout(at, stats).rollout
            rng = np.random.default_rng(number)
            valid = np.flatnonzero(rollout.valid.reshape(-1))
            for name, part, index in (
                ("10 episodes", rollout, None),
                ("1 episode", jax.tree.map(lambda x, e=number % 10: x[:, e : e + 1], rollout), None),
                ("minibatch of 64", rollout, rng.permutation(valid)[:64].astype(np.int32)),
            ):
                drawn[name].append(np.asarray(gradient(state.train, part, stats, hyper, index)))
        rows.append({"seed": seed, "stage_steps": stage, "return": evaluate(state), **_spreads(drawn)})
    return rows


def _gradient_of(learner: OnPolicyLearner) -> Any:
    settings = replace(learner.on_policy_settings.update, minibatches=1)
    step = make_minibatch_step(learner.policy, settings, np.zeros(1, bool))

    def gradient(train: Any, rollout: Rollout, stats: Any, hyper: Any, index: Any) -> jax.Array:
        rows = prepare_rollout(learner.policy, settings, train, rollout, stats, hyper).rows
        minibatch = rows if index is None else jax.tree.map(lambda column: column[index], rows)
        (_, _, total), _ = step((train, jnp.zeros((), bool), jnp.zeros_like(train.params)), minibatch, hyper)
        return total

    return gradient


def _spreads(drawn: dict[str, list[np.ndarray]]) -> dict[str, float]:
    """Summed variance of the gradient's entries, for each way to draw it."""
    return {name: float(np.stack(found).var(0, ddof=1).sum()) for name, found in drawn.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, default=HERE / "results" / "claims.json")
    parser.add_argument("--pieces", type=int, default=10**6, help="stop after so many; the next call goes on")
    stated = parser.parse_args()
    report = json.loads(stated.json.read_text()) if stated.json.exists() else _new_report()
    for name, measure in _pieces():
        if name in report["pieces"]:
            continue
        if stated.pieces == 0:
            return
        stated.pieces -= 1
        report["pieces"][name] = [measure(seed) for seed in range(stated.seeds)]
        stated.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(name, flush=True)


def _new_report() -> dict[str, Any]:
    settings = {"equal_steps": EQUAL_STEPS, "equal_updates": EQUAL_UPDATES, "most_steps": MOST_STEPS, "solved": SOLVED}
    settings |= {"outlier_share": OUTLIER_SHARE, "outlier_reward": OUTLIER_REWARD, "stages": STAGES}
    measured = datetime.now().isoformat(timespec="seconds")
    return {"measured": measured, "machine": describe(), "settings": settings, "pieces": {}}


def _pieces() -> Iterator[tuple[str, Callable[[int], Any]]]:
    """Name and measurement of one seed, for every piece; a learner compiles once for all its seeds."""
    yield "gradients", gradients
    for mode in MODES:
        yield f"learning: {mode}", _learner(mode, False, _all_seen)
    for mode in (SINGLE, BATCH):
        yield f"outliers: {mode}", _learner(mode, True, _data_seen)


def _learner(mode: str, outliers: bool, enough: Any) -> Callable[[int], Any]:
    made: list[OnPolicyLearner] = []

    def measure(seed: int) -> dict[str, Any]:
        if not made:
            made.append(make_learner(mode, outliers))
        return learn(made[0], seed, enough)

    return measure


def _data_seen(state: OnPolicyState, found: dict[str, Any]) -> bool:
    return "equal_data" in found


def _all_seen(state: OnPolicyState, found: dict[str, Any]) -> bool:
    seen = all(name in found for name in ("equal_data", "equal_updates", "solved"))
    return seen or int(state.counters.env_steps) >= MOST_STEPS


if __name__ == "__main__":
    main()
