"""Named random streams: every draw is derived from (seed, name, counters), never from a global generator."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Streams:
    """The random streams of one run."""

    seed: int

    def number(self, name: str, *counters: int) -> int:
        """A whole number below 2**31 that depends on nothing but the seed, the name and the counters."""
        text = ":".join([str(self.seed), name, *(str(counter) for counter in counters)])
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 33
