"""Runs somebody's training script with rl_games' `Runner.load` wrapped, so that any number of environments works.

`python -m batchwright.adapters.rl_games [--tuned_num_envs N] [--minibatch_size N] train.py --task ... --num_envs 16`
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from batchwright.adapters.rl_games_fit import fit
from batchwright.core.errors import UserError

FLAGS = ("minibatch_size", "horizon_length", "mini_epochs", "num_agents", "tuned_num_envs")
HYDRA = "agent.params.config."
USAGE = "python -m batchwright.adapters.rl_games train.py --task TASK --num_envs 16"
RUNNER, REGISTRY = "rl_games.torch_runner", "isaaclab_tasks.utils.parse_cfg"
BAD_INPUT = 2


def main(words: Sequence[str]) -> int:
    """Runs the script; its flags are handed on, those of `fit` are taken out."""
    try:
        script, own, rest = read_words(words)
        hook_into(own)
        sys.argv = [script, *rest]
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def read_words(words: Sequence[str]) -> tuple[str, dict[str, int], list[str]]:
    """The script, the numbers for `fit`, and the words that the script gets."""
    own: dict[str, int] = {}
    rest: list[str] = []
    script: str | None = None
    source = ""
    left = list(words)
    while left:
        word = left.pop(0)
        name, has_value, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name.replace("-", "_") in FLAGS and not _knows(source, name):
            _take(own, name.replace("-", "_"), value if has_value else (left.pop(0) if left else ""))
        elif script is None:
            if word.startswith("-"):
                raise UserError(f"{word} stands before the script and is no flag of ours.", [USAGE])
            script, source = word, _source(word)
        else:
            rest.append(word)
    if script is None:
        raise UserError("no training script is named.", [USAGE])
    for word in rest:  # Hydra's way to ask for the same
        name, _, value = word.removeprefix(HYDRA).partition("=")
        if word.startswith(HYDRA) and name == "minibatch_size":
            _take(own, name, value)
    return script, own, rest


def _take(own: dict[str, int], name: str, text: str) -> None:
    if not (text.isascii() and text.isdigit()) or int(text) < 1 or len(text) > 9:
        raise UserError(f"--{name} {text[:40]!r} is no whole number above 0.", [f"--{name} 16"])
    if own.setdefault(name, int(text)) != int(text):
        raise UserError(
            f"{name} is asked for twice: {own[name]} and {text}.", [f"--{name} {own[name]}", f"--{name} {text}"]
        )


def _source(script: str) -> str:
    try:
        return Path(script).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"the script {script} cannot be read: {error.strerror}.", [USAGE]) from error


def _knows(source: str, name: str) -> bool:
    """Whether the script declares the flag itself; then it is the script's."""
    return f'"--{name}"' in source or f"'--{name}'" in source


def hook_into(own: dict[str, int]) -> None:
    """Wraps `Runner.load` as soon as rl_games is imported; Isaac Sim must be started before that import."""
    tuned: dict[str, int] = {}
    _after_import(REGISTRY, functools.partial(_note_tuned, tuned=tuned))
    _after_import(RUNNER, functools.partial(_wrap_load, own=own, tuned=tuned))


def _wrap_load(module: ModuleType, own: dict[str, int], tuned: dict[str, int]) -> None:
    load = module.Runner.load

    @functools.wraps(load)
    def fitted_load(runner: Any, yaml_config: Any) -> Any:
        config = yaml_config["params"]["config"]
        num_envs = config.get("num_actors")
        if not str(yaml_config["params"].get("algo", {}).get("name", "a2c")).startswith("a2c"):
            print("[INFO]: Batch configuration: unchanged, the config cuts no rollout into minibatches.")
        elif not isinstance(num_envs, int) or num_envs < 1:
            raise UserError(f"params.config.num_actors is {num_envs!r} when Runner.load is called.", ["num_actors: 16"])
        else:
            numbers: dict[str, Any] = {**tuned, **own}
            fit(yaml_config, num_envs, **numbers)
        return load(runner, yaml_config)

    module.Runner.load = fitted_load


def _note_tuned(module: ModuleType, tuned: dict[str, int]) -> None:
    """Isaac Lab reads a task's settings here: the number of environments that its author tuned for is among them."""
    read = getattr(module, "load_cfg_from_registry", None)
    if read is None:
        return

    @functools.wraps(read)
    def noting(*args: Any, **kwargs: Any) -> Any:
        found = read(*args, **kwargs)
        number = getattr(getattr(found, "scene", None), "num_envs", None)
        if isinstance(number, int) and number > 0:
            tuned["tuned_num_envs"] = number
        return found

    module.load_cfg_from_registry = noting  # type: ignore[attr-defined]


def _after_import(name: str, hook: Callable[[ModuleType], None]) -> None:
    if name in sys.modules:
        hook(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, hook))


class _Finder(importlib.abc.MetaPathFinder):
    """Leaves finding to the others, and calls the hook once the module has run."""

    def __init__(self, name: str, hook: Callable[[ModuleType], None]) -> None:
        self._name, self._hook, self._asking = name, hook, False

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != self._name or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._hook)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, hook: Callable[[ModuleType], None]) -> None:
        self._inner, self._hook = inner, hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._inner.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._hook(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
