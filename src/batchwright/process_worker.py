"""One process of a training that several make together: joins the others, then runs the command it was given."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from batchwright.core.errors import UserError
from batchwright.runs.start_processes import NATIVE_LOG, PEER_LOST, mark_worker

HEARTBEAT_SECONDS = 20
"""A machine that is silent for so long is given up; a process that dies is noticed at once, by its connections."""
JOIN_SECONDS = 120
BAD_INPUT = 2


def main(argv: Sequence[str]) -> int:
    """Joins the training and runs its command; returns the exit code."""
    coordinator, processes, number, folder, bind, *words = argv
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _keep_native_output(Path(folder) / NATIVE_LOG.format(number), is_first=number == "0")
    mark_worker()

    from batchwright.api import keep_programs

    keep_programs()  # before JAX is imported
    from batchwright.cli import main as run_command
    from batchwright.runs.process_group import PeerLost, leave_group

    try:
        join(coordinator, int(processes), int(number), folder, bind)
        code = run_command(words)
        leave_group(code == 0)
    except PeerLost:
        code = PEER_LOST
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = BAD_INPUT
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def join(coordinator: str, processes: int, number: int, folder: str, bind: str) -> None:
    """Connects this process with the others; the first one listens."""
    import jax

    from batchwright.runs.process_group import ProcessGroup, join_group

    # Its handler of SIGTERM would replace ours, which saves and stops.
    jax.config.update("jax_enable_preemption_service", False)  # type: ignore[no-untyped-call]
    port = coordinator.rpartition(":")[2]
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            number,
            coordinator_bind_address=f"{bind}:{port}" if bind != "-" else None,
            cluster_detection_method="deactivate",
            initialization_timeout=JOIN_SECONDS,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        raise UserError(
            f"process {number} could not join the others at {coordinator} within {JOIN_SECONDS} s: {reason}",
            ["start all processes with the same --coordinator and --processes", "state another port"],
        ) from None
    join_group(ProcessGroup(number, processes, folder=folder))


def _end_with_parent() -> None:
    """Ends this process when its parent is gone: no process outlives the command that started it."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(PEER_LOST)


def _keep_native_output(log: Path, is_first: bool) -> None:
    """Python's messages go where they went; what libraries print in C++ goes to a log, which a crash is read from."""
    sys.stdout.flush()
    shown = os.dup(1) if is_first else os.open(os.devnull, os.O_WRONLY)
    errors = os.dup(2)
    native = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(native, 1)
    os.dup2(native, 2)
    sys.stdout = os.fdopen(shown, "w", buffering=1, errors="backslashreplace")
    sys.stderr = os.fdopen(errors, "w", buffering=1, errors="backslashreplace")


if __name__ == "__main__":
    code = main(sys.argv[1:])
    os._exit(code)  # the distributed service of JAX would wait for processes that are gone
