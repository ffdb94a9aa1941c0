"""The picture of a plan: what is collected, how it is cut, how many updates come of it."""

from __future__ import annotations

from batchwright.config.schema import DATASET, ON_POLICY
from batchwright.planning.quantity import Plan

BOXES_SHOWN = 8


def diagram(plan: Plan) -> str:
    """rollout -> minibatches -> updates with the plan's own numbers."""
    if plan.regime == ON_POLICY:
        return _on_policy(plan)
    return _dataset(plan) if plan.regime == DATASET else _replay(plan)


def _on_policy(plan: Plan) -> str:
    if plan.get("rollout_episodes"):
        collected = f"{_n(plan['rollout_episodes'])} episodes from {_n(plan['num_envs'])} envs"
    else:
        collected = f"{_n(plan['num_envs'])} envs x {_n(plan['rollout_steps'])} steps"
        if plan.get("num_agents"):
            collected += f" x {_n(plan['num_agents'])} agents"
    parts, size = plan["minibatches"], plan["minibatch_transitions"]
    most = "" if plan.get("rollout_episodes") is None or plan["rollout_transitions"] is None else "at most "
    cut = f"{_n(parts)} minibatch{'es' if parts != 1 else ''} of {_up_to(plan)}{_n(size)}"
    lines = [
        *_box(["collect", collected, f"rollout: {most}{_n(plan['rollout_transitions'])} transitions"]),
        "        | returns and advantages for all of it at once",
        "        v",
        *_cells(parts, size),
        f"        | {cut}, shuffled anew in each of {_n(plan['epochs'])} epochs",
        "        v",
        *_box(
            [
                f"update: {most}{_n(plan.get('updates_per_iteration'))} optimiser steps, then the rollout is "
                "thrown away",
                f"each transition is used {_n(plan['reuse'])} times",
            ]
        ),
        f"        ^ {_n(plan['iterations'])} iterations",
    ]
    return "\n".join(lines)


def _up_to(plan: Plan) -> str:
    rollout, parts, size = plan["rollout_transitions"], plan["minibatches"], plan["minibatch_transitions"]
    if None in (rollout, parts, size) or rollout == parts * size:
        return ""
    step = plan.get("seq_length", 1)
    return f"{_n(size - step)}-"


def _replay(plan: Plan) -> str:
    capacity = plan["replay_transitions"]
    lines = [
        *_box(
            [
                "collect",
                f"{_n(plan['num_envs'])} envs x {_n(plan['rollout_steps'])} steps = "
                f"{_n(plan['steps_per_iteration'])} transitions",
            ]
        ),
        "        v",
        *_box([f"replay buffer: up to {_n(capacity)} transitions, by episodes"]),
        f"        | {_n(plan['updates_per_iteration'])} times per iteration",
        "        v",
    ]
    draws = [f"policy and critics: {_n(plan['transitions_per_update'])} transitions at random"]
    if plan.get("subsequences_per_update"):
        parts, length = plan["subsequences_per_update"], plan["subsequence_timesteps"]
        draws.append(
            f"reward network: {_n(parts)} subsequence{'s' if parts != 1 else ''} x {_n(length)} timesteps, "
            "one episode each"
        )
    lines += _box(
        [*draws, f"{plan['updates_per_step']:g} updates per environment step, {plan['reuse']:g} draws per transition"]
    )
    return "\n".join(lines)


def _dataset(plan: Plan) -> str:
    micro, accumulation = plan["samples_per_step"], plan["accumulation"]
    return "\n".join(
        [
            *_box(
                [
                    f"recorded data: {_n(plan['datasets'])} dataset{'s' if plan['datasets'] != 1 else ''}, "
                    f"{_n(plan['cameras'])} cameras"
                ]
            ),
            f"        | {_n(plan['workers'])} loader processes",
            "        v",
            *_cells(accumulation, micro),
            f"        | {_n(accumulation)} micro-batch{'es' if accumulation != 1 else ''} of {_n(micro)} "
            "samples, gradients added up",
            "        v",
            *_box(
                [f"one update on {_n(plan['samples_per_update'])} samples, {_n(plan['total_updates'])} updates in all"]
            ),
        ]
    )


def _cells(parts: object, size: object) -> list[str]:
    """A row of minibatches; the ones that do not fit on the line are counted."""
    if not isinstance(parts, int) or not isinstance(size, int):
        return ["  [ minibatches: known when the episodes have ended ]"]
    shown = min(parts, BOXES_SHOWN)
    width = max(len(_n(size)) + 2, 5)
    more = f"  ... {_n(parts - shown)} more" if parts > shown else ""
    edge = "  +" + "+".join(["-" * width] * shown) + "+"
    return [edge, "  |" + "|".join(_n(size).center(width) for _ in range(shown)) + "|" + more, edge]


def _box(lines: list[str]) -> list[str]:
    width = max(len(line) for line in lines)
    edge = "  +" + "-" * (width + 2) + "+"
    return [edge, *(f"  | {line.ljust(width)} |" for line in lines), edge]


def _n(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?" if value is None else str(value)
