"""Pure functions that build the texts of the progress display from a plan and from records.

A record's names: `iteration` (from 0), `env_steps`, `episode_return` (mean over the episodes that ended in the
iteration, absent or null where none did), `episodes`, `loss`, `entropy`, `steps_per_second`; `success_rate` and
`component/<name>/share` where the task has them; `surplus_steps` where rollouts are whole episodes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from batchwright.config.schema import REPLAY
from batchwright.planning.episode_plan import episode_cut
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import DERIVED, counted
from batchwright.watch.statistics import MovingStatistics

RETURN = "episode_return"
SURPLUS_SHARE = 0.1
PLAIN, CLASSIC = "plain", "classic"
LINES = (PLAIN, CLASSIC)
"""How iterations are shown: in our words, or in those of rl_games and of batch training on whole episodes."""
COMPONENT, SHARE = "component/", "/share"


def batch_configuration(plan: Plan) -> str:
    """The numbers of one batch under the names of rl_games and Isaac Lab."""
    if plan.regime == REPLAY:
        return _replay_configuration(plan)
    episodes = plan.get("rollout_episodes")
    whole = None if episodes is None else f"(whole episodes, {counted(episodes, 'episode')} per batch)"
    minibatch = plan.quantities.get("minibatch_transitions")
    derived = minibatch is not None and minibatch.source == DERIVED
    collected = plan.get("rollout_transitions", plan.get("transitions_per_update"))
    if whole is not None and collected is not None:
        collected = f"at most {collected}"
    entries = {
        "num_envs": plan.get("num_envs"),
        "horizon_length": plan.get("rollout_steps", whole),
        "batch_size": collected or whole,
        "minibatch_size": _size(plan) if minibatch is not None else None,
        "mini_epochs": plan.get("epochs"),
    }
    lines = [f"         {name} = {value}" for name, value in entries.items() if value is not None]
    lines = [f"{line} (auto-calculated)" if derived and "minibatch_size" in line else line for line in lines]
    return "\n".join(["[INFO]: Batch configuration:", *lines])


def _replay_configuration(plan: Plan) -> str:
    """The batch numbers under the names of return decomposition code; the last two only with `--redistribute`."""
    rows = [
        (
            "TRAIN_BATCHES",
            plan["updates_per_iteration"],
            f"updates per iteration, {plan['updates_per_step']:g} per step",
        ),
    ]
    if plan["transitions_per_update"]:
        rows.append(("BATCH_SIZE", plan["transitions_per_update"], "transitions per update"))
    if plan.get("subsequences_per_update"):
        parts = counted(plan["subsequences_per_update"], "subsequence")
        rows += [
            ("RRD_BATCH_SIZE", plan["rrd_timesteps_per_update"], f"timesteps per reward update: {parts}"),
            ("RRD_SAMPLE_SIZE", plan["subsequence_timesteps"], "timesteps per subsequence"),
        ]
    lines = [f"         {name} = {value} ({meaning})" for name, value, meaning in rows]
    return "\n".join(["[INFO]: Batch configuration:", *lines])


def batch_header(plan: Plan) -> str:
    """One line that describes a batch."""
    parts = [f"{_collected(plan)} per batch"]
    if plan.get("epochs") is not None:
        parts.append(counted(plan["epochs"], "update epoch"))
    if "minibatch_transitions" in plan.quantities:
        size = _size(plan)
        parts.append(f"{size} minibatch size" if size.isdigit() else f"minibatch size {size}")
    elif plan.get("transitions_per_update") is not None:
        drawn = [counted(plan["transitions_per_update"], "transition")] if plan["transitions_per_update"] else []
        if plan.get("subsequences_per_update"):
            parts_drawn = counted(plan["subsequences_per_update"], "subsequence")
            drawn.append(f"{parts_drawn} ({counted(plan['subsequence_timesteps'], 'timestep')} each)")
        parts.append(f"{counted(plan['updates_per_iteration'], 'update')} on {' + '.join(drawn)}")
    return "Batch Training: " + ", ".join(parts)


def more_than_requested(plan: Plan) -> str:
    """A sentence where whole iterations make at least `SURPLUS_SHARE` more steps than requested; else empty."""
    requested, actual = plan.get("total_steps"), plan.get("actual_steps")
    if not requested or not actual or actual < (1 + SURPLUS_SHARE) * requested:
        return ""
    per_iteration = actual // plan["iterations"]
    return (
        f"{requested:,} steps requested, {actual:,} will be made: iterations of {per_iteration:,} steps run whole "
        f"({counted(plan['iterations'], 'iteration')})"
    )


def batch_line(record: Mapping[str, Any], moving: MovingStatistics) -> str:
    """The line of one iteration; Success and Focus only where the record has them."""
    returns = (
        f"R: {_figure(moving.mean, 6, 3)} (MA: {_figure(moving.moving, 6, 3)}, Best: {_figure(moving.best, 6, 3)})"
    )
    parts = [
        f"Batch {record['iteration']:3d}",
        returns,
        f"Loss: {_figure(record.get('loss'), 7, 4)}",
        f"Entropy: {_figure(record.get('entropy'), 7, 4)}",
        f"Episodes: {int(record.get('episodes') or 0)}",
    ]
    if record.get("success_rate") is not None:
        parts.append(f"Success: {record['success_rate']:.2f}")
    focus = focus_of(record)
    if focus is not None:
        parts.append(f"Focus: {focus[0]}({focus[1]:.3f})")
    return " | ".join(parts)


def rollout_header(plan: Plan) -> str:
    """One line that describes an iteration in our words."""
    if plan.regime == REPLAY:
        drawn = plan["transitions_per_update"]
        on = f" on {counted(drawn, 'transition')}" if drawn else ""
        parts = [f"{_collected(plan)} per iteration", f"{counted(plan['updates_per_iteration'], 'update')}{on}"]
        if plan.get("subsequences_per_update"):
            each = counted(plan["subsequence_timesteps"], "timestep")
            parts.append(f"reward updates on {counted(plan['subsequences_per_update'], 'subsequence')} of {each}")
        return "iteration: " + ", ".join(parts)
    rollout = plan.get("rollout_transitions")
    collected = _collected(plan)
    if plan.get("rollout_episodes") is None and rollout is not None:
        collected += f" = {rollout:,} transitions"
    parts = [f"rollout of {collected}"]
    if "minibatch_transitions" in plan.quantities:
        size = _size(plan)
        parts.append(f"minibatches of {size}" if size.isdigit() else f"minibatch {size}")
    if plan.get("epochs") is not None:
        parts.append(counted(plan["epochs"], "epoch"))
    if plan.get("updates_per_iteration") is not None and plan.get("rollout_episodes") is None:
        parts.append(counted(plan["updates_per_iteration"], "update"))
    return "iteration: " + ", ".join(parts)


def iteration_line(record: Mapping[str, Any], moving: MovingStatistics, total: int | None, eta: str = "") -> str:
    """The line of one iteration, numbered from 1; success and focus only where the record has them."""
    number = f"{record['iteration'] + 1:>{len(str(total))}}/{total}" if total else f"{record['iteration'] + 1:>4}"
    returns = f"{_figure(moving.mean, 0, 3)} (mean {_figure(moving.moving, 0, 3)}, best {_figure(moving.best, 0, 3)})"
    parts = [
        f"iteration {number}",
        f"return {returns}",
        f"loss {_figure(record.get('loss'), 0, 4)}",
        f"entropy {_figure(record.get('entropy'), 0, 4)}",
        counted(int(record.get("episodes") or 0), "episode"),
    ]
    if record.get("success_rate") is not None:
        parts.append(f"success {record['success_rate']:.0%}")
    focus = focus_of(record)
    if focus is not None:
        parts.append(f"focus {focus[0]} ({focus[1]:.3f})")
    return " | ".join([*parts, *([eta] if eta else [])])


def focus_of(record: Mapping[str, Any]) -> tuple[str, float] | None:
    """The reward component with the largest share of the advantage, and the share; the first of equals."""
    shares = {
        name.removeprefix(COMPONENT).removesuffix(SHARE): value
        for name, value in record.items()
        if name.startswith(COMPONENT) and name.endswith(SHARE) and value is not None and math.isfinite(value)
    }
    return max(shares.items(), key=lambda item: item[1]) if shares else None


def evaluation_line(summary: Mapping[str, Any]) -> str:
    """The figures of an evaluation, from the result of `summarise`."""
    episodes = counted(summary["episodes"], "episode")
    if summary.get("fit"):
        return _fit_line(summary["fit"], episodes)
    if summary.get("mean") is None:
        return f"no return over {episodes}"
    low, high = summary["iqr"]
    text = (
        f"mean return {_return(summary['mean'])}, median {_return(summary['median'])}, "
        f"IQR {_return(low)} to {_return(high)}, IQM {_return(summary['iqm'])}"
    )
    if summary.get("iqm_interval") is not None:
        text += " (95% interval {} to {})".format(*map(_return, summary["iqm_interval"]))
    nonfinite = summary.get("nonfinite_episodes", 0)
    excluded = f"; {counted(nonfinite, 'episode')} excluded (NaN or infinite)" if nonfinite else ""
    if summary.get("cut_episodes"):
        excluded += f"; {counted(len(summary['cut_episodes']), 'episode')} cut at the step limit"
    success = f"; success {summary['success_rate']:.0%}" if summary.get("success_rate") is not None else ""
    return f"{text} over {episodes}{excluded}{success}"


def _fit_line(fit: Mapping[str, Any], episodes: str) -> str:
    """How the returns that a reward network predicts agree with true ones."""
    share = "" if fit.get("error_share") is None else f", {fit['error_share']:.0%} of that of a constant"
    ranks = "" if fit.get("spearman") is None else f"; rank correlation {fit['spearman']:.2f}"
    steps = "" if fit.get("step_spearman") is None else f", of the rewards of steps {fit['step_spearman']:.2f}"
    return f"returns of {episodes} predicted with an error of {fit['error']:.4g}{share}{ranks}{steps}"


def duration(seconds: float) -> str:
    """`0:42`, `12:05`, `3:07:00`, `2d 03:07`."""
    whole = max(0, round(seconds))
    minutes, hours, days = whole // 60 % 60, whole // 3600 % 24, whole // 86_400
    if days:
        return f"{days}d {hours:02d}:{minutes:02d}"
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"


def _collected(plan: Plan) -> str:
    if plan.get("rollout_episodes") is not None:
        return counted(plan["rollout_episodes"], "episode")
    agents = "" if plan.get("num_agents") is None else f" x {counted(plan['num_agents'], 'agent')}"
    return f"{counted(plan.get('num_envs', 1), 'env')} x {counted(plan.get('rollout_steps', 1), 'step')}{agents}"


def _size(plan: Plan) -> str:
    """The size of a minibatch; with rollouts of episodes the size asked for, or the share of the batch."""
    if plan.get("rollout_episodes") is None:
        return str(plan["minibatch_transitions"])
    cut = episode_cut(plan.quantities)
    return cut.about() if cut.minibatch_transitions is None else str(cut.minibatch_transitions)


def _figure(value: float | None, width: int, digits: int) -> str:
    return f"{'-':>{width}}" if value is None or not math.isfinite(value) else f"{value:{width}.{digits}f}"


def _return(value: float) -> str:
    return f"{value:,.2f}"
