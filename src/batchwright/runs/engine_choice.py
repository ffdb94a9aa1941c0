"""Chooses the engine and the number of environments by measurement, and remembers the choice.

The choice does not depend on the load of the moment. Engines are timed on one core, in bursts so short that a busy
machine lets enough of them through; what several cores gain is computed. Another candidate than the default must be
better by a wide margin.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from batchwright.config.load import Resolved, with_measured
from batchwright.core.errors import UserError
from batchwright.core.machine import usable_cores, usable_ram_bytes
from batchwright.core.machine_cache import MachineCache
from batchwright.envs import envpool_source
from batchwright.envs.engines import Measured, available_engines, measure_engines
from batchwright.envs.tasks import OWN_TASKS

SECONDS_EACH = 0.25
MATERIAL_GAIN = 1.5
"""Another engine, or twice the environments, must make a transition cheaper by this factor: else the default stays."""
SPLIT_GAIN = 1.25
"""Splitting environments over processes changes no number: a smaller gain is enough."""
NEAR, LONGER = 1.3, 4
"""A gain nearer to its margin than this factor is measured again, this many times as long, both candidates in turn."""
ONE_BY_ONE, SPLIT, WORKERS = "gymnasium-sync", "gymnasium-split", "gymnasium-async"
"""Of the two engines with processes only the split one is considered: it uses the same cores and one process less."""
UPDATE_SECONDS = 2e-6
"""Time that an update takes per transition, at least (docs/log.md); the same whatever steps the environments."""
POLICY_SECONDS = 100e-6
"""Time that the policy adds to every step of an engine that Python drives: 0.10 ms measured (docs/log.md)."""
MESSAGE_SECONDS = 65e-6
"""Time that the messages of a split engine add to a step: 0.06 to 0.07 ms measured (docs/log.md)."""
LEAST_ROLLOUT_STEPS = 32
"""More environments shorten rollouts to this, not further: (0.99 x 0.95)^32 = 0.14, so that 32 steps still hold most of
the weights of an advantage (Schulman et al., 2016)."""
MEMORY_SHARE = 0.25
"""Share of the RAM that environments may take."""
CACHE_FORMAT = "2"


Candidate = tuple[str, int]
"""An engine and a number of environments."""


@dataclass(frozen=True)
class Choice:
    """An engine and a number of environments with the reason for them."""

    engine: str
    num_envs: int
    reason: str


def possible_counts(num_envs: int, rollout_steps: int, seq_length: int = 1) -> tuple[int, ...]:
    """`num_envs` and its doublings that leave the transitions of a rollout as they are.

    Steps halve as environments double: they stay whole, a multiple of the sequence length, and not too short.
    """
    counts = [num_envs]
    while rollout_steps % (2 * seq_length) == 0 and rollout_steps // 2 >= LEAST_ROLLOUT_STEPS:
        rollout_steps //= 2
        counts.append(2 * counts[-1])
    return tuple(counts)


def choose_engine(
    env: str,
    counts: Sequence[int],
    on_message: Callable[[str], None],
    family: str = "",
    info_keys: Sequence[str] = (),
) -> Choice:
    """The engine and the number of environments that make a transition cheapest; remembered, so measured once.

    `counts` are the numbers of environments that may be chosen, ascending, the default first. `family` is the prefix of
    the engines that may be chosen; `info_keys` are entries of `info` that the engine must provide.
    """
    may_split = started_by_command() and usable_cores() > 1 and counts[0] > 1
    wanted = f"{family}|{','.join(info_keys)}|{'split' if may_split else ''}"
    tried = ",".join(map(str, counts))
    cache = MachineCache("engines.json", f"{CACHE_FORMAT}|{env}|{tried}|{usable_cores()}|{_versions()}|{wanted}")
    known = cache.read()
    if known is not None:
        return Choice(known["engine"], known["num_envs"], known["reason"] + " (measured earlier on this machine)")
    costs = Costs(env, usable_cores(), usable_ram_bytes())
    # Our own tasks are measured before EnvPool is imported, which takes 2 s.
    ours = env in OWN_TASKS and not family and not info_keys
    enough = ours and _nothing_can_beat(costs.of("jax", counts[0]))
    possible = ["jax"] if enough else [name for name in available_engines(env) if name.startswith(family)]
    possible = [name for name in possible if not info_keys or gives_info(env, name, info_keys)]
    if not possible and not info_keys:
        raise UserError(
            f"{env} cannot be run by the engine {family!r}.", [f"--engine {name}" for name in available_engines(env)]
        )
    if not possible:
        raise UserError(
            f"no engine of {env} gives {', '.join(info_keys)}: its reward is one number.", ["--components none"]
        )
    engines = [name for name in possible if name not in (SPLIT, WORKERS)] or possible
    may_split = may_split and SPLIT in possible and ONE_BY_ONE in possible
    if len(engines) == 1 and len(counts) == 1 and not may_split and not costs.measured:
        return Choice(engines[0], counts[0], f"the only engine that has {env}")
    engine = _cheapest_engine(costs, engines, counts[0])
    if may_split and engine == ONE_BY_ONE and costs.pays((engine, counts[0]), (SPLIT, counts[0]), SPLIT_GAIN):
        engine = SPLIT
    choice = Choice(engine, grow_num_envs(costs, engine, counts), costs.describe())
    cache.write({"engine": choice.engine, "num_envs": choice.num_envs, "reason": choice.reason})
    on_message(choice.reason)
    return choice


@dataclass
class Costs:
    """Seconds per transition of engines with numbers of environments, by the time of one core; measured when asked."""

    env: str
    cores: int
    ram_bytes: int
    measured: dict[Candidate, Measured] = field(default_factory=dict)
    """By engine and number of environments that one core steps."""
    asked: dict[Candidate, float] = field(default_factory=dict)
    """Steps per second with a policy, by engine and number of environments."""

    def of(self, engine: str, num_envs: int) -> float:
        """Seconds per transition: stepping, policy, messages between processes, and the least time of an update."""
        measured = self._measurement(engine, num_envs)
        seconds = measured.num_envs / measured.steps_per_second
        seconds += POLICY_SECONDS if engine.startswith("gymnasium") else 0.0
        seconds += MESSAGE_SECONDS if engine == SPLIT else 0.0
        self.asked[engine, num_envs] = num_envs / seconds
        return seconds / num_envs + UPDATE_SECONDS

    def pays(self, before: Candidate, after: Candidate, margin: float) -> bool:
        """Whether a transition becomes cheaper by the margin at least."""
        gain = self.of(*before) / self.of(*after)
        if margin / NEAR < gain < margin * NEAR:
            self._measure([self._share(*before), self._share(*after)], LONGER * SECONDS_EACH)
            gain = self.of(*before) / self.of(*after)
        return gain >= margin

    def memory_bytes(self, engine: str, num_envs: int) -> int:
        """RAM of all environments; with what their programs and modules take, so rather too much."""
        measured = self._measurement(engine, num_envs)
        return measured.memory_bytes * num_envs // measured.num_envs

    def describe(self) -> str:
        rates = ", ".join(f"{name} x {count}: {rate:,.0f}" for (name, count), rate in sorted(self.asked.items()))
        most = max(self._cores_of(*candidate) for candidate in self.asked)
        return f"measured steps/s{f' (on one core, computed for {most})' if most > 1 else ''}: {rates}"

    def _measurement(self, engine: str, num_envs: int) -> Measured:
        share = self._share(engine, num_envs)
        if share not in self.measured:
            self._measure([share], SECONDS_EACH)
        return self.measured[share]

    def _share(self, engine: str, num_envs: int) -> Candidate:
        """What one core steps of a candidate: all of it, or a part where an engine uses several cores."""
        share = -(-num_envs // self._cores_of(engine, num_envs))
        return (ONE_BY_ONE if engine == SPLIT else engine), share

    def _measure(self, shares: Sequence[Candidate], seconds_each: float) -> None:
        """Measures on one core, in turn; a candidate keeps the best that was ever measured of it."""
        for found in measure_engines(self.env, shares, seconds_each, num_threads=1):
            known = self.measured.get((found.engine, found.num_envs))
            if known is None or known.steps_per_second < found.steps_per_second:
                self.measured[found.engine, found.num_envs] = found

    def _cores_of(self, engine: str, num_envs: int) -> int:
        """Cores that an engine steps environments with."""
        if engine == "envpool":
            from batchwright.envs.envpool_source import default_threads

            return default_threads(self.env, num_envs)
        return min(self.cores, num_envs) if engine == SPLIT else 1


def grow_num_envs(costs: Costs, engine: str, counts: Sequence[int], margin: float = MATERIAL_GAIN) -> int:
    """The number of environments, the first of `counts` unless each next one is cheaper by the margin and fits."""
    chosen = counts[0]
    for count in counts[1:]:
        if costs.of(engine, chosen) < margin * UPDATE_SECONDS:  # environments that take no time would not pay
            break
        needed_bytes = costs.memory_bytes(engine, chosen) * count // chosen
        if needed_bytes > MEMORY_SHARE * costs.ram_bytes or not costs.pays((engine, chosen), (engine, count), margin):
            break
        chosen = count
    return chosen


def _cheapest_engine(costs: Costs, engines: Sequence[str], num_envs: int) -> str:
    """The first engine, unless another is cheaper by a material factor; those that cannot be are not measured."""
    best = engines[0]
    for name in engines[1:]:
        if _nothing_can_beat(costs.of(best, num_envs)):
            break
        if costs.pays((best, num_envs), (name, num_envs), MATERIAL_GAIN):
            best = name
    return best


def _nothing_can_beat(cost: float) -> bool:
    """Whether even an engine that takes no time would not be cheaper by a material factor."""
    return cost < MATERIAL_GAIN * UPDATE_SECONDS


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


def with_choice(
    resolved: Resolved, choice: Choice, counts: Sequence[int], rollout_steps: int | None
) -> tuple[Resolved, dict[str, str]]:
    """The settings with what was measured, and its reasons.

    `counts` and `rollout_steps` are those of the plan before. More environments make shorter rollouts, so that the
    transitions of a rollout and of an update stay the same.
    """
    values: dict[str, Any] = {"engine": choice.engine}
    reasons = {"engine": choice.reason}
    if len(counts) > 1:
        values["num_envs"], reasons["num_envs"] = choice.num_envs, choice.reason
    if choice.num_envs != counts[0]:
        assert rollout_steps is not None
        transitions = counts[0] * rollout_steps
        values["rollout_steps"] = transitions // choice.num_envs
        reasons["rollout_steps"] = f"{transitions} steps of all environments as before / {choice.num_envs} measured"
    return with_measured(resolved, values), reasons


def _versions() -> str:
    def of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "-"

    return "/".join(of(package) for package in ("envpool", "gymnasium", "jax"))
