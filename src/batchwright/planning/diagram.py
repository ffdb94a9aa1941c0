"""The picture of a plan: what is collected, how it is cut, how many updates come of it."""

from __future__ import annotations

from batchwright.config.schema import DATASET, ON_POLICY, RECORDED
from batchwright.planning.quantity import Plan, counted

BOXES_SHOWN = 8


def diagram(plan: Plan) -> str:
    """rollout -> minibatches -> updates with the plan's own numbers."""
    if plan.regime == ON_POLICY:
        return _on_policy(plan)
    if plan.regime == RECORDED:
        return _recorded(plan)
    return _dataset(plan) if plan.regime == DATASET else _replay(plan)


def _on_policy(plan: Plan) -> str:
    if plan.get("rollout_episodes"):
        collected = f"{_of(plan['rollout_episodes'], 'episode')} from {_of(plan['num_envs'], 'env')}"
    else:
        collected = f"{_of(plan['num_envs'], 'env')} x {_of(plan['rollout_steps'], 'step')}"
    if plan.get("num_agents"):
        collected += f" x {_of(plan['num_agents'], 'agent')}"
    parts, size = plan["minibatches"], _largest(plan)
    most = "" if plan.get("rollout_episodes") is None or plan["rollout_transitions"] is None else "at most "
    cut = f"{_of(parts, 'minibatch')} of {_up_to(plan)}{_n(size)}" if parts and size else _unknown_cut(parts, size)
    epochs = plan["epochs"]
    shuffled = "shuffled" if epochs == 1 else f"shuffled anew in each of {_n(epochs)} epochs"
    lines = [
        *_box(["collect", collected, f"rollout: {most}{_of(plan['rollout_transitions'], 'transition')}"]),
        "        | returns and advantages for all of it at once",
        "        v",
        *_cells(parts, size),
        f"        | {cut}, {shuffled}",
        "        v",
        *_box(
            [
                f"update: {most}{_of(plan.get('updates_per_iteration'), 'optimiser step')}, then the rollout is "
                "thrown away",
                f"each transition is used {_of(plan['reuse'], 'time')}",
            ]
        ),
        f"        ^ {_of(plan['iterations'], 'iteration')}",
    ]
    return "\n".join(lines)


def _unknown_cut(parts: int | None, size: int | None) -> str:
    """What is known of the cut before the episodes have ended."""
    if parts:
        return f"{_of(parts, 'minibatch')}, each a near-equal share"
    return f"minibatches of about {_n(size)}, the whole rollout where that is smaller" if size else "minibatches"


def _largest(plan: Plan) -> int | None:
    """Rows of the largest minibatch; for episodes a plan states the size aimed at, and full length gives the rest."""
    rollout, parts = plan["rollout_transitions"], plan["minibatches"]
    if plan.get("rollout_episodes") and rollout and parts:
        return int(-(-rollout // parts))
    size: int | None = plan["minibatch_transitions"]
    return size


def _up_to(plan: Plan) -> str:
    rollout, parts, size = plan["rollout_transitions"], plan["minibatches"], _largest(plan)
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
                f"{_of(plan['num_envs'], 'env')} x {_of(plan['rollout_steps'], 'step')} = "
                f"{_of(plan['steps_per_iteration'], 'transition')}",
            ]
        ),
        "        v",
        *_box([f"replay buffer: up to {_of(capacity, 'transition')}, by episodes"]),
        f"        | {_of(plan['updates_per_iteration'], 'time')} per iteration",
        "        v",
    ]
    draws = [f"policy and critics: {_of(plan['transitions_per_update'], 'transition')} at random"]
    if plan.get("subsequences_per_update"):
        parts, length = plan["subsequences_per_update"], plan["subsequence_timesteps"]
        draws.append(f"reward network: {_of(parts, 'subsequence')} x {_of(length, 'timestep')}, one episode each")
    lines += _box(
        [
            *draws,
            f"updates per environment step: {plan['updates_per_step']:g}; draws per transition: {plan['reuse']:g}",
        ]
    )
    return "\n".join(lines)


def _dataset(plan: Plan) -> str:
    micro, accumulation = plan["samples_per_step"], plan["accumulation"]
    return "\n".join(
        [
            *_box([f"recorded data: {_of(plan['datasets'], 'dataset')}, {_of(plan['cameras'], 'camera')}"]),
            f"        | {_of(plan['workers'], 'loader process')}",
            "        v",
            *_cells(accumulation, micro),
            f"        | {_of(accumulation, 'micro-batch')} of {_of(micro, 'sample')}"
            + (", gradients added up" if accumulation > 1 else ""),
            "        v",
            *_box(
                [
                    f"one update on {_of(plan['samples_per_update'], 'sample')}, "
                    f"{_of(plan['total_updates'], 'update')} in all"
                ]
            ),
        ]
    )


def _recorded(plan: Plan) -> str:
    parts, timesteps = plan["subsequences_per_update"], plan["subsequence_timesteps"]
    return "\n".join(
        [
            *_box(
                [
                    f"recorded: {_of(plan['episodes'], 'episode')}, {_of(plan['recorded_steps'], 'step')}",
                    f"learned from {_n(plan['training_episodes'])}, held out {_n(plan['held_out_episodes'])}",
                ]
            ),
            f"        | {_of(plan['updates_per_iteration'], 'update')} per iteration, "
            f"{_of(plan['iterations'], 'iteration')}",
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
