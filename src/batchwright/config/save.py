"""Merged settings as a YAML file that loads again, with the origin of every value."""

from __future__ import annotations

from typing import Any

from batchwright.config.load import Resolved


def to_yaml(resolved: Resolved) -> str:
    """`config.yaml` of a run: stated settings only, in the order they were merged."""
    lines = ["# The stated settings and where each came from; plan.json holds every number of the run."]
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
