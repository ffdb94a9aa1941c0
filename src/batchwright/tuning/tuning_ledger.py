"""The ledger of a tuning: an append-only, synced file of units and decisions; what is not in it did not happen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.watch.json_lines import JsonLines, read_lines

LEDGER_FILE = "ledger.jsonl"
FORMAT = 2
HEADER, FORECAST, UNIT, DECISION = "header", "forecast", "unit", "decision"
TIMES = ("seconds", "unix_seconds")


def unit_key(settings: Mapping[str, Any], seed: int, steps: int) -> str:
    """The name of a unit: a hash of its settings, its seed and its steps."""
    text = json.dumps({"settings": dict(settings), "seed": seed, "steps": steps}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class TuningLedger:
    """Units by key and decisions in order, on disk before they count."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER_FILE
        lines = read_ledger(self.path)
        self._file = JsonLines(self.path)  # cuts off a line that a killed process left half-written
        self.header = next((line for line in lines if line["kind"] == HEADER), None)
        self.forecast = next((line for line in lines if line["kind"] == FORECAST), None)
        self.units = {line["key"]: line for line in lines if line["kind"] == UNIT}
        self.decisions = [line for line in lines if line["kind"] == DECISION]
        self._replayed = 0

    def write_header(self, header: Mapping[str, Any]) -> None:
        self.header = self._append({"kind": HEADER, "format": FORMAT, **header})

    def write_forecast(self, forecast: Mapping[str, Any]) -> None:
        self.forecast = self._append({"kind": FORECAST, **forecast})

    def add_unit(self, unit: Mapping[str, Any]) -> dict[str, Any]:
        line = self._append({"kind": UNIT, **unit})
        self.units[line["key"]] = line
        return line

    def decide(self, decision: Mapping[str, Any]) -> None:
        """Writes a decision, or checks it against what was decided before the tuning was resumed."""
        line = json.loads(json.dumps({"kind": DECISION, **decision}))
        if self.is_replayed:
            self.decisions.append(self._append(line))
        elif self.decisions[self._replayed] != line:
            raise self.refusal(str(line.get("phase")))
        self._replayed += 1

    @property
    def is_replayed(self) -> bool:
        """Whether all decisions that the ledger holds were made again."""
        return self._replayed >= len(self.decisions)

    def refusal(self, phase: str) -> UserError:
        return UserError(
            f"{self.path} does not lead to the decisions that it holds (phase {phase}): it was changed, or written by "
            "other code.",
            ["begin anew in another --run-dir"],
        )

    @property
    def digest(self) -> str:
        """A fingerprint of everything but times: units in unit order, then decisions."""
        units = sorted(self.units.values(), key=lambda unit: unit["unit"])
        lines = [self.header, *units, *self.decisions]
        kept = [{name: value for name, value in (line or {}).items() if name not in TIMES} for line in lines]
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:32]

    def close(self) -> None:
        self._file.close()

    def _append(self, line: Mapping[str, Any]) -> dict[str, Any]:
        self._file.append(line)
        self._file.sync()
        found: dict[str, Any] = json.loads(json.dumps(dict(line)))
        return found


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """The lines of a ledger; a truncated last line is passed over."""
    return [line for line in read_lines(path) if isinstance(line.get("kind"), str)]


def is_tuning(path: str | Path) -> bool:
    """Whether a folder holds a tuning."""
    try:
        return (Path(path).expanduser() / LEDGER_FILE).is_file()
    except (OSError, ValueError):
        return False
