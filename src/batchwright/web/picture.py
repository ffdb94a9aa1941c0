"""The diagram rollout -> minibatches -> updates as stages, drawn by the page and the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchwright.config.schema import DATASET, ON_POLICY, REPLAY
from batchwright.planning.episode_plan import EpisodeCut, episode_cut
from batchwright.planning.quantity import Quantity, counted
from batchwright.planning.split import Split

Number = int | float | None


def picture(plan: Mapping[str, Any], collected: tuple[int, int] | None = None) -> dict[str, Any] | None:
    """The stages from left to right with the numbers of the plan, and the loop; None for a damaged plan.

    A stage has `title`, `lines`, and `grid` [rows, columns] or `cells` where there is something to count. `collected`
    are the fewest and the most transitions of the rollouts so far, shown where rollouts are whole episodes.
    """
    quantities = plan.get("quantities")
    if not isinstance(quantities, dict):
        return None
    values = {name: _number(q.get("value")) for name, q in quantities.items() if isinstance(q, dict)}
    if plan.get("regime") == ON_POLICY and values.get("rollout_episodes"):
        return _episodes(values, _cut_of(quantities), collected)
    drawn = {ON_POLICY: _on_policy, REPLAY: _replay, DATASET: _dataset}.get(str(plan.get("regime")))
    return None if drawn is None else drawn(values)


def _on_policy(values: dict[str, Number]) -> dict[str, Any]:
    envs, steps = values.get("num_envs"), values.get("rollout_steps")
    rollout, parts, size = (values.get(n) for n in ("rollout_transitions", "minibatches", "minibatch_transitions"))
    collected = f"{_of(envs, 'env')} x {_of(steps, 'step')}{_agents(values)}"
    # Near-equal minibatches differ by one sequence, which is one transition without recurrence.
    even = not (rollout and parts and size) or rollout == parts * size
    smaller = "" if even or size is None else f"{_n(size - (values.get('seq_length') or 1))}-"
    cut = [f"{_of(parts, 'minibatch')} of {smaller}{_n(size)}"]
    if values.get("seq_length"):
        cut += [f"whole sequences of {_of(values['seq_length'], 'step')}"]
    updates = _of(values.get("updates_per_iteration"), "optimiser step")
    return _stages(values, [collected, _of(rollout, "transition")], [envs, steps], cut, updates)


def _episodes(values: dict[str, Number], cut: EpisodeCut, collected: tuple[int, int] | None) -> dict[str, Any]:
    """Rollouts of whole episodes: figures at full length say so, and what was really collected stands beside them."""
    envs, episodes = values.get("num_envs"), values.get("rollout_episodes")
    rollout, parts, updates = (values.get(n) for n in ("rollout_transitions", "minibatches", "updates_per_iteration"))
    lines = [f"{_of(episodes, 'episode')} from {_of(envs, 'env')}{_agents(values)}"]
    lines += [f"at most {_of(rollout, 'transition')}" if rollout else "whole episodes"]
    if collected is not None:
        low, high = collected
        lines += [f"so far {_n(low)}" + ("" if low == high else f" to {_n(high)}") + " per rollout"]
    sizes = [f"minibatches of {cut.about()}"]
    if isinstance(rollout, int) and isinstance(parts, int):
        whole = Split(rollout, max(1, parts))
        smaller = "" if whole.small == whole.large else f"{_n(whole.small)}-"
        sizes += [f"at full length {_n(parts)} of {smaller}{_n(whole.large)}"]
    made = f"{'at most ' if rollout else ''}{_of(updates, 'optimiser step')}" if updates else "one per minibatch"
    return _stages(values, lines, [envs, episodes], sizes, made)


def _stages(
    values: dict[str, Number], collected: list[str], grid: list[Number], sizes: list[str], updates: str
) -> dict[str, Any]:
    epochs = values.get("epochs")
    shuffled = "shuffled" if epochs == 1 else f"shuffled in each of {_n(epochs)} epochs"
    used = [f"each transition used {_of(values.get('reuse'), 'time')}"]
    processes = values.get("processes") or 1
    if processes > 1:
        collected, used = [*collected, f"in {_n(processes)} processes"], [*used, "gradients averaged"]
    return {
        "stages": [
            {"title": "Collect", "lines": collected, "grid": grid},
            {"title": "Minibatches", "lines": [*sizes, shuffled], "cells": values.get("minibatches")},
            {"title": "Update", "lines": [updates, *used], "cells": values.get("updates_per_iteration")},
        ],
        "loop": f"{_of(values.get('iterations'), 'iteration')}; the rollout is discarded after its updates",
    }


def _agents(values: dict[str, Number]) -> str:
    return f" x {_of(values['num_agents'], 'agent')}" if values.get("num_agents") else ""


def _cut_of(quantities: Mapping[str, Any]) -> EpisodeCut:
    """How the plan splits rollouts; the automatic way where its numbers are damaged."""
    names = ("minibatches", "minibatch_transitions")
    found = {name: quantities[name] for name in names if isinstance(quantities.get(name), dict)}
    if len(found) < len(names):
        return EpisodeCut()
    return episode_cut({n: Quantity(n, _whole(q.get("value")), "", "", str(q.get("source"))) for n, q in found.items()})


def _buffer(capacity: Number, steps: Number) -> dict[str, Any]:
    """The replay buffer, drawn as the iterations that it holds."""
    lines = [f"up to {_of(capacity, 'transition')}"]
    if not capacity or not steps:
        return {"title": "Replay buffer", "lines": lines}
    held = max(1, int(capacity // steps))
    return {"title": "Replay buffer", "lines": [*lines, f"of the newest {_of(held, 'iteration')}"], "cells": held}


def _replay(values: dict[str, Number]) -> dict[str, Any]:
    envs, steps = values.get("num_envs"), values.get("rollout_steps")
    drawn = values.get("transitions_per_update")
    draws = ["no update of a policy"] if drawn == 0 else [f"{_of(drawn, 'transition')} at random"]
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
            _buffer(values.get("replay_transitions"), values.get("steps_per_iteration")),
            {
                "title": "Update",
                "lines": [_of(values.get("updates_per_iteration"), "optimiser step"), *draws],
                "cells": values.get("updates_per_iteration"),
            },
        ],
        "loop": f"{_of(values.get('iterations'), 'iteration')}; "
        f"{_of(values.get('updates_per_step'), 'update')} per step, "
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


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _number(value: Any) -> Number:
    return value if type(value) in (int, float) else None


def _of(value: Number, noun: str) -> str:
    """A number with its noun, digits grouped."""
    return _n(value) + counted(1 if value == 1 else 2, noun).lstrip("-.0123456789")


def _n(value: Number) -> str:
    if value is None:
        return "?"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
