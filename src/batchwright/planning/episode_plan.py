"""How a rollout of whole episodes is split into minibatches, once its number of transitions is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from batchwright.planning.quantity import DERIVED, Quantity
from batchwright.planning.split import auto_minibatch, near_equal_split


@dataclass(frozen=True)
class EpisodeCut:
    """How a plan splits its rollouts: a number of minibatches, a size to aim at, or the automatic size."""

    minibatches: int | None = None
    minibatch_transitions: int | None = None

    def parts(self, rows: int) -> int:
        """Minibatches of a rollout of `rows` transitions; none has fewer than two where the rollout has two."""
        if self.minibatches is not None:
            return min(self.minibatches, max(1, rows // 2))
        return near_equal_split(rows, self.minibatch_transitions or auto_minibatch(rows)).parts

    def most_parts(self, rows: int) -> int:
        """The most minibatches that any rollout of up to `rows` transitions is cut into."""
        return max(self.parts(count) for count in self._extreme_sizes(rows))

    def largest(self, rows: int) -> int:
        """The most transitions of one minibatch in any rollout of up to `rows`."""
        return max(-(-count // self.parts(count)) for count in self._extreme_sizes(rows))

    def about(self) -> str:
        """The size of a minibatch, as far as it is known before the episodes have ended."""
        if self.minibatches is not None:
            return "the whole rollout" if self.minibatches == 1 else f"1/{self.minibatches} of the rollout"
        if self.minibatch_transitions is not None:
            return f"about {self.minibatch_transitions:,}"
        return "1/32 of the rollout (64 below 2,048 transitions)"

    def _extreme_sizes(self, rows: int) -> list[int]:
        """Sizes of rollouts that include those with the most parts and the largest minibatch.

        Parts come ever nearer to a stated size as the rollout grows, so that the largest is cut from one of less than
        four times that size; the automatic size is 64 up to 2,048 rows and grows with the rollout from there.
        """
        turns = 1 if self.minibatches else 4 * (self.minibatch_transitions or 512)
        return sorted({*range(1, min(rows, turns) + 1), max(1, rows - 3), max(1, rows - 2), max(1, rows - 1), rows})


def episode_cut(quantities: Mapping[str, Quantity]) -> EpisodeCut:
    """The split of a plan of whole episodes."""
    parts, size = quantities["minibatches"], quantities["minibatch_transitions"]
    if parts.value == 1 or parts.source != DERIVED:
        return EpisodeCut(minibatches=int(parts.value or 1))
    if size.source != DERIVED:
        return EpisodeCut(minibatch_transitions=int(size.value or 1))
    return EpisodeCut()
