"""The diagram of a plan: what is collected, how it is split, how many updates follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchwright.config.schema import DATASET, ON_POLICY, RECORDED
from batchwright.planning.episode_plan import EpisodeCut, episode_cut
from batchwright.planning.quantity import Quantity, counted
from batchwright.planning.split import Split

BOXES_SHOWN = 8

Values = Mapping[str, Any]
"""Values of a plan's quantities by name."""


def diagram(regime: str, quantities: Mapping[str, Quantity]) -> str:
    """rollout -> minibatches -> updates with the plan's own numbers."""
    values = {name: quantity.value for name, quantity in quantities.items()}
    if regime == ON_POLICY:
        return _episodes(values, episode_cut(quantities)) if values.get("rollout_episodes") else _on_policy(values)
    if regime == RECORDED:
        return _recorded(values)
    return _dataset(values) if regime == DATASET else _replay(values)


def _on_policy(values: Values) -> str:
    collected = f"{_of(values['num_envs'], 'env')} x {_of(values['rollout_steps'], 'step')}{_agents(values)}"
    rollout, parts, size = values["rollout_transitions"], values["minibatches"], values["minibatch_transitions"]
    length = values.get("seq_length")
    rows = f", whole sequences of {_of(length, 'step')}" if length else ""
    smaller = "" if rollout == parts * size else f"{_n(size - values.get('seq_length', 1))}-"
    return _stages(
        values,
        ["collect", collected, *_processes(values), f"rollout: {_of(rollout, 'transition')}"],
        _cells(parts, size),
        f"{_of(parts, 'minibatch')} of {smaller}{_n(size)}{rows}",
        _of(values["updates_per_iteration"], "optimiser step"),
    )


def _episodes(values: Values, cut: EpisodeCut) -> str:
    """Rollouts of whole episodes: figures are those of the longest ones, and the rule for all others is stated."""
    rollout, parts, updates = values["rollout_transitions"], values["minibatches"], values.get("updates_per_iteration")
    collected = f"{_of(values['rollout_episodes'], 'episode')} from {_of(values['num_envs'], 'env')}{_agents(values)}"
    rule = f"minibatches of {cut.about()}"
    if rollout is None:
        made = _of(updates, "optimiser step") if updates else "one optimiser step per minibatch"
        box = ["collect", collected, *_processes(values), "rollout: as many transitions as they have"]
        return _stages(values, box, ["  [ minibatches: known when the episodes have ended ]"], rule, made)
    whole = Split(rollout, parts)
    sizes = _n(whole.large) if whole.small == whole.large else f"{_n(whole.small)}-{_n(whole.large)}"
    return _stages(
        values,
        [
            *("collect", collected, *_processes(values)),
            f"rollout: at most {_of(rollout, 'transition')}, fewer where episodes end earlier",
        ],
        _cells(parts, whole.large),
        f"{rule} (at full length {_n(parts)} of {sizes})",
        f"at most {_of(updates, 'optimiser step')}",
    )


def _stages(values: Values, collected: list[str], cells: list[str], cut: str, updates: str) -> str:
    epochs = values["epochs"]
    shuffled = "shuffled" if epochs == 1 else f"shuffled anew in each of {_n(epochs)} epochs"
    lines = [
        *_box(collected),
        "        | returns and advantages for all of it at once",
        "        v",
        *cells,
        f"        | {cut}, {shuffled}",
        "        v",
        *_box(
            [
                f"update: {updates}, then the rollout is thrown away",
                f"each transition is used {_of(values['reuse'], 'time')}",
                *(["gradients are averaged over processes"] if _processes(values) else []),
            ]
        ),
        f"        ^ {_of(values['iterations'], 'iteration')}",
    ]
    return "\n".join(lines)


def _processes(values: Values) -> list[str]:
    """How environments are shared out, where there is more than one process."""
    count = values.get("processes") or 1
    return [f"{_n(count)} processes with {_of(values['envs_per_process'], 'env')} each"] if count > 1 else []


def _agents(values: Values) -> str:
    return f" x {_of(values['num_agents'], 'agent')}" if values.get("num_agents") else ""


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
    drawn = values["transitions_per_update"]
    draws = [f"policy and critics: {_of(drawn, 'transition')} at random" if drawn else "policy: never updated"]
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


def _cells(parts: int, size: int) -> list[str]:
    """A row of minibatches; the ones that do not fit on the line are counted."""
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
