"""Compares the forms of reward components with the plain sum over tasks and seeds.

python benchmarks/components.py [--only TASK ...] [--forms FORM ...] [--seeds 20 21 22 23 24] [--minutes 9]
    [--json benchmarks/results/components.json]

One unit is one run of a task in a form with a seed. Units on file are left out, so a call that was stopped goes on.
Settings were chosen on seeds below 15; seeds 20 to 24 judge. The two MO-Gymnasium tasks need the extra `mo`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from batchwright.api import set_up_jax

set_up_jax()

import numpy as np  # noqa: E402

import batchwright  # noqa: E402
from batchwright.core.streams import Streams  # noqa: E402
from batchwright.learn import weighting  # noqa: E402
from batchwright.on_policy.on_policy_factory import make_on_policy_learner  # noqa: E402
from batchwright.on_policy.on_policy_learner import OnPolicyLearner  # noqa: E402

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from peers.machine import describe  # noqa: E402

EVAL_EPISODES, EVAL_SEED = 20, 1000
LAST_SHARE = 0.1
"""Returns of components are means over this last share of the iterations."""


@dataclass(frozen=True)
class Task:
    """A task: what is trained, for how long, and by what it is judged."""

    env: str
    components: tuple[str, ...]
    total_steps: int
    target: str = "total"
    judged_by: str = "return"
    """`return`, or `success`: the target's own measure."""
    weights: tuple[str, ...] | None = None
    """Stated weights of every form, the plain sum included."""
    settings: dict[str, Any] = field(default_factory=dict)


SMALL = {"num_envs": 16, "rollout_steps": 64, "minibatches": 4, "epochs": 4, "hidden": (32,), "learning_rate": 0.003}
SYNC = {"engine": "gymnasium-sync"}
CHEETAH = ("reward_forward", "reward_ctrl")
TASKS = {
    "HalfCheetah-v5": Task("HalfCheetah-v5", CHEETAH, 60_000, settings=SYNC),
    "Hopper-v5": Task("Hopper-v5", ("reward_forward", "reward_ctrl", "reward_survive"), 60_000, settings=SYNC),
    "InvertedDoublePendulum-v5": Task(
        "InvertedDoublePendulum-v5",
        ("reward_survive", "distance_penalty", "velocity_penalty"),
        40_000,
        settings={**SYNC, "preset": "ppo-hopper"},
    ),
    "Colony-v0": Task("Colony-v0", ("migration", "growth", "upkeep", "success"), 150_000, settings={"engine": "jax"}),
    "mo-reacher-v5": Task(
        "mo-reacher-v5", tuple(f"reward[{k}]" for k in range(4)), 20_000, settings={**SYNC, "num_envs": 8}
    ),
    "deep-sea-treasure-v0": Task(
        "mo_gymnasium:deep-sea-treasure-v0", ("reward[0]", "reward[1]"), 20_000, settings={**SYNC, "num_envs": 8}
    ),
    "TwoObjectives-v0": Task(
        "TwoObjectives-v0",
        ("large", "small"),
        60_000,
        target="small",
        judged_by="success",
        settings={**SMALL, "engine": "jax", "gamma": 0.5},
    ),
    "Courier": Task(
        f"{HERE / 'component_tasks.py'}:courier",
        ("arrive", "progress", "effort"),
        100_000,
        target="success",
        judged_by="success",
        settings={**SMALL, "engine": "jax"},
    ),
    "HalfCheetah-v5, ctrl x 30": Task("HalfCheetah-v5", CHEETAH, 60_000, weights=("1", "30"), settings=SYNC),
}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {"components": ("none",)},
    "default": {},
    "balanced": {"component_balance": True},
    "learned": {"component_weighting": "learned"},
}


def wishes(task: Task, form: str) -> dict[str, Any]:
    """The settings of a task in a form; stated weights are those of the sum, too, which then is one of components."""
    found = {"components": task.components, "total_steps": task.total_steps, **task.settings, **FORMS[form]}
    if form == "plain" and task.weights is None:
        return found
    found["components"] = task.components
    if task.weights is not None:
        found["component_weights"] = task.weights
    if form.startswith("learned"):
        found["component_target"] = task.target
    return found


def make_learner(task: Task, form: str) -> OnPolicyLearner:
    """The learner of all seeds of a task in a form: it compiles once."""
    settings = wishes(task, form)
    preset = settings.pop("preset", None)
    return make_on_policy_learner(batchwright.plan(task.env, preset=preset, **settings), task.env)


def one(learner: OnPolicyLearner, seed: int, evaluator: Any) -> dict[str, Any]:
    """One run: its final evaluation, and how shares and returns of components developed."""
    learner.streams = Streams(seed)
    state, records, began = learner.start(), [], time.perf_counter()
    while not learner.finished(state):
        state, result = learner.iterate(state)
        records.append(learner.record(state, result, 1.0))
    seconds = time.perf_counter() - began
    found = evaluator(state.train.params, state.obs_stats(learner.normalize_obs), EVAL_SEED)
    success = found.success
    named = [name for name in records[-1] if name.startswith("component/")]
    last = records[-max(1, int(LAST_SHARE * len(records))) :]
    return {
        "seed": seed,
        "return": float(found.returns.mean()),
        "success": float(np.nanmean(success)) if np.isfinite(success).any() else None,
        "env_steps": int(state.counters.env_steps),
        "seconds": round(seconds, 1),
        "last": {name: float(np.mean([record[name] for record in last if name in record])) for name in named},
        "first": {name: records[0][name] for name in named if name in records[0]},
    }


def random_score(learner: OnPolicyLearner, evaluator: Any) -> dict[str, Any]:
    """The evaluation of an untrained policy that samples its actions: what a score is measured from."""
    learner.streams = Streams(0)
    state = learner.start()
    found = evaluator(state.train.params, state.obs_stats(learner.normalize_obs), EVAL_SEED, False)
    success = found.success
    return {
        "return": float(found.returns.mean()),
        "success": float(np.nanmean(success)) if np.isfinite(success).any() else None,
    }


@contextlib.contextmanager
def _held(lock: Path | None) -> Iterator[None]:
    """Alone among measurements that use the same lock file."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _set_constants(texts: list[str]) -> None:
    """Constants of the learned weighting, for the figures of decision 12."""
    for text in texts:
        name, value = text.split("=")
        setattr(weighting, name, type(getattr(weighting, name))(float(value)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--forms", nargs="+", default=list(FORMS), choices=list(FORMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[20, 21, 22, 23, 24])
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no unit after so many; the next call goes on")
    parser.add_argument("--constants", nargs="+", default=[], help="NAME=VALUE of learn/weighting.py")
    parser.add_argument("--lock", type=Path, help="a file that measurements on this machine take turns by")
    parser.add_argument("--json", type=Path, default=HERE / "results" / "components.json")
    stated = parser.parse_args()
    _set_constants(stated.constants)
    report = json.loads(stated.json.read_text()) if stated.json.exists() else _new_report()
    report["tasks"] |= {name: task for name, task in _judged().items() if name not in report["runs"]}
    end = time.monotonic() + 60 * stated.minutes
    for name in stated.only:
        for form in stated.forms:
            runs = report["runs"].setdefault(name, {}).setdefault(form, [])
            missing = [seed for seed in stated.seeds if seed not in [run["seed"] for run in runs]]
            if not missing or time.monotonic() > end:
                continue
            with _held(stated.lock):
                learner = make_learner(TASKS[name], form)
                evaluator = learner.session.make_evaluator(EVAL_EPISODES)
                report["random"].setdefault(name, random_score(learner, evaluator))
                for seed in missing:
                    if time.monotonic() > end:
                        break
                    runs.append(one(learner, seed, evaluator))
                    print(name, form, {key: value for key, value in runs[-1].items() if key != "first"}, flush=True)
                    report["runs"][name][form] = sorted(runs, key=lambda run: run["seed"])
                    stated.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
                learner.close()


def _new_report() -> dict[str, Any]:
    measured = datetime.now().isoformat(timespec="seconds")
    return {"measured": measured, "machine": describe(), "tasks": _judged(), "random": {}, "runs": {}}


def _judged() -> dict[str, dict[str, Any]]:
    """How each task is trained and judged."""
    return {
        name: {"steps": task.total_steps, "target": task.target, "judged_by": task.judged_by, "weights": task.weights}
        for name, task in TASKS.items()
    }


if __name__ == "__main__":
    main()
