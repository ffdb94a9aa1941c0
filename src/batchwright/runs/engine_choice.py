"""Chooses the engine and the number of environments by measurement, and caches the choice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from batchwright.config.load import Resolved, resolve
from batchwright.config.schema import ON_POLICY
from batchwright.core.files import write_atomically
from batchwright.core.machine import usable_cores
from batchwright.envs import envpool_source
from batchwright.envs.engines import available_engines, measure_engines
from batchwright.envs.tasks import OWN_TASKS

SECONDS_EACH = 0.25
# Two measurements of one engine differ by up to a third on a busy machine: a smaller gain is no reason to change.
MATERIAL_GAIN = 1.5
SPLIT_GAIN = 1.25
"""Splitting environments over processes changes no number: a smaller gain is enough."""
ONE_BY_ONE, SPLIT, WORKERS = "gymnasium-sync", "gymnasium-split", "gymnasium-async"
"""Of the two engines with processes only the split one is measured: it uses the same cores and one process less."""
ENVS_TRIED = (8, 16, 32)
ENOUGH_STEPS_PER_SECOND = 1e6
"""Faster engines gain nothing: an update takes at least 2 us per transition (docs/log.md)."""
PYTHON_STEP_SECONDS = 100e-6
"""Time that the policy adds to every step of an engine that Python drives: 0.10 ms measured (docs/log.md)."""


@dataclass(frozen=True)
class Choice:
    """An engine and a number of environments with the reason for them."""

    engine: str
    num_envs: int
    reason: str


def choose_engine(
    env: str,
    num_envs: int,
    may_change_envs: bool,
    on_message: Callable[[str], None],
    family: str = "",
    info_keys: Sequence[str] = (),
) -> Choice:
    """The fastest engine for an environment; the choice is cached, so the same machine gives the same answer.

    `family` is the prefix of the engines that may be chosen; `info_keys` are entries of `info` that the engine must
    provide.
    """
    may_split = started_by_command() and usable_cores() > 1 and num_envs > 1
    wanted = f"{family}|{','.join(info_keys)}|{'split' if may_split else ''}"
    cache = _Cache(f"{env}|{num_envs}|{may_change_envs}|{usable_cores()}|{_versions()}|{wanted}")
    known = cache.read()
    if known is not None:
        return Choice(known["engine"], known["num_envs"], known["reason"] + " (measured earlier on this machine)")
    # Our own tasks are measured before EnvPool is imported, which takes 2 s.
    ours = env in OWN_TASKS and not family and not info_keys
    rates = _measure(env, [num_envs], ["jax"]) if ours else {}
    enough = ours and rates["jax", num_envs] >= ENOUGH_STEPS_PER_SECOND
    possible = ["jax"] if enough else [name for name in available_engines(env) if name.startswith(family)]
    possible = [name for name in possible if not info_keys or gives_info(env, name, info_keys)]
    engines = [name for name in possible if name not in (SPLIT, WORKERS)] or possible
    may_split = may_split and SPLIT in possible and ONE_BY_ONE in possible
    if len(engines) == 1 and not may_change_envs and not may_split and not rates:
        return Choice(engines[0], num_envs, f"the only engine that has {env}")
    rates |= _measure_until_enough(env, num_envs, [name for name in engines if (name, num_envs) not in rates])
    engine = _best([(name, num_envs) for name in engines], rates)[0]
    if may_split and engine == ONE_BY_ONE:
        rates |= _measure(env, [num_envs], [SPLIT])
        engine = SPLIT if rates[SPLIT, num_envs] > SPLIT_GAIN * rates[engine, num_envs] else engine
    if may_change_envs:
        rates |= _measure(env, [count for count in ENVS_TRIED if count != num_envs], [engine])
    best = _best([(engine, count) for count in sorted({num_envs, *ENVS_TRIED})], rates, first=(engine, num_envs))
    measured = ", ".join(f"{name} x {count}: {rate:,.0f}" for (name, count), rate in sorted(rates.items()))
    choice = Choice(*best, f"measured steps/s: {measured}")
    cache.write({"engine": choice.engine, "num_envs": choice.num_envs, "reason": choice.reason})
    on_message(choice.reason)
    return choice


def gives_info(env: str, engine: str, keys: Sequence[str]) -> bool:
    """Whether an engine provides these entries of `info`: our JAX engine has none, EnvPool declares its own."""
    if engine == "envpool":
        return set(keys) <= set(envpool_source.info_keys(env))
    return engine != "jax"


def started_by_command() -> bool:
    """Whether this process is the command `batchwright`, which worker processes can import without running it again.

    A user's own program may lack the guard `if __name__ == "__main__"`: there, engines with workers must be stated.
    """
    return Path(getattr(sys.modules["__main__"], "__file__", None) or "").stem in ("batchwright", "cli")


Rates = dict[tuple[str, int], float]


def _measure(env: str, counts: list[int], engines: list[str]) -> Rates:
    found = measure_engines(env, counts, SECONDS_EACH, engines=engines)
    return {(m.engine, m.num_envs): _driven_rate(m.engine, m.num_envs, m.steps_per_second) for m in found}


def _measure_until_enough(env: str, num_envs: int, engines: list[str]) -> Rates:
    """Measures in the order of preference and stops at the first that is fast enough: others cost imports and time."""
    rates: Rates = {}
    for name in engines:
        rates |= _measure(env, [num_envs], [name])
        if rates.get((name, num_envs), 0.0) >= ENOUGH_STEPS_PER_SECOND:
            break
    return rates


def _best(candidates: list[tuple[str, int]], rates: Rates, first: tuple[str, int] | None = None) -> tuple[str, int]:
    """The preferred candidate (the first), unless another is faster by a material factor."""
    best = first or candidates[0]
    for candidate in candidates:
        if rates.get(candidate, 0.0) > MATERIAL_GAIN * rates.get(best, 0.0):
            best = candidate
    return best


def _driven_rate(engine: str, num_envs: int, rate: float) -> float:
    """Steps per second with a policy in the loop, which an engine driven from Python pays for at every step."""
    if not engine.startswith("gymnasium"):
        return rate
    return num_envs / (num_envs / rate + PYTHON_STEP_SECONDS)


def with_choice(
    resolved: Resolved, choice: Choice, flags: dict[str, Any], preset: str | None, config_file: Any
) -> tuple[Resolved, dict[str, str]]:
    """The settings with the choice stated, and the reasons of what was measured."""
    measured = {"engine": choice.reason}
    stated = {**flags, "engine": choice.engine}
    by_steps = resolved.config.regime == ON_POLICY and resolved.config.experience.rollout_episodes is None
    if resolved.origin("num_envs") is None and by_steps:
        stated["num_envs"] = choice.num_envs
        measured["num_envs"] = choice.reason
        if resolved.origin("hold") is None and resolved.origin("rollout_steps") is None:
            stated["hold"] = "transitions-per-update"
    return resolve(stated, preset, config_file), measured


class _Cache:
    """Choices measured on this machine, by environment and versions; a damaged file counts as empty."""

    def __init__(self, key: str) -> None:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.path, self.key = root / "batchwright" / "engines.json", key

    def _all(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def read(self) -> dict[str, Any] | None:
        return self._all().get(self.key)

    def write(self, choice: dict[str, Any]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(self._all() | {self.key: choice}, indent=1).encode())
        except OSError:
            return  # a home that cannot be written only costs a second measurement


def _versions() -> str:
    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "-"

    return "/".join(of(package) for package in ("envpool", "gymnasium", "jax"))
