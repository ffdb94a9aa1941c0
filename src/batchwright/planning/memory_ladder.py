"""What training on recorded data does when memory runs out: rungs at a constant number of samples per update."""

from __future__ import annotations

from dataclasses import dataclass, replace

STEP = 0.75
"""Each rung takes about a quarter from the micro-batch."""
LEAST_SHARE = 0.25
"""Down to this share of the planned micro-batch before checkpointing and bf16 are switched on; then on to 1."""


@dataclass(frozen=True)
class Rung:
    """How one update is computed: samples in memory at once, checkpointing, number format."""

    samples_per_step: int
    gradient_checkpointing: bool
    precision: str

    def describe(self, samples_per_update: int) -> str:
        checkpointing = ", gradient checkpointing" if self.gradient_checkpointing else ""
        return f"{show_sizes(samples_per_update, self.samples_per_step)} samples, {self.precision}{checkpointing}"


def micro_batches(samples: int, most: int) -> list[int]:
    """The samples of one update in micro-batches of `most` and a last one with the rest."""
    full, rest = divmod(samples, most)
    return [most] * full + ([rest] if rest else [])


def show_sizes(samples: int, most: int) -> str:
    """The sizes of `micro_batches` as text: `24`, `3 x 8`, `18 + 6`, `2 x 9 + 6`."""
    full, rest = divmod(samples, most)
    parts = [str(most) if full == 1 else f"{full} x {most}"] if full else []
    return " + ".join([*parts, *([str(rest)] if rest else [])])


def next_rung(rung: Rung, planned_samples: int) -> Rung | None:
    """The rung below: a quarter less, then checkpointing, then bf16, then less again; None where there is none."""
    smaller = min(rung.samples_per_step - 1, int(rung.samples_per_step * STEP))
    if smaller >= max(1.0, planned_samples * LEAST_SHARE):
        return replace(rung, samples_per_step=smaller)
    if not rung.gradient_checkpointing:
        return replace(rung, gradient_checkpointing=True)
    if rung.precision != "bf16":
        return replace(rung, precision="bf16")
    return replace(rung, samples_per_step=smaller) if smaller >= 1 else None


def ladder(rung: Rung) -> list[Rung]:
    """All rungs below one, in order."""
    rungs, below = [], next_rung(rung, rung.samples_per_step)
    while below is not None:
        rungs.append(below)
        below = next_rung(below, rung.samples_per_step)
    return rungs
