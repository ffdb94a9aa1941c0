"""Attributes of environments that a callback has set: what a checkpoint holds of them, and how a resume sets them."""

from __future__ import annotations

from typing import Any

from batchwright.envs.engines import Engine


class EnvAttributes:
    """Values when the environments were last started, and changes since then by the iteration they precede."""

    def __init__(self) -> None:
        self.at_start: dict[str, Any] = {}
        self.changes: list[tuple[int, str, Any]] = []

    def __bool__(self) -> bool:
        return bool(self.at_start or self.changes)

    @property
    def current(self) -> dict[str, Any]:
        """The values that hold now."""
        return self.at_start | {name: value for _, name, value in self.changes}

    def set(self, name: str, value: Any, iteration: int) -> None:
        """Notes a value that holds from this iteration on."""
        self.changes.append((iteration, name, value))

    def restart(self) -> None:
        """Notes that the environments start anew with the values that hold now."""
        self.at_start, self.changes = self.current, []

    def apply(self, engine: Engine, at_start: bool) -> None:
        """Sets the values of the last start, or those that hold now, in all environments."""
        for name, value in (self.at_start if at_start else self.current).items():
            engine.set_attribute(name, value)

    def apply_changes(self, engine: Engine, iteration: int) -> None:
        """Sets what was changed before an iteration, while the actions of earlier ones are replayed."""
        for when, name, value in self.changes:
            if when == iteration:
                engine.set_attribute(name, value)

    def to_json(self) -> dict[str, Any]:
        return {"at_start": self.at_start, "changes": [list(change) for change in self.changes]}

    @classmethod
    def from_json(cls, saved: Any) -> EnvAttributes:
        found = cls()
        if saved:
            found.at_start = dict(saved["at_start"])
            found.changes = [(int(when), str(name), value) for when, name, value in saved["changes"]]
        return found
