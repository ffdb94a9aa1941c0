"""Names of environments with keyword arguments, and environments that were passed as Python objects.

`LunarLander-v3?continuous=true&gravity=-5.0` makes `LunarLander-v3` with `continuous=True, gravity=-5.0`: JSON values.
`python:Name` is an environment that this process was given; another process needs it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from batchwright.core.errors import UserError

PASSED = "python:"
_passed: dict[str, Callable[..., Any]] = {}


def with_kwargs(name: str, kwargs: Mapping[str, Any]) -> str:
    """The name of an environment made with these keyword arguments."""
    if not kwargs:
        return name
    base, before = split_name(name)
    parts = []
    for key, value in {**before, **kwargs}.items():
        try:
            parts.append(f"{key}={quote(json.dumps(value, allow_nan=False), safe='-._[]')}")
        except (TypeError, ValueError):
            raise UserError(
                f"env_kwargs: {key} is {type(value).__qualname__}, which a name cannot hold.",
                ["numbers, texts, true, false, lists and dicts of them", "train(factory) with a function of your own"],
            ) from None
    return f"{base}?{'&'.join(parts)}"


def split_name(name: str) -> tuple[str, dict[str, Any]]:
    """(name, keyword arguments) of an environment."""
    base, mark, text = name.partition("?")
    found = {}
    for part in text.split("&") if mark else []:
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"{name}: {part[:40]!r} is not KEY=VALUE.", [f"{base}?key=1"])
        found[key] = parse_value(unquote(value))
    return base, found


def parse_value(text: str) -> Any:
    """A value as JSON writes it; anything else is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def pass_env(name: str, factory: Callable[..., Any]) -> None:
    """Keeps an environment of the caller's under a name that begins with `python:`."""
    _passed[name] = factory


def passed_factory(name: str) -> Callable[..., Any] | None:
    """The factory of an environment that was passed as an object; None for any other name."""
    base = split_name(name)[0]
    if not base.startswith(PASSED):
        return None
    if base not in _passed:
        raise UserError(
            f"the environment {base.removeprefix(PASSED)} was passed as a Python object; this process has none.",
            ["pass it again: batchwright.resume(run, env=...), batchwright.load(run, env=...)"],
        )
    return _passed[base]
