"""Gymnasium environments in worker processes over shared memory; a worker that dies is replaced."""

# N envs, dealt to processes in contiguous shares

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from batchwright.core.errors import UserError
from batchwright.core.machine import usable_cores
from batchwright.envs.engines.engine import HostEngine, OnEvent, Step
from batchwright.envs.engines.env_loop import MAX_RESTARTS, EnvLoop, LoopArrays
from batchwright.envs.engines.gymnasium_sync import as_step, probe
from batchwright.envs.engines.host_arrays import action_rows
from batchwright.envs.engines.shared_block import SharedBlock
from batchwright.envs.engines.spin_wait_pipe import SpinWaitPipe
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.envs.reward_components import RewardParts, reward_parts
from batchwright.envs.spaces import Spec, leaves, unflatten, value_at

CLOSE_SECONDS = 2.0
"""How long a worker may take to close its environments before it is ended."""


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

    def loop(self, arrays: LoopArrays, on_event: OnEvent) -> EnvLoop:
        """The share's environments, which write into their rows of all environments' `arrays`."""
        rows = arrays.rows(self.first, self.count)
        return EnvLoop(self.source, self.spaces, rows, self.first, on_event, self.info_keys, self.parts)

    def actions(self, action_arrays: Sequence[NDArray[Any]]) -> Callable[[], Iterable[Any]]:
        """A function that gives the share's native actions, by what the arrays hold when it is called."""
        mine = slice(self.first, self.first + self.count)
        canonical = unflatten(self.spaces[1], [array[mine] for array in action_arrays])
        to_rows = action_rows(self.spaces[1])
        return lambda: to_rows(canonical)


@dataclass
class Worker:
    """One live worker process and our end of its pipe."""

    share: Share
    process: Any
    pipe: SpinWaitPipe
    deaths: int = 0
    restarts: int = 0


class GymnasiumAsync(HostEngine):
    """Environments dealt over worker processes: for those that take longer than a message (about 50 us)."""

    name = "gymnasium-async"
    keeps_share: ClassVar[bool] = False
    """Whether the first share is stepped by this process, beside the workers."""
    spin_seconds: ClassVar[float] = 0.0
    """How long a process polls for a message before it sleeps."""

    def __init__(
        self,
        source: EnvSource,
        num_envs: int,
        on_event: OnEvent,
        info_keys: Sequence[str] = (),
        num_processes: int | None = None,
        components: Sequence[str] | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.observation, self.action, self.max_episode_steps, offered, self.action_activity = probe(source)
        parts = reward_parts(offered, components, source.name)
        self.reward_names = parts.names
        self._on_event = on_event
        self._seed = 0
        # Spawned, not forked: JAX and EnvPool have threads, which a fork would cut off in mid-lock.
        self._context = multiprocessing.get_context("spawn")
        spaces = (self.observation, self.action)
        block = SharedBlock.create(self._context, spaces, num_envs, len(info_keys), len(parts.names))
        views, self._shared_actions = block.arrays()
        self._shared = LoopArrays.over(views)
        # A worker that dies may leave half a row behind: what we return is our own copy.
        self._arrays = LoopArrays.allocate(spaces, num_envs, len(info_keys), len(parts.names))
        self._step = as_step(self.observation, self._arrays, info_keys)
        self._action_paths = [path for path, _ in leaves(self.action)]
        count = min(num_processes or usable_cores(), num_envs)
        bounds = np.linspace(0, num_envs, count + 1).astype(int).tolist()
        shares = [
            Share(source, spaces, tuple(info_keys), parts, block, first, end - first, self.spin_seconds)
            for first, end in itertools.pairwise(bounds)
        ]
        self._own: EnvLoop | None = None
        if self.keeps_share:
            own = shares.pop(0)
            self._own, self._own_actions = own.loop(self._arrays, on_event), own.actions(self._shared_actions)
        dealt = (bounds[1] if self.keeps_share else 0, sum(share.count for share in shares))
        self._from_workers = (self._arrays.rows(*dealt), self._shared.rows(*dealt))
        self._workers = [Worker(share, *self._spawn(share)) for share in shares]
        # Workers leave SIGTERM to us, so that a process which ends without closing its engine would wait for them for
        # ever. This runs before multiprocessing waits, and where the engine is forgotten.
        self._end = Finalize(self, end_workers, args=(self._workers,), exitpriority=10)

    def start(self, seed: int) -> Any:
        return self._start(seed, None)

    def start_share(self, seed: int, share_N: Sequence[int]) -> tuple[Any, bool]:
        return self._start(seed, tuple(int(count) for count in share_N)), True

    def _start(self, seed: int, share_N: tuple[int, ...] | None) -> Any:
        self._seed = seed

        def send_start(worker: Worker) -> None:
            first, count = worker.share.first, worker.share.count
            part = None if share_N is None else share_N[first : first + count]
            send(worker, ("start", (seed, part)))

        for worker in self._workers:
            worker.restarts = 0
            send_start(worker)
        if self._own is not None:
            self._own.start(seed, None if share_N is None else share_N[: self._own.num_envs])
        waited = self._workers
        while waited := self._gather(waited):
            for worker in waited:
                self._replace(worker)
                send_start(worker)
        self._take_over()
        self.mask = self._arrays.mask if self._arrays.masked.any() else None
        self._step = self._step._replace(mask=self.mask)
        return self._step.obs

    def step(self, action: Any) -> Step:
        for path, array in zip(self._action_paths, self._shared_actions, strict=True):
            np.copyto(array, value_at(action, path))
        for worker in self._workers:
            send(worker, ("step", None))
        if self._own is not None:
            self._own.step(self._own_actions())
        dead = self._gather(self._workers)
        if not dead:
            self._take_over()
            return self._step
        for worker in self._workers:
            rows = (worker.share.first, worker.share.count)
            if worker in dead:
                self._arrays.rows(*rows).mark_cut()
                self._replace(worker)
                worker.restarts += 1
                send(worker, ("resume", (self._seed, worker.restarts)))
            else:
                self._arrays.rows(*rows).copy_from(self._shared.rows(*rows))
        return self._step

    def _take_over(self) -> None:
        ours, theirs = self._from_workers
        ours.copy_from(theirs)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        self._end()

    def _spawn(self, share: Share) -> tuple[Any, SpinWaitPipe]:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=worker_main, args=(theirs, share), daemon=True)
        process.start()
        # With only the worker holding its end, its death is the end of the stream.
        theirs.close()
        return process, SpinWaitPipe(ours, self.spin_seconds)

    def _gather(self, workers: Sequence[Worker]) -> list[Worker]:
        """Waits for the answer of each of these to `start` or `step`; gives those that died instead.

        One after another: all have to answer anyway, and a worker's death ends its stream after its last message.
        """
        dead = []
        for worker in workers:
            try:
                while not self._take(worker.pipe.recv()):
                    pass
            except (EOFError, OSError):
                dead.append(worker)
        return dead

    def _take(self, answer: tuple[str, Any]) -> bool:
        """Whether the answer completes the command; events are passed on, refusals raised."""
        kind, content = answer
        if kind == "event":
            self._on_event(content)
        elif kind == "refused":
            raise UserError(*content)
        return kind == "done"

    def _replace(self, worker: Worker) -> None:
        """Puts a new process in the place of one that died, or gives up after too many times."""
        worker.process.join(CLOSE_SECONDS)
        worker.deaths += 1
        share, code = worker.share, worker.process.exitcode
        indices = [share.first, share.first + share.count - 1]
        if worker.deaths > MAX_RESTARTS:
            raise UserError(
                f"{share.source.name}: the worker of environments {indices[0]}..{indices[1]} died "
                f"{worker.deaths} times (at most {MAX_RESTARTS} restarts), the last with exit code {code}.",
                ("--engine gymnasium-sync", 'start the program under `if __name__ == "__main__":`'),
            )
        self._on_event(
            {
                "event": "worker_restarted",
                "environments": indices,
                "restarts": worker.deaths,
                "max_restarts": MAX_RESTARTS,
                "error": f"worker process died with exit code {code}",
            }
        )
        worker.pipe.close()
        worker.process, worker.pipe = self._spawn(share)


def send(worker: Worker, message: tuple[str, Any]) -> None:
    """A dead worker's pipe is noticed when its answer is awaited."""
    with contextlib.suppress(OSError):
        worker.pipe.send(message)


def end_workers(workers: list[Worker]) -> None:
    """Ends all processes: asks, then insists."""
    for worker in workers:
        send(worker, ("close", None))
    for worker in workers:
        worker.process.join(CLOSE_SECONDS)
        for end in (worker.process.terminate, worker.process.kill):
            if worker.process.is_alive():
                end()
                worker.process.join(CLOSE_SECONDS / 2)
        worker.pipe.close()
    workers.clear()


def worker_main(connection: Connection, share: Share) -> None:
    """Steps a share of the environments until the parent asks it to close, or until the parent is gone."""
    # Ctrl-C and many a scheduler's SIGTERM reach the whole group; the parent decides what to save and when to close.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
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
