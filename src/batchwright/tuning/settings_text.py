"""Settings of a tuning as people read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def show_setting(setting: Mapping[str, Any]) -> str:
    """A setting as flags; the default has none."""
    words = []
    for name, value in setting.items():
        flag = name.replace("_", "-")
        words.append(f"--{flag} {value}" if not isinstance(value, bool) else f"--{flag}" if value else f"--no-{flag}")
    return " ".join(words) or "default"
