"""The diagram rollout -> minibatches -> updates as stages, drawn by the page and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchwright.config.schema import DATASET, ON_POLICY, REPLAY
from batchwright.planning.quantity import counted

Number = int | float | None


def picture(plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """The stages from left to right with the numbers of the plan, and the loop; None for a damaged plan.

    A stage has `title`, `lines`, and `grid` [rows, columns] or `cells` where there is something to count.
    """
    quantities = plan.get("quantities")
    if not isinstance(quantities, dict):
        return None
    values = {name: _number(q.get("value")) for name, q in quantities.items() if isinstance(q, dict)}
    drawn = {ON_POLICY: _on_policy, REPLAY: _replay, DATASET: _dataset}.get(str(plan.get("regime")))
    return None if drawn is None else drawn(values)


def _on_policy(values: dict[str, Number]) -> dict[str, Any]:
    envs, steps, episodes = values.get("num_envs"), values.get("rollout_steps"), values.get("rollout_episodes")
    rollout, parts, size = (values.get(n) for n in ("rollout_transitions", "minibatches", "minibatch_transitions"))
    agents = f" x {_of(values['num_agents'], 'agent')}" if values.get("num_agents") else ""
    if episodes:
        collected = f"{_of(episodes, 'episode')} from {_of(envs, 'env')}"
    else:
        collected = f"{_of(envs, 'env')} x {_of(steps, 'step')}{agents}"
    most = "at most " if episodes and rollout is not None else ""
    # Near-equal minibatches differ by one sequence, which is one transition without recurrence.
    even = not (rollout and parts and size) or rollout == parts * size
    smaller = "" if even or size is None else f"{_n(size - (values.get('seq_length') or 1))}-"
    cut = f"{_of(parts, 'minibatch')} of {smaller}{_n(size)}" if parts and size else "known once episodes are collected"
    epochs = values.get("epochs")
    return {
        "stages": [
            {
                "title": "Collect",
                "lines": [collected, f"{most}{_of(rollout, 'transition')}" if rollout else "whole episodes"],
                "grid": [envs, steps or episodes],
            },
            {
                "title": "Minibatches",
                "lines": [cut, "shuffled" if epochs == 1 else f"shuffled in each of {_n(epochs)} epochs"],
                "cells": parts,
            },
            {
                "title": "Update",
                "lines": [
                    f"{most}{_of(values.get('updates_per_iteration'), 'optimiser step')}",
                    f"each transition used {_of(values.get('reuse'), 'time')}",
                ],
                "cells": values.get("updates_per_iteration"),
            },
        ],
        "loop": f"{_of(values.get('iterations'), 'iteration')}; the rollout is discarded after its updates",
    }


def _replay(values: dict[str, Number]) -> dict[str, Any]:
    envs, steps = values.get("num_envs"), values.get("rollout_steps")
    draws = [f"{_of(values.get('transitions_per_update'), 'transition')} at random"]
    if values.get("subsequences_per_update"):
        parts, length = values["subsequences_per_update"], values.get("subsequence_timesteps")
        draws.append(f"reward network: {_of(parts, 'subsequence')} x {_of(length, 'timestep')}")
    return {
        "stages": [
            {
                "title": "Collect",
                "lines": [
                    f"{_of(envs, 'env')} x {_of(steps, 'step')}",
                    _of(values.get("steps_per_iteration"), "transition"),
                ],
                "grid": [envs, steps],
            },
            {"title": "Replay buffer", "lines": [f"up to {_of(values.get('replay_transitions'), 'transition')}"]},
            {
                "title": "Update",
                "lines": [_of(values.get("updates_per_iteration"), "optimiser step"), *draws],
                "cells": values.get("updates_per_iteration"),
            },
        ],
        "loop": f"{_of(values.get('iterations'), 'iteration')}; {_n(values.get('updates_per_step'))} updates per step, "
        f"{_n(values.get('reuse'))} draws per transition",
    }


def _dataset(values: dict[str, Number]) -> dict[str, Any]:
    micro, accumulation = values.get("samples_per_step"), values.get("accumulation")
    return {
        "stages": [
            {
                "title": "Recorded data",
                "lines": [
                    f"{_of(values.get('datasets'), 'dataset')}, {_of(values.get('cameras'), 'camera')}",
                    _of(values.get("workers"), "loader process"),
                ],
            },
            {
                "title": "Micro-batches",
                "lines": [f"{_of(accumulation, 'micro-batch')} of {_of(micro, 'sample')}"],
                "cells": accumulation,
            },
            {"title": "Update", "lines": [f"{_of(values.get('samples_per_update'), 'sample')} per update"]},
        ],
        "loop": f"{_of(values.get('total_updates'), 'update')} in all",
    }


def _number(value: Any) -> Number:
    return value if type(value) in (int, float) else None


def _of(value: Number, noun: str) -> str:
    """A number with its noun, digits grouped."""
    return _n(value) + counted(1 if value == 1 else 2, noun).lstrip("-.0123456789")


def _n(value: Number) -> str:
    if value is None:
        return "?"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
