"""The thread that compiles the update while the first rollout is collected."""

from __future__ import annotations

import os
import subprocess
import sys

LEAVES_WHILE_IT_COMPILES = """
import time
import jax
from batchwright.on_policy.on_policy_programs import compile_ahead

class EndsSlowly:
    def __del__(self):
        time.sleep(1.0)  # lets the thread come back to Python while the interpreter ends

kept = EndsSlowly()
program = jax.jit(lambda x: sum((jax.numpy.sin(x + i) @ x for i in range(120)), x))
compile_ahead(program, jax.ShapeDtypeStruct((8, 8), "float32"))
time.sleep(0.3)
"""


def test_a_process_that_ends_while_it_compiles_is_not_aborted() -> None:
    command = [sys.executable, "-c", LEAVES_WHILE_IT_COMPILES]
    slow = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=slow)
    assert (ended.returncode, ended.stderr) == (0, "")
