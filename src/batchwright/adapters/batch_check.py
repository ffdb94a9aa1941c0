"""What another trainer makes of a rollout: accepts it, refuses it, drops rows of it, or divides by nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from batchwright.core.errors import UserError

ACCEPTS, REFUSES, DROPS, NAN = "accepts", "refuses", "drops rows", "NaN"
"""The outcomes, from sound to unsound."""
SEARCHED = 4096
"""Numbers to each side of a stated one that are tried for a sound one."""


@dataclass(frozen=True)
class Batches:
    """The numbers of one rollout and its minibatches; those that a trainer does not have stay None."""

    num_envs: int
    rollout_steps: int
    minibatches: int | None = None
    minibatch_size: int | None = None
    num_agents: int = 1
    seq_length: int | None = None
    recurrent: bool = False
    devices: int = 1
    central_minibatch_size: int | None = None

    @property
    def rows(self) -> int:
        """Transitions of the rollout."""
        return self.num_envs * self.rollout_steps * self.num_agents


@dataclass(frozen=True)
class Verdict:
    """What the trainer does with the numbers, in its own words where it refuses."""

    outcome: str
    detail: str
    dropped_rows: int = 0
    minibatch_rows: tuple[int, ...] = ()
    """Sizes of the minibatches of one epoch, as (largest, smallest)."""


Check = Callable[[Batches], Verdict]


def sizes(*rows: int) -> tuple[int, ...]:
    return (max(rows), min(rows)) if rows else ()


def floor_split(rows: int, minibatches: int, unit: str = "rows") -> Verdict:
    """Minibatches of `rows // minibatches`; the remainder is in none of them, and nothing is said."""
    size = rows // minibatches
    dropped = rows - size * minibatches
    if size == 0:
        return Verdict(NAN, f"{minibatches} minibatches of 0 {unit}: the mean of nothing is NaN.", rows, (0, 0))
    if dropped:
        detail = f"drops {dropped} of {rows} {unit} in every epoch, without a message: {minibatches} x {size}."
        return Verdict(DROPS, detail, dropped, (size, size))
    return Verdict(ACCEPTS, f"{minibatches} minibatches of {size} {unit}.", 0, (size, size))


def nearest_sound(check: Check, batches: Batches, names: tuple[str, ...]) -> list[dict[str, int]]:
    """For each name, the nearest value that the trainer accepts with the other numbers as they are."""
    found = []
    for name in names:
        stated = getattr(batches, name)
        if stated is None:
            continue
        for value in outwards(stated):
            changed: dict[str, Any] = {name: value}
            if check(replace(batches, **changed)).outcome == ACCEPTS:
                found.append({name: value})
                break
    return found


def outwards(value: int) -> Iterator[int]:
    """Whole numbers around a value, nearest in ratio first."""
    below, above = value - 1, value + 1
    for _ in range(SEARCHED):
        if below >= 1 and value / below < above / value:
            yield below
            below -= 1
        else:
            yield above
            above += 1


def whole_minibatches(batches: Batches, title: str, word: str) -> Batches:
    """The same numbers with a count of minibatches, for trainers that take no size."""
    if batches.minibatches is not None:
        if batches.minibatch_size is not None and batches.minibatch_size * batches.minibatches != batches.rows:
            raise _contradiction(batches)
        return batches
    size = batches.minibatch_size
    if size is None:
        raise UserError(f"{title} needs the number of minibatches.", ["--minibatches 4"])
    if batches.rows % size:
        near = max(1, round(batches.rows / size))
        raise UserError(
            f"{title} takes a number of minibatches ({word}); {size} rows do not divide {batches.rows}.",
            [f"--minibatches {near}"],
        )
    return replace(batches, minibatches=batches.rows // size)


def sized_minibatches(batches: Batches, title: str, word: str) -> Batches:
    """The same numbers with a size of minibatches, for trainers that take no count."""
    if batches.minibatch_size is not None:
        if batches.minibatches is not None and batches.minibatch_size * batches.minibatches != batches.rows:
            raise _contradiction(batches)
        return batches
    count = batches.minibatches
    if count is None:
        raise UserError(f"{title} needs the size of a minibatch.", ["--minibatch-size 64"])
    if batches.rows % count:
        near = max(1, round(batches.rows / count))
        raise UserError(
            f"{title} takes a size of minibatches ({word}); {batches.rows} rows are no multiple of {count}.",
            [f"--minibatch-size {near}"],
        )
    return replace(batches, minibatch_size=batches.rows // count)


def _contradiction(batches: Batches) -> UserError:
    return UserError(
        f"--minibatches {batches.minibatches} and --minibatch-size {batches.minibatch_size} contradict each other: "
        f"their product is {batches.minibatches * batches.minibatch_size}, "  # type: ignore[operator]
        f"the rollout has {batches.rows} rows.",
        [f"--minibatches {batches.minibatches}", f"--minibatch-size {batches.minibatch_size}"],
    )


def numbers_of_config(config: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, int]:
    """Our names with the whole numbers that a config holds under the trainer's names, at any depth."""
    ours = {theirs: name for name, theirs in words.items()}
    found: dict[str, int] = {}
    for key, value in _leaves(config):
        name = ours.get(key)
        if name is not None and isinstance(value, int) and not isinstance(value, bool) and value > 0:
            found.setdefault(name, value)
    return found


def _leaves(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys and values of all levels, the upper ones first."""
    level: list[Mapping[str, Any]] = [config]
    while level:
        pairs = [pair for section in level for pair in section.items()]
        yield from ((str(key), value) for key, value in pairs if not isinstance(value, Mapping))
        level = [value for _, value in pairs if isinstance(value, Mapping)]


def smallest_repeat(num_envs: int, minibatches: int) -> int:
    """How often all environments must be unrolled so that whole unrolls fill the minibatches evenly."""
    return minibatches // math.gcd(minibatches, num_envs)
