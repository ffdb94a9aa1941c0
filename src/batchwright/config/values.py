"""Checks one setting given as text or YAML; the same rules for both."""

from __future__ import annotations

import datetime
import math
import re
import reprlib
import types
import typing
from typing import Any

from batchwright.config import schema
from batchwright.config.schema import FIELDS, flag_of
from batchwright.core.errors import UserError, unknown

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_HINTS = {name: typing.get_type_hints(section) for name, section in schema.SECTIONS.items()}
# Above this, Python refuses to turn an int into a float or into text.
LARGEST_BITS = 128
MOST_NAMES, LONGEST_NAME = 64, 80
_NUMBER = re.compile(r"[+-]?(\d[\d_]*\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def kind_of(name: str) -> type:
    """int, float, bool, str or tuple: what a field holds when it is stated."""
    hint = _HINTS[schema.SECTION_OF[name]][name]
    inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return tuple if isinstance(inner, types.GenericAlias) else typing.cast(type, inner)


def is_names(name: str) -> bool:
    """Whether a field holds several words instead of a shape."""
    hint = _HINTS[schema.SECTION_OF[name]][name]
    inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
    return isinstance(inner, types.GenericAlias) and typing.get_args(inner)[0] is str


def check(name: str, raw: Any, where: str) -> Any:
    """The value of field `name` from a flag's text or a YAML scalar; `where` is how the user wrote it."""
    kind = kind_of(name)
    if isinstance(raw, int) and raw.bit_length() > LARGEST_BITS:
        raise UserError(f"{where}: a number of {raw.bit_length()} bits is out of range.", [_example(name)])
    if raw is None or isinstance(raw, dict):
        raise UserError(f"{where}: a value is needed, got {_show(raw)}.", [_example(name)])
    if kind is bool:
        return _bool(name, raw, where)
    if kind is str:
        return _text(name, raw, where)
    if kind is tuple and is_names(name):
        return _names(name, raw, where)
    if kind is tuple:
        return _shape(name, raw, where)
    number = _number(name, raw, where)
    if kind is int:
        number = _whole(name, number, raw, where)
    return _within(name, number, where)


def _bool(name: str, raw: Any, where: str) -> bool:
    if isinstance(raw, bool):
        return raw
    text = "" if isinstance(raw, (list, tuple)) else str(raw).lower()
    if text in TRUE + FALSE:
        return text in TRUE
    raise UserError(f"{where}: {_show(raw)} is neither true nor false.", [flag_of(name)])


def _text(name: str, raw: Any, where: str) -> str:
    if raw is False and "off" in FIELDS[name].metadata["choices"]:
        return "off"  # YAML 1.1 reads the bare word as a truth value
    if isinstance(raw, bool) or not isinstance(raw, (str, int, float, datetime.date)):
        raise UserError(f"{where}: a name is needed, got {_show(raw)}.", [_example(name)])
    text = str(raw)
    choices = FIELDS[name].metadata["choices"]
    if name == "policy" and text.endswith("Policy"):
        what = f"{where}: {text} is Stable-Baselines3's: here networks follow from the observations"
        raise UserError(f"{what}, and --policy names one for recorded data.", ["leave out --policy"])
    if choices and text not in choices:
        error = unknown(name.replace("_", " "), text, choices, flag_of(name))
        raise UserError(f"{where}: {error.message}", error.fixes or [f"{flag_of(name)} {c}" for c in choices])
    if not text.strip():
        raise UserError(f"{where}: the name is empty.", [_example(name)])
    return text


def _names(name: str, raw: Any, where: str) -> tuple[str, ...]:
    """Words from a list, or from one text between commas or spaces."""
    parts = raw if isinstance(raw, (list, tuple)) else re.split(r"[,\s]+", str(raw).strip())
    if any(isinstance(part, bool) or not isinstance(part, (str, int, float)) for part in parts):
        raise UserError(f"{where}: words are needed, got {_show(raw)}.", [_example(name)])
    words = tuple(word for part in parts for word in re.split(r"[,\s]+", str(part)) if word)
    if not words or len(words) > MOST_NAMES or any(len(word) > LONGEST_NAME for word in words):
        raise UserError(
            f"{where}: 1 to {MOST_NAMES} words of at most {LONGEST_NAME} letters are needed, got {_show(raw)}.",
            [_example(name)],
        )
    return words


def _shape(name: str, raw: Any, where: str) -> tuple[int, ...]:
    parts = raw if isinstance(raw, (list, tuple)) else re.split(r"[,x]", str(raw))
    if not parts or len(parts) > 8:
        raise UserError(f"{where}: {_show(raw)} is not a shape of 1 to 8 sides.", [_example(name)])
    return tuple(int(_within(name, _whole(name, _number(name, p, where), p, where), where)) for p in parts)


def _number(name: str, raw: Any, where: str) -> float | int:
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        number: float | int = raw
    else:
        text = "" if isinstance(raw, (bool, list, tuple)) else str(raw).strip()
        if len(text) > 40 or not _NUMBER.fullmatch(text):
            raise UserError(f"{where}: {_show(raw)} is not a number.", [_example(name)])
        plain = text.replace("_", "")
        number = int(plain) if plain.lstrip("+-").isdigit() else float(plain)
    if not math.isfinite(number):
        raise UserError(f"{where}: {_show(raw)} is not a finite number.", [_example(name)])
    return number


def _whole(name: str, number: float | int, raw: Any, where: str) -> int:
    if number != int(number):
        near = sorted({max(1, math.floor(number)), max(1, math.ceil(number))})
        raise UserError(f"{where}: {_show(raw)} is not a whole number.", [f"{flag_of(name)} {n}" for n in near])
    return int(number)


def _within(name: str, number: float | int, where: str) -> float | int:
    meta = FIELDS[name].metadata
    low, high = meta["low"], meta["high"]
    for bound, broken, word in (
        (low, low is not None and number < low, "least"),
        (high, high is not None and number > high, "most"),
    ):
        if broken:
            limit = _figure(bound)
            raise UserError(
                f"{where}: {_figure(number)} is out of range; at {word} {limit}.", [f"{flag_of(name)} {limit}"]
            )
    return number


def _example(name: str) -> str:
    meta = FIELDS[name].metadata
    if meta["choices"]:
        return f"{flag_of(name)} {meta['choices'][0]}"
    if kind_of(name) is tuple and is_names(name):
        return f"{flag_of(name)} NAME NAME"
    sample = {int: "8", float: "0.001", bool: "true", str: "NAME", tuple: "84,84,4"}[kind_of(name)]
    return f"{flag_of(name)} {sample}"


def _figure(number: float | int) -> str:
    """All digits of a whole number, so that a bound and what breaks it never look alike."""
    return str(number) if isinstance(number, int) else repr(number)


def _show(raw: Any) -> str:
    text = reprlib.repr(raw)
    return text if len(text) <= 60 else text[:57] + "..."
