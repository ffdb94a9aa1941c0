"""Flags in the words of other libraries (`--lr`, `--n-steps`, `--ent-coef`, `--env X`), put into ours."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import Any

from batchwright.config import aliases, foreign_settings
from batchwright.config.schema import ON_POLICY, REPLAY, REPLAY_ALGOS, flag_of
from batchwright.core.errors import UserError

SUBJECT = "env"


def in_our_words(words: list[str], options: Collection[str], takes_env: bool) -> list[str]:
    """The words of a command line with flags of other libraries put into ours, each said on standard error.

    `options` are the flags that the command has; what is neither one of them nor known here stays as it is.
    """
    regime = REPLAY if set(words) & set(REPLAY_ALGOS) else ON_POLICY
    found: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_").lower()
        if not flag.startswith("--") or flag in options or not _is_foreign(key):
            found.append(word)
            continue
        if not equals:
            value = waiting.pop(0) if waiting and not waiting[0].startswith("--") else "true"
        ours = [value] if _names_env(key) and takes_env else _converted(flag, key, value, regime)
        if not {part for part in ours if part.startswith("--")} <= set(options):
            found += [flag, value]
            continue
        print(f"note: {flag} {value} is {' '.join(ours)} here", file=sys.stderr)
        found += ours
    return found


def foreign_flag_names(options: Collection[str]) -> list[str]:
    """Flags of other libraries that a command with these flags understands."""
    words = [key for key, ours in aliases.ALIASES.items() if flag_of(ours) in options]
    converted = [*foreign_settings.CONVERTERS, "batch_size"] if flag_of("learning_rate") in options else []
    return [f"--{key.replace('_', '-')}" for key in (*words, *converted)]


def _is_foreign(key: str) -> bool:
    known = key in aliases.ALIASES or key in foreign_settings.CONVERTERS or key in foreign_settings.NOT_CARRIED
    return known or key in ("batch_size", SUBJECT)


def _names_env(key: str) -> bool:
    return SUBJECT in (key, aliases.ALIASES.get(key))


def _converted(flag: str, key: str, value: str, regime: str) -> list[str]:
    name = aliases.canonical(key, regime)
    try:
        settings = {name: value} if name is not None else foreign_settings.convert(key, value, regime) or {}
    except foreign_settings.NotCarried as why:
        raise UserError(f"{flag} has no place here: {why}.", [f"leave out {flag}"]) from None
    except ValueError:
        raise UserError(f"{flag}: {value[:40]!r} is not a number.", [f"{flag} 0.5"]) from None
    return [word for name, content in settings.items() for word in _words(name, content)]


def _words(name: str, value: Any) -> list[str]:
    if isinstance(value, bool) or str(value).lower() in ("true", "false"):
        return [flag_of(name) if str(value).lower() == "true" else f"--no-{flag_of(name)[2:]}"]
    return [flag_of(name), str(value)]
