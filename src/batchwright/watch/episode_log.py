"""`episodes.jsonl`: one line per training episode, written once per iteration."""

# E episodes that ended in one iteration.

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from batchwright.data.rollout import Episodes
from batchwright.watch.json_lines import encode
from batchwright.watch.metric_log import IterationLines

ALL_UP_TO = 100_000
"""Every episode of a run up to this number has a line; then every 10th, from ten times as many on every 100th, ..."""


class EpisodeLog(IterationLines):
    """The file: lines of one iteration follow each other, in the order in which episodes ended."""

    def add(self, record: Mapping[str, Any], env_steps: int, episodes: Episodes, names: tuple[str, ...]) -> None:
        """Writes the episodes of the iteration that ended with `record` and took `env_steps`."""
        steps_before = record["env_steps"] - env_steps
        episodes_before = record["episodes_total"] - int(np.count_nonzero(episodes.ended))
        lines = episode_lines(record["iteration"], steps_before, env_steps, episodes_before, episodes, names)
        if lines:
            self.append_lines(lines)


def episode_lines(
    iteration: int, steps_before: int, steps: int, episodes_before: int, episodes: Episodes, names: tuple[str, ...]
) -> bytes:
    """The lines of one iteration, which took `steps` environment steps after `steps_before`; `names` of components.

    An episode's `env_steps` are those at its end; of rollouts of whole episodes [E], those at the end of the iteration.
    """
    ended = np.asarray(episodes.ended)
    at_E = np.flatnonzero(ended)
    number_E = episodes_before + np.arange(len(at_E))
    kept_E = number_E % strides(number_E) == 0
    at_E, number_E = at_E[kept_E], number_E[kept_E]
    if ended.ndim == 1:
        step_E = np.full_like(at_E, steps_before + steps)
    else:  # [T, N]: each row is a step of all environments
        step_E = steps_before + (at_E // ended.shape[1] + 1) * ended.shape[1]
    returns, lengths = (np.asarray(x).reshape(-1)[at_E].tolist() for x in (episodes.returns, episodes.lengths))
    rest = _rest(episodes, at_E, names)
    heads = zip(step_E.tolist(), number_E.tolist(), returns, lengths, rest, strict=True)
    return b"".join(
        f'{{"iteration": {iteration}, "env_steps": {step}, "episode": {number}, "return": {total!r}, '
        f'"length": {length}{more}}}\n'.encode()
        if math.isfinite(total)
        else encode({"iteration": iteration, "env_steps": step, "episode": number, "return": total, "length": length})
        for step, number, total, length, more in heads
    )


def strides(number_E: np.ndarray) -> np.ndarray:
    """Of episodes with these numbers, one in so many has a line: 90% of `ALL_UP_TO` more lines per factor of ten."""
    stride_E = np.ones_like(number_E)
    while (late_E := number_E >= ALL_UP_TO * stride_E).any():
        stride_E = np.where(late_E, 10 * stride_E, stride_E)
    return stride_E


def _rest(episodes: Episodes, at_E: np.ndarray, names: tuple[str, ...]) -> list[str]:
    """What only some environments give, as text behind the length: success, and the return of each component."""
    texts = [""] * len(at_E)
    if episodes.success is not None:
        success = np.asarray(episodes.success).reshape(-1)[at_E].tolist()
        words = {1.0: ', "success": true', 0.0: ', "success": false'}
        texts = [words.get(value, "") for value in success]
    if episodes.components is not None and names:
        parts = np.asarray(episodes.components).reshape(-1, len(names))[at_E].tolist()
        texts = [
            f'{text}, "components": ' + json.dumps(dict(zip(names, row, strict=True)))
            if all(map(math.isfinite, row))
            else text
            for text, row in zip(texts, parts, strict=True)
        ]
    return texts
