"""How a rollout of whole episodes is cut, once it is known how many transitions it has."""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.planning.quantity import DERIVED, Plan
from batchwright.planning.split import auto_minibatch, near_equal_split


@dataclass(frozen=True)
class EpisodeCut:
    """The rule of a plan: so many minibatches, minibatches of about so many transitions, or S0's automatic size."""

    minibatches: int | None = None
    minibatch_transitions: int | None = None

    def parts(self, rows: int) -> int:
        """Minibatches for a rollout of so many transitions; none has fewer than two while there are two."""
        if self.minibatches is not None:
            return min(self.minibatches, max(1, rows // 2))
        return near_equal_split(rows, self.minibatch_transitions or auto_minibatch(rows)).parts

    def most_parts(self, rows: int) -> int:
        """The most minibatches that any rollout of up to `rows` transitions is cut into."""
        return max(self.parts(count) for count in self._telling(rows))

    def largest(self, rows: int) -> int:
        """The most transitions of one minibatch in any rollout of up to `rows`."""
        return max(-(-count // self.parts(count)) for count in self._telling(rows))

    def _telling(self, rows: int) -> list[int]:
        """Sizes of rollouts among which the extremes are.

        Parts come ever nearer to a stated size as the rollout grows, so that the largest is cut from one of less than
        four times that size; the automatic size changes its rule up to 1024 and grows with the rollout from there.
        """
        turns = 1 if self.minibatches else 4 * (self.minibatch_transitions or 512)
        return sorted({*range(1, min(rows, turns) + 1), max(1, rows - 3), max(1, rows - 2), max(1, rows - 1), rows})


def episode_cut(plan: Plan) -> EpisodeCut:
    """The rule that a plan of whole episodes stands for."""
    parts, size = plan.quantities["minibatches"], plan.quantities["minibatch_transitions"]
    if parts.value == 1 or parts.source != DERIVED:
        return EpisodeCut(minibatches=int(parts.value or 1))
    if size.source != DERIVED:
        return EpisodeCut(minibatch_transitions=int(size.value or 1))
    return EpisodeCut()
