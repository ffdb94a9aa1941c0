"""Reads a config file of another trainer: YAML or INI, as plain values; nothing in it is run."""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.core.safe_open import checked_path

LARGEST_BYTES = 256 * 1024
DEEPEST = 20
FIX = "--config FILE.yaml"


def read_foreign_config(name: str) -> dict[str, Any]:
    """The mapping in the file; `UserError` for anything else."""
    path = checked_path(name)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        text = content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UserError(f"cannot read {path}: {reason}.", [FIX]) from None
    if len(content) > LARGEST_BYTES:
        raise UserError(f"{path} is larger than 256 KiB: not a config.", [FIX])
    found = _ini(path, text) if path.suffix in (".ini", ".cfg") else _yaml(path, text)
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no mapping (key: value).", [FIX])
    return found


def _ini(path: Path, text: str) -> dict[str, Any]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise UserError(f"{path} is no INI file: {str(error).splitlines()[0]}.", [FIX]) from None
    return {name: {key: _number(value) for key, value in parser[name].items()} for name in parser.sections()}


def _number(text: str) -> Any:
    digits = text.replace("_", "")
    return int(digits) if digits.isascii() and digits.isdigit() else text


def _yaml(path: Path, text: str) -> Any:
    import yaml

    class PlainLoader(yaml.SafeLoader):
        """Objects of Python become None: they are no numbers, and are not made."""

    PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > DEEPEST:
                raise UserError(f"{path} has aliases or is nested beyond {DEEPEST} levels.", [FIX])
        return yaml.load(text, Loader=PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not readable as YAML: {str(error).splitlines()[0]}.", [FIX]) from None
