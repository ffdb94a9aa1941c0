"""Versions of the packages that the numbers of a run depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Versions by package name; every checkpoint records them."""
    packages = ("batchwright", "jax", "jaxlib", "numpy", "optax", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
