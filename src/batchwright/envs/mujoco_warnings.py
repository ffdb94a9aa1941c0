"""Prints each warning of MuJoCo once, and not those about deprecated attributes in Gymnasium's own files."""

from __future__ import annotations

import contextlib
import sys


def deduplicate() -> None:
    """From here on each warning of MuJoCo is printed once; it would print every one for every copy it loads."""
    with contextlib.suppress(ImportError, AttributeError):
        import mujoco

        if not isinstance(mujoco.get_mju_user_warning(), _WarnOnce):
            mujoco.set_mju_user_warning(_WarnOnce())


class _WarnOnce:
    def __init__(self) -> None:
        self._printed: set[str] = set()

    def __call__(self, message: str) -> None:
        if "is deprecated" in message or message in self._printed:
            return
        self._printed.add(message)
        print(f"MuJoCo: {message}", file=sys.stderr)
