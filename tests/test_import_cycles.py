"""Modules import each other in one direction, imports inside functions included, and have names of their own."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import batchwright

PACKAGE = Path(batchwright.__file__).parent


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path, modules: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in names}
    return found & modules - {module_name(path)}


def test_no_module_imports_itself_through_others() -> None:
    paths = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: imports_of(path, set(paths)) for name, path in paths.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_file_is_found_by_its_name() -> None:
    names = [path.name for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []
