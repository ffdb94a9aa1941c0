"""Named settings, each a YAML file with its source and, where we measured it, its result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from batchwright.core.errors import UserError, unknown


@dataclass(frozen=True)
class Preset:
    """One preset: its values by field name, where they come from, and what was corrected."""

    name: str
    summary: str
    source: str
    values: Mapping[str, Any]
    corrections: tuple[str, ...] = ()
    result: str = ""


NO_PRESET = "none"
"""What a user states to plan without the preset that is tuned for an environment."""


PresetNames = str | Sequence[str] | None
"""One preset, or several of which later ones win; None where none is stated."""


def named_presets(stated: Any) -> tuple[str, ...] | None:
    """The names that a flag, a keyword or a file states, each checked; () for `none`, None where none is stated."""
    if stated is None:
        return None
    parts = stated if isinstance(stated, list | tuple) else [stated]
    names = tuple(word for part in parts for word in re.split(r"[,\s]+", str(part).strip()))
    if names == (NO_PRESET,):
        return ()
    if NO_PRESET in names or not names:
        others = [name for name in names if name != NO_PRESET]
        raise UserError(
            "--preset none stands alone: it leaves out the preset that is tuned for an environment.",
            [f"--preset {' '.join(others)}"] if others else ["--preset none"],
        )
    if len(set(names)) < len(names):
        raise UserError(
            f"--preset {' '.join(names)} names a preset twice.", [f"--preset {' '.join(dict.fromkeys(names))}"]
        )
    return tuple(read_preset(name).name for name in names)


def tuned_preset(env: str | None, algo: str | None) -> str | None:
    """The preset tuned for an environment and an algorithm (PPO when not stated), whatever the version; or None.

    One without a measured result never applies by itself.
    """
    if env is None:
        return None
    name = f"{algo or 'ppo'}-{env.lower().rsplit('-v', 1)[0]}"
    return name if name in preset_names() and read_preset(name).result else None


def preset_names() -> list[str]:
    """All presets, sorted."""
    files = (entry.name for entry in resources.files(__name__).iterdir())
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


@cache
def read_preset(name: str) -> Preset:
    """The preset of that name."""
    import yaml

    if name not in preset_names():
        error = unknown("preset", name, preset_names(), "--preset")
        raise UserError(error.message, error.fixes or ["batchwright presets"])
    raw = yaml.safe_load(resources.files(__name__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    return Preset(
        name=name,
        summary=raw["summary"],
        source=raw["source"],
        values=raw["values"],
        corrections=tuple(raw.get("corrections", ())),
        result=raw.get("result", ""),
    )
