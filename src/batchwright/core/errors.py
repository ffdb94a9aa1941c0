"""The one kind of error a user sees: what is wrong with the numbers, then the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

LONGEST_WORD = 80
"""Characters of a mistyped word that a message repeats."""


class UserError(Exception):
    """A mistake in what was asked for: one message, ready-to-paste fixes, exit code 2."""

    def __init__(self, message: str, fixes: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.fixes = tuple(fixes)

    def __str__(self) -> str:
        if not self.fixes:
            return self.message
        return f"{self.message}\n  fix: " + "   or   ".join(self.fixes)

    def to_json(self) -> dict[str, object]:
        return {"error": self.message, "fixes": list(self.fixes)}


def did_you_mean(word: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known words nearest to a mistyped one, best first."""
    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), list(by_folded), n=count, cutoff=0.5)
    return [by_folded[name] for name in close]


def unknown(kind: str, word: str, known: Iterable[str], flag: str = "") -> UserError:
    """The error for a name that is not in a list, with the nearest names as fixes."""
    names = list(known)
    close = did_you_mean(word, names)
    if not close and len(names) <= 12:
        close = sorted(names)
    fixes = [f"{flag} {name}".strip() for name in close]
    hint = f" Did you mean {' or '.join(close)}?" if 0 < len(close) <= 3 else ""
    return UserError(f"unknown {kind} {quoted(word)}.{hint}", fixes)


def quoted(word: str) -> str:
    """A user's word as messages repeat it: in quotes, a long one cut short."""
    return repr(word if len(word) <= LONGEST_WORD else word[:LONGEST_WORD] + "...")


def missing_package(package: str, extra: str) -> UserError:
    """The error for a logger whose package is not installed."""
    return UserError(f"the {extra} writer needs the package {package}.", [f"pip install 'batchwright[{extra}]'"])
