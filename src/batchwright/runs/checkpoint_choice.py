"""Which checkpoint of a run is meant: the last, the best by its evaluations, or the one after an iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from batchwright.core.errors import UserError, quoted
from batchwright.core.run_dir import RunDir
from batchwright.runs import checkpoints

LAST, BEST = "last", "best"
Checkpoint = int | str
"""`last`, `best`, or the number of iterations after which it was made."""


def load_checkpoint(
    run: RunDir, which: Checkpoint, on_warning: Callable[[str], None]
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(arrays by path, manifest) of one checkpoint; refused where it is not kept, with those that are."""
    if which == LAST:
        found = checkpoints.load_named(run.checkpoints, on_warning)
        if found is None:
            raise UserError(f"{run} has no usable checkpoint.", [f"batchwright resume {run}"])
        return found
    if which == BEST:
        found = checkpoints.load_named(run.best, on_warning)
        if found is None:
            why = "no evaluation has been made, or its checkpoint is damaged"
            raise UserError(f"{run} has no best checkpoint: {why}.", ["--checkpoint last"])
        return found
    number = _iteration(which)
    for folder in (run.checkpoints, run.best):
        found = checkpoints.load_iteration(folder, number)
        if found is not None:
            return found
    kept = sorted({*checkpoints.kept_iterations(run.checkpoints), *checkpoints.kept_iterations(run.best)})
    have = f"kept are those after {', '.join(map(str, kept))}" if kept else "none is kept"
    raise UserError(
        f"{run} has no usable checkpoint after iteration {number}: {have}.",
        [*(f"--checkpoint {kept_one}" for kept_one in kept if kept_one != number), "--checkpoint last"],
    )


def _iteration(which: Checkpoint) -> int:
    text = str(which)
    if isinstance(which, bool) or not (text.isascii() and text.isdigit()) or len(text) > 12:
        raise UserError(
            f"a checkpoint is best, last or the number of an iteration, not {quoted(text[:40])}.",
            ["--checkpoint best", "--checkpoint last"],
        )
    return int(text)
