"""Compiled programs of an on-policy learner: by what runs may share them, and how one is compiled ahead."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable
from typing import Any

from batchwright.planning.plan import Plan
from batchwright.runs.shared_programs import ARRAYS_OF_EVERY_RUN, program_key

UPDATE_ARRAYS = frozenset(
    {"gamma", "gae_lambda", "clip_range", "clip_schedule", "entropy_start", "entropy_end", "entropy_anneal"}
    | {"entropy_episodes", "max_grad_norm", "weight_decay", "value_weight", "value_rate_factor", "kl_stop", "kl_target"}
    | {"value_clip", "normalize_obs", "normalize_rewards"}
)
"""Numbers that an update takes as arrays, or that the host applies before it."""
COLLECT_ARRAYS = (
    UPDATE_ARRAYS
    | {"minibatches", "minibatch_transitions", "epochs", "updates_per_iteration", "reuse", "advantage_norm", "baseline"}
    | {"popart", "adam_beta2", "adam_eps"}
)
"""The same of a rollout, and what only the update has."""
MEASURE_ARRAYS = COLLECT_ARRAYS - {"normalize_obs", "normalize_rewards"}
PROGRAM_ARRAYS = {"update": UPDATE_ARRAYS, "noise": UPDATE_ARRAYS, "measure": MEASURE_ARRAYS}
"""By program; those that are not named here collect."""
SWITCHES = ("value_clip", "kl_stop")
"""Numbers that an update takes as arrays, and has no code for where they are 0."""


def on_policy_program_key(name: str, env: str, plan: Plan) -> Hashable:
    """What a program of this plan is made from; runs with equal keys may share it."""
    values = {name: quantity.value for name, quantity in plan.quantities.items()}
    arrays = ARRAYS_OF_EVERY_RUN | PROGRAM_ARRAYS.get(name, COLLECT_ARRAYS)
    switches = [bool(values.get(name)) for name in SWITCHES], values.get("learning_rate_schedule") == "kl-adaptive"
    return program_key(name, env, values, arrays, str(switches), plan["value_rate_factor"] != 1.0, plan.algo)


def compile_ahead(program: Any, *inputs: Any) -> threading.Thread:
    """A thread that compiles a jitted program for inputs of these shapes; join it before the program is called."""

    def compile_program() -> None:
        # An error here is raised again when the program is called.
        with contextlib.suppress(Exception):
            program.lower(*inputs).compile()

    # No daemon: a process that ends while XLA compiles in one is aborted by the C++ runtime.
    thread = threading.Thread(target=compile_program)
    thread.start()
    return thread
