"""A worker process: the share of the environments that it steps, and its main function."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.envs.agent_groups import AgentLayout
from batchwright.envs.engines.agent_loop import make_loop
from batchwright.envs.engines.engine import OnEvent
from batchwright.envs.engines.env_loop import EnvLoop
from batchwright.envs.engines.host_arrays import action_rows
from batchwright.envs.engines.loop_arrays import LoopArrays
from batchwright.envs.engines.shared_block import SharedBlock
from batchwright.envs.engines.spin_wait_pipe import SpinWaitPipe
from batchwright.envs.failures import say_ignored
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.envs.reward_components import RewardParts
from batchwright.envs.spaces import Spec, unflatten

PARENT_CHECK_SECONDS = 2.0


@dataclass(frozen=True)
class Share:
    """What one process needs to know of the environments that it steps; picklable."""

    source: EnvSource
    spaces: tuple[Spec, Spec]
    info_keys: tuple[str, ...]
    parts: RewardParts
    block: SharedBlock
    first: int
    count: int
    spin_seconds: float
    """How long a worker polls for its next command before it sleeps."""
    layout: AgentLayout | None = None
    """Of environments with several agents."""

    @property
    def rows(self) -> tuple[int, int]:
        """(first row, number of rows) of its environments."""
        each = 1 if self.layout is None else len(self.layout.names)
        return self.first * each, self.count * each

    def loop(self, arrays: LoopArrays, on_event: OnEvent) -> EnvLoop:
        """The share's environments, which write into their rows of all environments' `arrays`."""
        rows, more = arrays.rows(*self.rows), (self.info_keys, self.parts, self._at())
        return make_loop(self.source, self.layout, self.spaces, rows, self.first, on_event, *more)

    def _at(self) -> Any:
        """Where the share's loop says which environment it is at, in memory that the parent sees."""
        return (ctypes.c_int * 1).from_buffer(self.block.at, self.first * ctypes.sizeof(ctypes.c_int))

    def at(self) -> int | None:
        """The environment that a worker is at; None before it began."""
        index = int(self.block.at[self.first])
        return index if index >= 0 else None

    def actions(self, action_arrays: Sequence[NDArray[Any]]) -> Callable[[], Iterable[Any]]:
        """A function that gives the share's native actions, by what the arrays hold when it is called."""
        mine = slice(self.rows[0], sum(self.rows))
        canonical = unflatten(self.spaces[1], [array[mine] for array in action_arrays])
        to_rows = action_rows(self.spaces[1])
        return lambda: to_rows(canonical)


def worker_main(connection: Connection, share: Share) -> None:
    """Steps a share of the environments until the parent asks it to close, or until the parent is gone."""
    # Ctrl-C and many a scheduler's SIGTERM reach the whole group; the parent decides what to save and when to close.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.unraisablehook = say_ignored
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    pipe = SpinWaitPipe(connection, share.spin_seconds)
    loop: EnvLoop | None = None
    try:
        views, action_arrays = share.block.arrays()
        actions = share.actions(action_arrays)
        while True:
            command, content = pipe.recv()
            if command == "close":
                return
            if loop is None:
                loop = share.loop(LoopArrays.over(views), lambda event: pipe.send(("event", event)))
            if command == "start":
                loop.start(*content)
            elif command == "resume":
                loop.reseed(*content)
                continue
            elif command == "set":
                loop.set_attribute(*content)
                continue
            else:
                loop.step(actions())
            pipe.send(("done", None))
    except UserError as error:
        pipe.send(("refused", (error.message, error.fixes)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        if loop is not None:
            loop.close()


def _leave_with(parent: int) -> None:
    """Ends this process when its parent is gone, even while an environment hangs."""
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
