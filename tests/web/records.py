"""Run directories for the page and the report, written without training."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any


def line(iteration: int, **changes: Any) -> dict[str, Any]:
    """One record; the return of iteration i is 10 i, 8 x 32 steps each."""
    return {
        "iteration": iteration,
        "env_steps": 256 * (iteration + 1),
        "episode_return": 10.0 * iteration,
        "episode_return_std": 2.0,
        "policy_loss": math.sin(iteration),
        "entropy": 0.69,
        "parameters_digest": "12345678",
        "collect_seconds": 0.25,
        "update_seconds": 0.5,
        "wait_seconds": 0.25,
        "steps_per_second": 256.0,
        **changes,
    }


def plan(iterations: int = 20, seed: int = 0, **values: Any) -> dict[str, Any]:
    """A plan of 8 envs x 32 steps in 4 minibatches of 64, 2 epochs."""
    numbers = {
        "num_envs": (8, "envs"),
        "rollout_steps": (32, "steps"),
        "rollout_transitions": (256, "transitions"),
        "minibatches": (4, "minibatches"),
        "minibatch_transitions": (64, "transitions"),
        "epochs": (2, "epochs"),
        "updates_per_iteration": (8, "updates"),
        "reuse": (2, "updates per transition"),
        "iterations": (iterations, "iterations"),
        "actual_steps": (256 * iterations, "steps"),
        "seed": (seed, ""),
        **{name: (value, "") for name, value in values.items()},
    }
    quantities = {
        name: {"value": value, "unit": unit, "reason": f"why {name}", "source": "derived"}
        for name, (value, unit) in numbers.items()
    }
    return {"regime": "on-policy", "algo": "ppo", "quantities": quantities, "warnings": [], "alternatives": []}


def make_run(
    folder: Path,
    lines: int | list[dict[str, Any]] = 20,
    *,
    env: str = "CartPole-v1",
    events: list[dict[str, Any]] | None = None,
    **of_plan: Any,
) -> Path:
    """A run directory with its plan, config, metrics and events."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"env: {json.dumps(env)}\n")
    (folder / "plan.json").write_text(json.dumps(plan(**of_plan)))
    records = [line(i) for i in range(lines)] if isinstance(lines, int) else lines
    append(folder / "metrics.jsonl", *records)
    append(folder / "events.jsonl", *(events or []))
    return folder


def append(path: Path, *values: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(value) + "\n" for value in values)


def event(kind: str, iteration: int = 0, message: str = "", **details: Any) -> dict[str, Any]:
    return {"kind": kind, "iteration": iteration, "message": message, **details, "unix_seconds": 1000.0 + iteration}


ADVICE = event(
    "advice",
    7,
    "the policy is collapsing",
    finding="entropy-collapse",
    severity="warning",
    evidence="entropy fell from 0.69 to 0.02 nats in 40 iterations",
    cause="the entropy bonus is 0",
    flags=["--entropy-start 0.01"],
)
