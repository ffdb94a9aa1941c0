"""Texts printed while a reward model is trained: the recording, the batch numbers, the fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from batchwright.planning.memory import show_bytes
from batchwright.planning.plan import Plan


def header_lines(plan: Plan, kind: str, path: str, returns_E: np.ndarray) -> list[str]:
    """The recording, the split, the batch numbers and the memory, printed before observations are read."""
    where = "on disk" if plan["frames_on_disk"] else "in RAM"
    return [
        f"reward model ({plan.algo}) from {path}",
        f"  {kind}: {plan['episodes']:,} episodes, {plan['recorded_steps']:,} steps; "
        f"{plan['training_episodes']:,} for training, {plan['held_out_episodes']:,} held out",
        f"  returns ({plan['returns_from']}): mean {returns_E.mean():.4g}, spread {returns_E.std():.4g}, "
        f"{returns_E.min():.4g} to {returns_E.max():.4g}",
        f"  TRAIN_BATCHES    updates per iteration     {plan['updates_per_iteration']:>7,}   x {plan['iterations']:,} "
        "iterations",
        f"  RRD_BATCH_SIZE   timesteps per update      {plan['rrd_timesteps_per_update']:>7,}   = "
        f"{plan['subsequences_per_update']:,} subsequences",
        f"  RRD_SAMPLE_SIZE  timesteps per subsequence {plan['subsequence_timesteps']:>7,}",
        f"  memory: {show_bytes(plan['recording_bytes'])} {where}, {show_bytes(plan['drawn_bytes'])} drawn at once",
    ]


def iteration_line(record: Mapping[str, Any], iterations: int) -> str:
    """The line of one iteration: loss, and the fit where it was measured."""
    parts = [
        f"iteration {record['iteration'] + 1:>{len(str(iterations))}}/{iterations}",
        f"loss {record['loss']:.4g}",
        f"reward {record['predicted_reward']:.4g}",
        f"{record['updates_per_second']:.0f} updates/s",
    ]
    if record.get("held_out_spearman") is not None:
        parts.insert(2, f"held out: Spearman {record['held_out_spearman']:.3f}")
    return " | ".join(parts)


def fit_lines(fit: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The table of the fit, and warnings about it."""
    lines = [f"{'fit':<10}  {'episodes':>8}  {'correlation':>11}  {'Spearman':>8}  {'error':>9}  {'constant':>9}"]
    for name, values in fit.items():
        lines.append(
            f"{name.replace('_', ' '):<10}  {values['episodes']:>8}  {_show(values['correlation']):>11}  "
            f"{_show(values['spearman']):>8}  {values['error']:>9.4g}  {values['constant_error']:>9.4g}"
        )
    for name, values in fit.items():
        if values.get("step_spearman") is not None:
            lines.append(
                f"Spearman of predicted and recorded rewards of single steps, {name.replace('_', ' ')}: "
                f"{values['step_spearman']:.3f}"
            )
    held = fit.get("held_out")
    if held is not None and held["error_share"] is not None and held["error_share"] >= 1:
        lines.append("warning: on held-out episodes the model is no better than always predicting the mean return.")
    if held is not None and held["spearman"] is None:
        lines.append("warning: the returns of the held-out episodes do not vary, so correlation is undefined.")
    return lines


def _show(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
