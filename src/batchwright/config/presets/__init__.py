"""Named settings, each a YAML file with its source and, where we measured it, its result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from batchwright.config.schema import FIELDS
from batchwright.core.errors import UserError, did_you_mean, unknown


@dataclass(frozen=True)
class Preset:
    """One preset: its values by field name, where they come from, and what was corrected."""

    name: str
    summary: str
    source: str
    values: Mapping[str, Any]
    corrections: tuple[str, ...] = ()
    result: str = ""
    certificate: Mapping[str, Any] = field(default_factory=dict)
    """What a tuning measured: seeds, figures, cost, hash of its ledger."""


LARGEST_FILE_BYTES = 65_536
NOT_OF_A_PRESET = frozenset({"env", "data", "returns", "dataset"})
"""Names of things to train on, which only a user states."""
NO_PRESET = "none"
"""What a user states to plan without the preset that is tuned for an environment."""


PresetNames = str | Sequence[str] | None
"""One preset, or several of which later ones win; None where none is stated."""


def named_presets(stated: Any, files_too: bool = True) -> tuple[str, ...] | None:
    """The names that a flag, a keyword or a file states, each checked; () for `none`, None where none is stated."""
    if stated is None:
        return None
    parts = stated if isinstance(stated, list | tuple) else [stated]
    texts = [str(part).strip() for part in parts]
    names = tuple(w for text in texts for w in ([text] if is_preset_file(text) else re.split(r"[,\s]+", text)))
    if not files_too and any(is_preset_file(name) for name in names):
        raise UserError("a file of settings cannot name the file of a preset.", ["--preset FILE on the command line"])
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


def read_preset(name: str) -> Preset:
    """The preset of that name, or of that file where the name ends in .yaml."""
    return _read_file(Path(name).expanduser()) if is_preset_file(name) else _read_named(name)


def is_preset_file(name: str) -> bool:
    """Whether the name of a preset is that of a file."""
    return name.endswith((".yaml", ".yml"))


def _read_file(path: Path) -> Preset:
    """A preset that lies in a file, such as the `tuned.yaml` of a tuning; read as data, never trusted."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        if len(text) > LARGEST_FILE_BYTES or any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise UserError(f"{path} is too large for a preset, or uses aliases.", ["batchwright presets"])
        raw = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"the preset {path} cannot be read: {reason}.", ["batchwright presets"]) from None
    values = raw.get("values") if isinstance(raw, dict) else None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise UserError(f"{path} is not a preset: it has no values.", [f"--config {path}", "batchwright presets"])
    for name in values:
        if name not in FIELDS or name in NOT_OF_A_PRESET:
            close = did_you_mean(name, [known for known in FIELDS if known not in NOT_OF_A_PRESET])
            raise UserError(f"{path}: {name!r} is no number of a preset.", close or ["batchwright presets"])
    certificate = raw.get("certificate")
    return Preset(
        name=str(path),
        summary=str(raw.get("summary", "")),
        source=str(raw.get("source", "")),
        values=values,
        corrections=tuple(str(text) for text in raw.get("corrections") or ()),
        result=str(raw.get("result", "")),
        certificate=certificate if isinstance(certificate, dict) else {},
    )


@cache
def _read_named(name: str) -> Preset:
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
