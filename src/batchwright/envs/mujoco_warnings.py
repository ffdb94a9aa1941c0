"""What MuJoCo says of a model: once, and not that Gymnasium's own files use an attribute that will go away."""

from __future__ import annotations

import contextlib
import sys


def deduplicate() -> None:
    """From here on each warning of MuJoCo is printed once; it would print every one for every copy it loads."""
    with contextlib.suppress(ImportError, AttributeError):
        import mujoco

        if not isinstance(mujoco.get_mju_user_warning(), _Voice):
            mujoco.set_mju_user_warning(_Voice())


class _Voice:
    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, message: str) -> None:
        if "is deprecated" in message or message in self._said:
            return
        self._said.add(message)
        print(f"MuJoCo: {message}", file=sys.stderr)
