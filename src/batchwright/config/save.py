"""Merged wishes as a YAML file that loads again: every line says where its value came from."""

from __future__ import annotations

from typing import Any

from batchwright.config.load import Resolved


def to_yaml(resolved: Resolved) -> str:
    """`config.yaml` of a run: stated wishes only, in the order they were merged."""
    lines = ["# What was asked for, and where each value came from; plan.json holds what was made of it."]
    for name, origin in resolved.origins.items():
        lines.append(f"{name}: {_scalar(resolved.config.get(name))}  # {origin}")
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    """A YAML scalar or flow list that the safe loader reads back as the same value."""
    import json

    if isinstance(value, tuple):
        return "[" + ", ".join(json.dumps(part) for part in value) + "]"
    if isinstance(value, float):
        text = repr(value)
        return text.replace("e", ".0e") if "e" in text and "." not in text else text
    return json.dumps(value)
