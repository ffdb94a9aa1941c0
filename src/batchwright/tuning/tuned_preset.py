"""`tuned.yaml`: the winner of a tuning as a preset, with the certificate of what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchwright.core.files import write_atomically

TUNED_FILE = "tuned.yaml"
NOT_SETTINGS = frozenset(
    {"env", "seed", "engine", "num_threads", "learner_threads", "hold", "step_timeout", "doctor", "checkpoint_every"}
    | {"eval_every", "eval_episodes", "eval_max_steps", "eval_threshold"}
)
"""Of the task, of the machine, or of watching a run; not of the setting."""


def write_tuned(folder: Path, env: str, settings: Mapping[str, Any], certificate: Mapping[str, Any]) -> Path:
    """Writes the preset; the same tuning writes the same bytes."""
    values = {name: value for name, value in settings.items() if name not in NOT_SETTINGS}
    row = certificate["winner"]
    low, high = row["iqm_interval"] or (row["iqm"], row["iqm"])
    seeds = row["seeds"]
    result = (
        f"score (mean return over {certificate['unit_steps']} training steps): IQM {row['iqm']:.5g} "
        f"[{low:.5g}, {high:.5g}] of {len(seeds)} fresh seeds; the default {certificate['default']['iqm']:.5g}"
    )
    lines = [
        f"summary: {_text(certificate['algo'].upper() + ' on ' + env + ', tuned')}",
        f"source: {_text('batchwright tune, ledger ' + certificate['ledger'])}",
        "values:",
        *(f"  {name}: {_text(value)}" for name, value in values.items()),
        f"result: {_text(result)}",
        "certificate:",
        *(f"  {name}: {_text(value)}" for name, value in certificate.items()),
    ]
    path = folder / TUNED_FILE
    write_atomically(path, ("\n".join(lines) + "\n").encode())
    return path


def certify(
    final: Mapping[str, Any],
    header: Mapping[str, Any],
    strategy_seeds: Sequence[Sequence[int]],
    units: Mapping[str, Any],
    ledger: str,
) -> dict[str, Any]:
    """What a winner's preset says about itself; figures only, no times."""
    rows = final["rows"]
    winner = next(row for row in rows if row["setting"] == final["winner"] and row is not rows[0])
    kept = (
        "setting",
        "iqm",
        "iqm_interval",
        "final_iqm",
        "probability",
        "probability_interval",
        "p_value",
        "fell",
        "seeds",
    )
    return {
        "env": header["env"],
        "algo": header["algo"],
        "winner": {name: winner[name] for name in kept},
        "default": {name: rows[0][name] for name in ("iqm", "iqm_interval", "final_iqm")},
        "tuning_seeds": list(strategy_seeds[0]),
        "judging_seeds": list(strategy_seeds[1]),
        "unit_steps": header["unit_steps"],
        "units": units["units"],
        "failed_units": units["failed"],
        "env_steps": units["env_steps"],
        "versions": header["code"],
        "ledger": ledger,
    }


def _text(value: Any) -> str:
    """A value in flow style: JSON is YAML, floats with a point so that the safe loader reads them as numbers."""
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_text(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(part) for part in value) + "]"
    return json.dumps(value)
