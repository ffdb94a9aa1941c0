"""The return of every recorded episode: from its rewards, from success flags, or from a file beside the recording."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.store.recorded.interface import Choice, Entry, Recording, listed, rewards_of

SAME = 1e-9
"""Returns that differ by less, against their size, are the same."""


def returns_of(recording: Recording, choice: Choice, entries: Sequence[Entry], file: Path | None) -> np.ndarray:
    """[E] float64, in the order of the entries; a file of returns goes before anything recorded."""
    if file is not None:
        return read_returns(file, entries)
    if choice.success is not None:
        return np.array([float((rewards_of(recording, e, choice.success) != 0).any()) for e in entries])
    key = str(choice.reward)
    return np.array([rewards_of(recording, entry, key).sum(dtype=np.float64) for entry in entries])


def told_source(choice: Choice, file: Path | None) -> str:
    """Where returns come from, as a person reads it."""
    if file is not None:
        return f"file {file.name}"
    return f"1 where {choice.success} is set" if choice.success is not None else f"sum of {choice.reward}"


def read_returns(file: Path, entries: Sequence[Entry]) -> np.ndarray:
    """[E] of a JSON object {episode: return}, a JSON list in the order of episodes, or a CSV of episode,return."""
    try:
        text = file.read_text(encoding="utf-8")
        found: Any = _from_csv(text) if file.suffix.lower() == ".csv" else json.loads(text)
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read as returns: {error}.", _forms()) from None
    if isinstance(found, list):
        if len(found) != len(entries):
            raise UserError(f"{file} has {len(found)} returns for {len(entries)} episodes.", _forms())
        found = {entry.id: value for entry, value in zip(entries, found, strict=True)}
    if not isinstance(found, dict):
        raise UserError(f"{file} holds neither a list nor an object of returns.", _forms())
    missing = [entry.id for entry in entries if entry.id not in found]
    if missing:
        raise UserError(
            f"{file} has no return of {len(missing)} episodes: {listed(missing)}; it has {listed(list(found))}.",
            _forms(),
        )
    return np.array([_number(file, entry.id, found[entry.id]) for entry in entries])


def _from_csv(text: str) -> dict[str, str]:
    rows = [row for row in csv.reader(text.splitlines()) if row]
    if any(len(row) != 2 for row in rows):
        raise ValueError("a line does not have two fields")
    head = [word.strip().lower() for word in rows[0]] if rows else []
    return {name.strip(): value for name, value in (rows[1:] if head[:1] == ["episode"] else rows)}


def _number(file: Path, name: str, value: Any) -> float:
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not math.isfinite(number):
        raise UserError(f"{file}: the return of episode {name} is {value!r}, not a finite number.", _forms())
    return number


def _forms() -> list[str]:
    return ['JSON such as {"0": 1.5, "1": 0.0}', "a CSV with lines episode,return"]


def constant(returns_E: np.ndarray) -> bool:
    """Whether all returns are the same, so that there is nothing to learn from."""
    return float(np.ptp(returns_E)) <= SAME * max(1.0, float(np.abs(returns_E).max()))


def refuse_constant(name: str, returns_E: np.ndarray, source: str) -> None:
    """Success-only demonstrations teach nothing: rewards are learned from differences between returns."""
    if constant(returns_E):
        raise UserError(
            f"all {len(returns_E)} returns of {name} are {returns_E[0]:g} ({source}): rewards are learned from what "
            "tells good episodes from bad ones, and nothing does. A model would learn the return divided by the "
            "length, whatever happens in an episode.",
            [
                "record failures too",
                "--returns FILE with graded returns",
                "--reward-key another reward",
                "--allow-constant-returns",
            ],
        )
