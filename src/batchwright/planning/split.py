"""The arithmetic of splitting a rollout into minibatches."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Split:
    """`total` rows in `parts` minibatches whose sizes differ by at most one; every row in exactly one."""

    total: int
    parts: int

    @property
    def large(self) -> int:
        """Rows of the larger minibatches."""
        return -(-self.total // self.parts)

    @property
    def small(self) -> int:
        """Rows of the smaller minibatches; equal to `large` where the division is exact."""
        return self.total // self.parts

    @property
    def large_count(self) -> int:
        return self.total % self.parts or self.parts

    def sizes(self) -> list[int]:
        """Every minibatch's rows, larger ones first."""
        return [self.large] * self.large_count + [self.small] * (self.parts - self.large_count)

    def formula(self) -> str:
        """The sum written out: `24000 = 47 x 510 + 1 x 509`."""
        if self.large == self.small:
            return f"{self.total} = {self.parts} x {self.large}"
        return f"{self.total} = {self.large_count} x {self.large} + {self.parts - self.large_count} x {self.small}"


LONG_ROLLOUT_STEPS = 32
"""A rollout of so many steps of each environment, or of whole episodes, is long: few are collected, so that each must
give many updates."""
LONG_ROLLOUT_PARTS, LEAST_MINIBATCH, LEAST_SEQUENCES = 32, 64, 8


def auto_minibatch(rollout: int, rollout_steps: int | None = None, seq_length: int = 1) -> int:
    """The target size of a minibatch; `rollout_steps` is None for whole episodes.

    A long rollout is cut into 32, of at least 64 transitions, a short one into few (`few_minibatches`).
    """
    if _is_long(rollout_steps):
        return min(rollout, max(_least(seq_length), rollout // LONG_ROLLOUT_PARTS))
    return few_minibatches(rollout)


def auto_minibatch_reason(rollout: int, rollout_steps: int | None = None, seq_length: int = 1) -> str:
    """The rule of `auto_minibatch` with the figures put in."""
    if not _is_long(rollout_steps):
        return few_minibatches_reason(rollout)
    least, share = _least(seq_length), rollout // LONG_ROLLOUT_PARTS
    if rollout <= least:
        return f"all {rollout} collected (at least {least})"
    return f"{rollout} collected / {LONG_ROLLOUT_PARTS}" + ("" if share >= least else f", at least {least}")


def few_minibatches(rollout: int) -> int:
    """For short rollouts of many environments: a quarter of a large one, half of a medium one, all of a small one."""
    if rollout >= 1024:
        return rollout // 4
    if rollout >= 256:
        return max(rollout // 2, 64)
    return rollout


def few_minibatches_reason(rollout: int) -> str:
    """The rule of `few_minibatches` with the figures put in."""
    if rollout >= 1024:
        return f"{rollout} collected / 4 (1024 or more)"
    if rollout >= 256:
        return f"{rollout} collected / 2 (256 to 1023)"
    return f"all {rollout} collected (fewer than 256)"


def _is_long(rollout_steps: int | None) -> bool:
    return rollout_steps is None or rollout_steps >= LONG_ROLLOUT_STEPS


def _least(seq_length: int) -> int:
    """Transitions of the smallest minibatch that is chosen: with sequences, several of them."""
    return max(LEAST_MINIBATCH, LEAST_SEQUENCES * seq_length if seq_length > 1 else 0)


def least_rows(seq_length: int) -> int:
    """Rows of the smallest minibatch: two transitions, which have a spread, or one sequence, which has one within."""
    return 2 if seq_length == 1 else 1


def near_equal_split(total: int, target: int, least: int = 2) -> Split:
    """The split whose parts come nearest to `target` in ratio; never a part below `least` rows while there are some."""
    most = max(1, total // least)
    below = min(max(1, total // target), most)
    above = min(below + 1, most)
    return Split(total, min((below, above), key=lambda parts: abs(math.log(total / parts / target))))


def prime_factors(number: int) -> dict[int, int]:
    """Prime -> exponent, by trial division."""
    factors: dict[int, int] = {}
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            factors[divisor] = factors.get(divisor, 0) + 1
            number //= divisor
        divisor += 1 if divisor == 2 else 2
    if number > 1:
        factors[number] = factors.get(number, 0) + 1
    return factors


def divisors_of_product(*numbers: int) -> list[int]:
    """All divisors of a product, sorted; factored number by number so that huge rollouts stay quick."""
    exponents: dict[int, int] = {}
    for number in numbers:
        for prime, power in prime_factors(number).items():
            exponents[prime] = exponents.get(prime, 0) + power
    found = [1]
    for prime, power in exponents.items():
        found = [base * prime**k for base in found for k in range(power + 1)]
    return sorted(found)


def largest_divisor(number: int, limit: int) -> int:
    """The largest divisor of `number` up to `limit`."""
    best = 1
    for small in range(1, math.isqrt(number) + 1):
        if number % small == 0:
            best = max([best] + [value for value in (small, number // small) if value <= limit])
    return best


def nearest_in_ratio(candidates: list[int], target: int) -> int:
    """The candidate with the smallest factor to the target; the larger one on a tie."""
    return min(candidates, key=lambda value: (abs(math.log(value / target)), -value))


def neighbours(candidates: list[int], target: int, count: int = 2) -> list[int]:
    """The `count` candidates nearest to a target in ratio, sorted."""
    return sorted(sorted(candidates, key=lambda value: abs(math.log(value / target)))[:count])
