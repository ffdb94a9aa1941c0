"""Runs the command as after `pip install batchwright`: packages that the core does not install cannot be imported.

The core's packages are the `dependencies` of pyproject.toml and what these require, without extras of ours.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.abc import MetaPathFinder
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def core_distributions() -> set[str]:
    """Names of every distribution that the core brings, itself included."""
    stated = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    found, waiting = {"batchwright"}, [Requirement(text) for text in stated]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = requirement.extras or {""}
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        if name in found:
            continue
        found.add(name)
        try:
            of_it = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for inner in of_it:
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                inner.marker = None
                waiting.append(inner)
    return found


class _OnlyTheCore(MetaPathFinder):
    """Refuses modules that belong to other distributions; modules of none, such as the standard library's, pass."""

    def __init__(self) -> None:
        core = core_distributions()
        self.refused = {
            module
            for module, owners in packages_distributions().items()
            if not {canonicalize_name(owner) for owner in owners} & core
        }

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in self.refused:
            raise ModuleNotFoundError(f"No module named {name!r} in the core alone", name=name)


if __name__ == "__main__":
    only_the_core = _OnlyTheCore()
    for module in [name for name in sys.modules if name.partition(".")[0] in only_the_core.refused]:
        del sys.modules[module]  # what this program itself needed
    sys.meta_path.insert(0, only_the_core)

    from batchwright.cli import main

    sys.exit(main())
