"""What the terminal shows while a reward model is trained."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

from batchwright.watch.reward_lines import iteration_line

ITERATION_LINES = 10
"""Iterations that are shown, the last among them."""


class RewardDisplay:
    """Implements `Display`: results on the stream unless quiet, warnings on stderr always."""

    def __init__(self, iterations: int, quiet: bool, stream: TextIO) -> None:
        self._iterations, self._quiet, self._stream = iterations, quiet, stream

    def header(self, run_dir: object, *lines: str) -> None:
        """Shows what a resume goes on from; at a first start the warnings of the plan."""
        self.show(*lines)

    def iteration(self, record: Mapping[str, Any]) -> None:
        done = int(record["iteration"]) + 1
        if done == self._iterations or done % max(1, self._iterations // ITERATION_LINES) == 0:
            self.show(iteration_line(record, self._iterations))

    def note(self, message: str, *, warning: bool = False) -> None:
        if warning:
            print(f"warning: {message}", file=sys.stderr, flush=True)
        else:
            self.show(message)

    def show(self, *lines: str) -> None:
        """Prints lines, unless quiet."""
        if lines and not self._quiet:
            print(*lines, sep="\n", file=self._stream, flush=True)
