"""Lines of a YAML file of settings: key, plain value, line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from batchwright.core.errors import UserError


@dataclass(frozen=True)
class Entry:
    """One line of a file: the key as written, its value, and its line."""

    key: str
    value: Any
    line: int
    form: str | None = None
    """The library whose file it is of; None in a file of ours."""


PRINTED_START, PRINTED_YAML = "[INFO]: Batch configuration:", "# YAML"
"""The first line that `plan --for rl_games` prints, and the line above its YAML, which ends at the next comment."""


def yaml_part(text: str) -> str:
    """The YAML of a file with all that `plan --for rl_games` prints, other lines emptied; any other file whole."""
    lines = text.splitlines()
    if not text.startswith(PRINTED_START) or PRINTED_YAML not in lines:
        return text
    start = lines.index(PRINTED_YAML) + 1
    end = next((at for at, line in enumerate(lines) if at >= start and line.startswith("#")), len(lines))
    return "\n".join([""] * start + lines[start:end])


def construct_plain(node: Any, loader: Any, where: str) -> Any:
    """A scalar or a flat list; nothing nests in a setting, so anchors and merges cannot grow one without end."""
    import yaml

    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not all(isinstance(item, yaml.ScalarNode) for item in items):
        raise UserError(f"{where}: a list of settings holds plain values only.", ["write lists such as   [84, 84, 4]"])
    try:
        return loader.construct_object(node, deep=True)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        # PyYAML leaks these for a tag or a date that its value does not fit, such as !!bool maybe or 2020-13-40.
        raise UserError(f"{where}: {str(node.value)[:40]!r} is not readable as {node.tag[-20:]}.") from None
