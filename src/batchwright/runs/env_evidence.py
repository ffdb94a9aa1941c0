"""What a rollout shows of the environment itself: scales of observations, effects of actions, ends of episodes.

Computed on the host from what was collected: no compiled program, no parameter and no random number depends on it.
"""

# T steps, N environments, V numbers of an observation, A columns of actions, L lags, B rows.

from __future__ import annotations

from typing import Any

import numpy as np

from batchwright.data.rollout import CollectResult, Episodes, Rollout

LAGS = 4
MOST_STEPS, MOST_ROWS, MOST_ENTRIES = 256, 2048, 32
"""What of a rollout is looked at: enough rows for a regression, few enough to cost a fraction of an update."""
LARGEST_CHOICE = 8
LEAST_ROWS_PER_COLUMN = 8
LEAST_ENDS = 3
LEAST_MOVES = 8
RIDGE = 1e-4
EVERY, ALWAYS_BEFORE = 8, 16
"""Iterations between two looks, after the first ones."""
CONSTANT = 1e-8
NAMES = frozenset(
    {"obs_abs_max", "obs_std_min", "obs_std_median", "obs_std_max", "obs_widest_entry", "obs_narrowest_entry"}
    | {"obs_constant_entries", "obs_constant_entry", "obs_repeat_fraction", "termination_sign", "terminations_seen"}
    | {"terminated_share", "terminated_length_max", "terminated_at_max", "truncated_length_min", "truncated_length_max"}
    | {f"action_effect_{lag}" for lag in range(LAGS)}
)
"""All metrics of this file; programs of on-policy training record those of the observations' scales themselves."""


def env_evidence(iteration: int, collected: CollectResult) -> dict[str, float]:
    """Metrics of the environment in one rollout; empty in most iterations and for images."""
    if iteration >= ALWAYS_BEFORE and iteration % EVERY:
        return {}
    found = ends_of_episodes(collected.all_rewards or collected.rollout, collected.episodes)
    rollout = (collected.recent and collected.recent()) or collected.rollout
    part = _part(rollout)
    obs = _vector(rollout, part)
    if obs is None:
        return found
    valid = np.asarray(rollout.valid)[part]
    ended = (np.asarray(rollout.terminated) | np.asarray(rollout.truncated))[part]
    steps = len(valid)
    with np.errstate(all="ignore"):
        change = obs[1 : steps + 1] - obs[:steps]
        goes_on = valid if rollout.final_obs is None else valid & ~ended  # the successor of an end lies elsewhere
        found |= scales(obs[:steps][valid]) | {"obs_repeat_fraction": _repeats(change, goes_on)}
        found |= action_effects(obs[:steps], change, _columns(np.asarray(rollout.action)[part]), goes_on, ended)
        found |= termination_signs(rollout, obs, valid, part)
    return {name: float(f"{value:.4g}") for name, value in found.items() if np.isfinite(value)}


def _part(rollout: Rollout) -> tuple[slice, slice]:
    """The steps and the environments that are looked at."""
    steps = min(MOST_STEPS, len(rollout.valid))
    return slice(0, steps), slice(0, max(1, MOST_ROWS // max(1, steps)))


def _vector(rollout: Rollout, part: tuple[slice, slice]) -> np.ndarray | None:
    """Observations [T + 1, N, V] of a part of the rollout; None where they are not plain vectors of floats."""
    obs: Any = rollout.obs
    if getattr(obs, "ndim", 0) != 3 or not np.issubdtype(obs.dtype, np.floating) or obs.shape[2] > MOST_ENTRIES:
        return None
    return np.asarray(np.asarray(obs)[: part[0].stop + 1, part[1]], np.float64)


def scales(rows_BV: np.ndarray) -> dict[str, float]:
    """Spreads of the entries of observations, and entries that do not vary."""
    if len(rows_BV) < 2:
        return {}
    std_V = rows_BV.std(0)
    varies_V = std_V > CONSTANT
    varying = std_V[varies_V]
    found = {
        "obs_abs_max": np.abs(rows_BV).max(),
        "obs_std_min": varying.min() if len(varying) else 0.0,
        "obs_std_median": float(np.median(varying)) if len(varying) else 0.0,
        "obs_std_max": std_V.max(),
        "obs_widest_entry": float(std_V.argmax()),
        "obs_narrowest_entry": float(np.where(varies_V, std_V, np.inf).argmin()),
        "obs_constant_entries": float((~varies_V).sum()),
        "obs_constant_entry": -1.0 if varies_V.all() else float(varies_V.argmin()),
    }
    return {name: float(value) for name, value in found.items()}


def _repeats(change_TNV: np.ndarray, goes_on_TN: np.ndarray) -> float:
    """The share of steps after which every number of the observation is exactly as before.

    NaN where changes themselves repeat, as on a grid or of one-hot entries: there an observation may well come again.
    """
    change_BV = change_TNV[goes_on_TN]
    moved = (change_BV != 0).any(-1)
    count = int(moved.sum())
    if count < LEAST_MOVES:
        return float("nan")
    distinct = max(len(np.unique(column)) for column in change_BV[moved].T)
    return float(1.0 - moved.mean()) if distinct > count / 2 else float("nan")


def _columns(action_TND: np.ndarray) -> np.ndarray:
    """Actions as columns of a regression: one per choice but the first, boxes cut at their bounds."""
    flat = action_TND.reshape(*action_TND.shape[:2], -1).astype(np.float64)
    whole = bool((flat == np.round(flat)).all())
    if whole and flat.shape[-1] == 1 and flat.min() >= 0 and flat.max() < LARGEST_CHOICE:
        chosen: np.ndarray = (flat == np.arange(1, max(2, int(flat.max()) + 1))).astype(np.float64)
        return chosen
    bounded: np.ndarray = flat if whole else np.clip(flat, -1.0, 1.0)
    return bounded


def action_effects(
    obs_TNV: np.ndarray, change_TNV: np.ndarray, action_TNA: np.ndarray, goes_on_TN: np.ndarray, ended_TN: np.ndarray
) -> dict[str, float]:
    """How much of the observation's next change the actions of 0 to 3 steps before explain.

    A linear regression of each entry's change on the observation and the last four actions; of the entry that depends
    on actions most, the standard deviation of each lag's part over that of the change. The action of the step itself
    should count; earlier ones are in the observation already.
    """
    steps, width = len(obs_TNV), action_TNA.shape[-1]
    if steps <= LAGS or width > MOST_ENTRIES // LAGS:
        return {}
    crossed = np.zeros_like(goes_on_TN[LAGS - 1 :])
    for back in range(1, LAGS):
        crossed |= (ended_TN | ~goes_on_TN)[LAGS - 1 - back : steps - back]
    rows = goes_on_TN[LAGS - 1 :] & ~crossed
    lagged = [action_TNA[LAGS - 1 - lag : steps - lag][rows] for lag in range(LAGS)]
    inputs = np.concatenate([obs_TNV[LAGS - 1 :][rows], *lagged], -1)
    target = change_TNV[LAGS - 1 :][rows]
    if len(inputs) < LEAST_ROWS_PER_COLUMN * (inputs.shape[1] + 1):
        return {}
    inputs, target = inputs - inputs.mean(0), target - target.mean(0)
    input_std, target_std = inputs.std(0), target.std(0)
    inputs = inputs / np.where(input_std > CONSTANT, input_std, np.inf)
    usable = target_std > CONSTANT
    if not usable.any():
        return {}
    target = target[:, usable] / target_std[usable]
    # einsum instead of BLAS, whose threads change the last digits: records of equal runs are equal.
    gram = np.einsum("bi,bj->ij", inputs, inputs) / len(inputs) + RIDGE * np.eye(inputs.shape[1])
    weight = np.linalg.solve(gram, np.einsum("bi,bv->iv", inputs, target) / len(inputs))
    first = obs_TNV.shape[-1]
    places = [slice(first + lag * width, first + (lag + 1) * width) for lag in range(LAGS)]
    parts = [np.einsum("ba,av->bv", inputs[:, place], weight[place]) for place in places]
    effect_LV = np.stack([part.std(0) for part in parts])
    best = int(np.square(effect_LV).sum(0).argmax())
    return {f"action_effect_{lag}": float(effect_LV[lag, best]) for lag in range(LAGS)}


def ends_of_episodes(rollout: Rollout, episodes: Episodes) -> dict[str, float]:
    """How episodes ended: the share of terminations, and how long those were that terminated or were cut."""
    ended = np.asarray(episodes.ended)
    terminated = np.asarray(rollout.terminated)
    if ended.shape != terminated.shape or not ended.any():
        return {}
    lengths, terminated = np.asarray(episodes.lengths)[ended], terminated[ended]
    found = {"terminated_share": float(terminated.mean())}
    if terminated.any():
        own = lengths[terminated]
        found |= {"terminated_length_max": float(own.max()), "terminated_at_max": float((own == own.max()).mean())}
    if not terminated.all():
        cut = lengths[~terminated]
        found |= {"truncated_length_min": float(cut.min()), "truncated_length_max": float(cut.max())}
    return found


def termination_signs(rollout: Rollout, obs: np.ndarray, valid_TN: np.ndarray, part: Any) -> dict[str, float]:
    """How far the last observations of terminated episodes lie from others, in standard deviations of their place.

    The largest over entries, of the mean and of the size of the deviation: near 0 where nothing that is observed says
    why episodes terminate.
    """
    terminated = np.asarray(rollout.terminated)[part] & valid_TN
    if terminated.sum() < LEAST_ENDS:
        return {}
    last = obs[1 : len(valid_TN) + 1]
    if rollout.final_obs is not None:
        last = np.asarray(rollout.final_obs, np.float64)[part]
    rows = obs[: len(valid_TN)][valid_TN]
    std = rows.std(0)
    usable = std > CONSTANT
    z_rows = np.abs((rows - rows.mean(0)) / np.where(usable, std, np.inf))
    z_last = (last[terminated] - rows.mean(0)) / np.where(usable, std, np.inf)
    error = 1 / np.sqrt(terminated.sum())
    shift = np.abs(z_last.mean(0)).max() / error
    size = (np.abs(z_last).mean(0) - z_rows.mean(0))[usable]
    spread = z_rows.std(0)[usable]
    larger = np.abs(size / np.where(spread > CONSTANT, spread, np.inf)).max(initial=0.0) / error
    return {"termination_sign": float(max(shift, larger)), "terminations_seen": float(terminated.sum())}
