"""The diagram of a plan: what is collected, how it is split, how many updates follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchwright.config.schema import DATASET, ON_POLICY, RECORDED
from batchwright.planning.quantity import counted

BOXES_SHOWN = 8

Values = Mapping[str, Any]
"""Values of a plan's quantities by name."""


def diagram(regime: str, values: Values) -> str:
    """rollout -> minibatches -> updates with the plan's own numbers."""
    if regime == ON_POLICY:
        return _on_policy(values)
    if regime == RECORDED:
        return _recorded(values)
    return _dataset(values) if regime == DATASET else _replay(values)


def _on_policy(values: Values) -> str:
    if values.get("rollout_episodes"):
        collected = f"{_of(values['rollout_episodes'], 'episode')} from {_of(values['num_envs'], 'env')}"
    else:
        collected = f"{_of(values['num_envs'], 'env')} x {_of(values['rollout_steps'], 'step')}"
    if values.get("num_agents"):
        collected += f" x {_of(values['num_agents'], 'agent')}"
    parts, size = values["minibatches"], _largest(values)
    most = "" if values.get("rollout_episodes") is None or values["rollout_transitions"] is None else "at most "
    cut = f"{_of(parts, 'minibatch')} of {_up_to(values)}{_n(size)}" if parts and size else _unknown_cut(parts, size)
    epochs = values["epochs"]
    shuffled = "shuffled" if epochs == 1 else f"shuffled anew in each of {_n(epochs)} epochs"
    lines = [
        *_box(["collect", collected, f"rollout: {most}{_of(values['rollout_transitions'], 'transition')}"]),
        "        | returns and advantages for all of it at once",
        "        v",
        *_cells(parts, size),
        f"        | {cut}, {shuffled}",
        "        v",
        *_box(
            [
                f"update: {most}{_of(values.get('updates_per_iteration'), 'optimiser step')}, then the rollout is "
                "thrown away",
                f"each transition is used {_of(values['reuse'], 'time')}",
            ]
        ),
        f"        ^ {_of(values['iterations'], 'iteration')}",
    ]
    return "\n".join(lines)


def _unknown_cut(parts: int | None, size: int | None) -> str:
    """What is known of the cut before the episodes have ended."""
    if parts:
        return f"{_of(parts, 'minibatch')}, each a near-equal share"
    return f"minibatches of about {_n(size)}, the whole rollout where that is smaller" if size else "minibatches"


def _largest(values: Values) -> int | None:
    """Rows of the largest minibatch; for episodes a plan states the size aimed at, and full length gives the rest."""
    rollout, parts = values["rollout_transitions"], values["minibatches"]
    if values.get("rollout_episodes") and rollout and parts:
        return int(-(-rollout // parts))
    size: int | None = values["minibatch_transitions"]
    return size


def _up_to(values: Values) -> str:
    rollout, parts, size = values["rollout_transitions"], values["minibatches"], _largest(values)
    if None in (rollout, parts, size) or rollout == parts * size:
        return ""
    step = values.get("seq_length", 1)
    return f"{_n(size - step)}-"


def _replay(values: Values) -> str:
    capacity = values["replay_transitions"]
    lines = [
        *_box(
            [
                "collect",
                f"{_of(values['num_envs'], 'env')} x {_of(values['rollout_steps'], 'step')} = "
                f"{_of(values['steps_per_iteration'], 'transition')}",
            ]
        ),
        "        v",
        *_box([f"replay buffer: up to {_of(capacity, 'transition')}, by episodes"]),
        f"        | {_of(values['updates_per_iteration'], 'time')} per iteration",
        "        v",
    ]
    draws = [f"policy and critics: {_of(values['transitions_per_update'], 'transition')} at random"]
    if values.get("subsequences_per_update"):
        parts, length = values["subsequences_per_update"], values["subsequence_timesteps"]
        draws.append(f"reward network: {_of(parts, 'subsequence')} x {_of(length, 'timestep')}, one episode each")
    lines += _box(
        [
            *draws,
            f"updates per environment step: {values['updates_per_step']:g}; draws per transition: {values['reuse']:g}",
        ]
    )
    return "\n".join(lines)


def _dataset(values: Values) -> str:
    micro, accumulation = values["samples_per_step"], values["accumulation"]
    return "\n".join(
        [
            *_box([f"recorded data: {_of(values['datasets'], 'dataset')}, {_of(values['cameras'], 'camera')}"]),
            f"        | {_of(values['workers'], 'loader process')}",
            "        v",
            *_cells(accumulation, micro),
            f"        | {_of(accumulation, 'micro-batch')} of {_of(micro, 'sample')}"
            + (", gradients added up" if accumulation > 1 else ""),
            "        v",
            *_box(
                [
                    f"one update on {_of(values['samples_per_update'], 'sample')}, "
                    f"{_of(values['total_updates'], 'update')} in all"
                ]
            ),
        ]
    )


def _recorded(values: Values) -> str:
    parts, timesteps = values["subsequences_per_update"], values["subsequence_timesteps"]
    return "\n".join(
        [
            *_box(
                [
                    f"recorded: {_of(values['episodes'], 'episode')}, {_of(values['recorded_steps'], 'step')}",
                    f"learned from {_n(values['training_episodes'])}, held out {_n(values['held_out_episodes'])}",
                ]
            ),
            f"        | {_of(values['updates_per_iteration'], 'update')} per iteration, "
            f"{_of(values['iterations'], 'iteration')}",
            "        v",
            *_cells(parts, timesteps),
            f"        | {_of(parts, 'subsequence')} x {_of(timesteps, 'timestep')}, one episode each",
            "        v",
            *_box(["reward network: their mean prediction against return / length"]),
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


def _of(value: int | None, noun: str) -> str:
    """A number with its noun, digits grouped."""
    return _n(value) + counted(2 if value is None else value, noun).lstrip("0123456789")


def _n(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "?" if value is None else str(value)
