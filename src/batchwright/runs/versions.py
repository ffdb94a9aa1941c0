"""Versions of the packages that the numbers of a run depend on."""

from __future__ import annotations

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Versions by package name; every checkpoint records them."""
    packages = ("batchwright", "jax", "jaxlib", "numpy", "optax", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def other_versions(expected: dict[str, str], found: dict[str, str]) -> str:
    """Which packages have other versions than expected, in words; empty where none has."""
    return ", ".join(
        f"{package} {found.get(package)}, not {wanted}"
        for package, wanted in expected.items()
        if found.get(package) != wanted
    )
