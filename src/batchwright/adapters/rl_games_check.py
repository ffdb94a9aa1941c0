"""What rl_games accepts: its checks in the order in which it makes them (1.6.5; 1.6.1 says the first without words)."""

from __future__ import annotations

from batchwright.adapters.batch_check import ACCEPTS, NAN, REFUSES, Batches, Verdict, sized_minibatches
from batchwright.adapters.rl_games_fit import DEFAULT_SEQ_LENGTH

TITLE = "rl_games"
TRIED = "1.6.5"
PACKAGE = "rl-games"
WORDS = {
    "num_envs": "num_actors",
    "rollout_steps": "horizon_length",
    "minibatch_size": "minibatch_size",
    "seq_length": "seq_length",
}
KNOBS = ("minibatch_size", "central_minibatch_size", "seq_length", "num_envs", "rollout_steps")
HOOK = "batchwright.adapters.rl_games.fit, or python -m batchwright.adapters.rl_games train.py"


def check(batches: Batches) -> Verdict:
    batches = sized_minibatches(batches, TITLE, "minibatch_size")
    size, seq = int(batches.minibatch_size or 0), batches.seq_length or DEFAULT_SEQ_LENGTH
    rows, envs = batches.rows, batches.num_envs * batches.rollout_steps
    if rows % size:
        return Verdict(REFUSES, f"'batch_size' ({rows}) must be divisible by 'minibatch_size' ({size}).")
    for part, minibatch in ((envs, batches.central_minibatch_size), (rows, size)):
        if minibatch is not None and part % minibatch:
            return Verdict(REFUSES, "Batch size must be divisible by minibatch size. (central value network)")
        if minibatch is not None and part % seq:
            return Verdict(REFUSES, f"Batch size must be divisible by sequence length. ({part} rows, seq_length {seq})")
    if batches.recurrent and (found := _memory(batches, size, seq)):
        return found
    if rows == 1:
        return Verdict(NAN, "the advantages of 1 row are normalised by their standard deviation, which is NaN.")
    return Verdict(ACCEPTS, f"{rows // size} minibatches of {size} rows.", 0, (size, size))


def _memory(batches: Batches, size: int, seq: int) -> Verdict | None:
    if size % seq:
        agents = batches.num_envs * batches.num_agents
        return Verdict(
            REFUSES,
            f"Horizon length ({batches.rollout_steps}) times total agents ({agents}) divided by num minibatches "
            f"({batches.rows // size}) must be divisible by sequence length ({seq})",
        )
    if size == 1:
        return Verdict(REFUSES, "slice() cannot be applied to a 0-dim tensor.")
    if batches.rollout_steps % seq:
        steps = batches.rollout_steps // seq
        return Verdict(REFUSES, f"index {steps} is out of bounds for dimension 0 with size {steps}")
    return None
