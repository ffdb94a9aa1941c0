"""What was measured on this machine, kept in the user's cache folder by what it was measured of."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically

MOST_ENTRIES = 1000
"""Of one file; the oldest are dropped."""


class MachineCache:
    """One entry of a file of measurements; a file that is missing, damaged or not ours to write counts as empty."""

    def __init__(self, file: str, key: str) -> None:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.path, self.key = root / "batchwright" / file, key

    def _all(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def read(self) -> dict[str, Any] | None:
        found = self._all().get(self.key)
        return found if isinstance(found, dict) else None

    def write(self, entry: dict[str, Any]) -> None:
        """Best effort: a home that cannot be written costs a second measurement."""
        others = {key: value for key, value in self._all().items() if key != self.key}
        kept = dict(list(others.items())[-(MOST_ENTRIES - 1) :])
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(kept | {self.key: entry}, indent=1).encode())
        except (OSError, UserError):
            return
