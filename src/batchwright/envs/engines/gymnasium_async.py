"""Gymnasium environments in worker processes over shared memory; a worker that dies is replaced."""

# N envs, dealt to processes in contiguous shares

from __future__ import annotations

import contextlib
import errno
import itertools
import multiprocessing
import resource
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.util import Finalize
from typing import Any, ClassVar

import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.machine import usable_cores
from batchwright.envs.engines.engine import HostEngine, OnEvent, Step
from batchwright.envs.engines.env_loop import MAX_RESTARTS, EnvLoop
from batchwright.envs.engines.env_worker import Share, worker_main
from batchwright.envs.engines.gymnasium_sync import as_step, probe
from batchwright.envs.engines.loop_arrays import LoopArrays
from batchwright.envs.engines.shared_block import SharedBlock
from batchwright.envs.engines.spin_wait_pipe import SpinWaitPipe
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.envs.reward_components import reward_parts
from batchwright.envs.spaces import leaves, value_at
from batchwright.envs.watchdog import SILENT_SECONDS, TICK_SECONDS, Watch, no_answer

CLOSE_SECONDS = 2.0
"""How long a worker may take to close its environments before it is ended."""
START_FACTOR, START_SECONDS = 5, 60.0
"""Starting imports packages and makes environments: it may take so many times as long as a step, at least so long."""


@dataclass
class Worker:
    """One live worker process and our end of its pipe."""

    share: Share
    process: Any
    pipe: SpinWaitPipe
    deaths: int = 0
    restarts: int = 0
    has_answered: bool = False
    """Before its first answer a worker imports packages and makes its environments."""
    hung: str = ""
    """What is known of a process that was ended because it did not answer."""


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
        step_timeout: float | None = None,
    ) -> None:
        self.num_envs, self._name, self._step_timeout = num_envs, source.name, step_timeout or 0.0
        found = probe(source)
        self.observation, self.action, self.max_episode_steps, offered, self.action_activity, self.layout = found
        self.agents = () if self.layout is None else self.layout.names
        parts = reward_parts(offered, components, source.name)
        self.reward_names = parts.names
        self._on_event = on_event
        self._seed = 0
        # Spawned, not forked: JAX and EnvPool have threads, which a fork would cut off in mid-lock.
        self._context = multiprocessing.get_context("spawn")
        spaces = (self.observation, self.action)
        block = SharedBlock.create(self._context, spaces, self.num_rows, len(info_keys), len(parts.names))
        views, self._shared_actions = block.arrays()
        self._shared = LoopArrays.over(views)
        # A worker that dies may leave half a row behind: what we return is our own copy.
        self._arrays = LoopArrays.allocate(spaces, self.num_rows, len(info_keys), len(parts.names))
        self._step = as_step(self.observation, self._arrays, info_keys, bool(self.agents))
        self.idle = self._step.idle
        self._action_paths = [path for path, _ in leaves(self.action)]
        count = min(num_processes or usable_cores(), num_envs)
        bounds = np.linspace(0, num_envs, count + 1).astype(int).tolist()
        shares = [
            Share(source, spaces, tuple(info_keys), parts, block, first, end - first, self.spin_seconds, self.layout)
            for first, end in itertools.pairwise(bounds)
        ]
        self._attributes: dict[str, Any] = {}
        self._own: EnvLoop | None = None
        if self.keeps_share:
            own = shares.pop(0)
            self._own_watch = Watch(source.name, on_event, own.block.at)
            with self._own_watch:
                self._own = own.loop(self._arrays, on_event)
            self._own_actions = own.actions(self._shared_actions)
        each = max(1, len(self.agents))
        dealt = (each * (bounds[1] if self.keeps_share else 0), sum(share.rows[1] for share in shares))
        self._from_workers = (self._arrays.rows(*dealt), self._shared.rows(*dealt))
        self._waiting = Watch(source.name, lambda event: None, block.at)  # silence is said in `_receive`
        self._workers: list[Worker] = []
        # Workers leave SIGTERM to us, so that a process which ends without closing its engine would wait for them for
        # ever. This runs before multiprocessing waits, and where the engine is forgotten.
        self._end = Finalize(self, end_workers, args=(self._workers,), exitpriority=10)
        for share in shares:
            self._workers.append(Worker(share, *self._spawn(share, count)))

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
            with self._own_watch:
                self._own.start(seed, None if share_N is None else share_N[: self._own.num_envs])
        waited = self._workers
        while waited := self._gather(waited, starting=True):
            for worker in waited:
                self._replace(worker)
                send_start(worker)
        self._take_over()
        has_masks = self._arrays.masked.any() or (self.layout is not None and len(self.layout.groups) > 1)
        self.mask, self.masked = self._arrays.mask if has_masks else None, self._arrays.masked
        self._step = self._step._replace(mask=self.mask)
        return self._step.obs

    def step(self, action: Any) -> Step:
        for path, array in zip(self._action_paths, self._shared_actions, strict=True):
            np.copyto(array, value_at(action, path))
        for worker in self._workers:
            send(worker, ("step", None))
        if self._own is not None:
            with self._own_watch:
                self._own.step(self._own_actions())
        dead = self._gather(self._workers)
        if not dead:
            self._take_over()
            return self._step
        for worker in self._workers:
            rows = worker.share.rows
            if worker in dead:
                lost = self._arrays.rows(*rows)
                lost.mark_cut()
                lost.idle[:] = bool(self.agents)
                self._replace(worker)
                worker.restarts += 1
                send(worker, ("resume", (self._seed, worker.restarts)))
            else:
                self._arrays.rows(*rows).copy_from(self._shared.rows(*rows))
        return self._step

    def set_attribute(self, name: str, value: Any) -> None:
        self._attributes[name] = value
        if self._own is not None:
            self._own.set_attribute(name, value)
        for worker in self._workers:
            send(worker, ("set", (name, value)))

    def _take_over(self) -> None:
        ours, theirs = self._from_workers
        ours.copy_from(theirs)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
        self._end()

    def _spawn(self, share: Share, count: int) -> tuple[Any, SpinWaitPipe]:
        """A new worker process, one of `count`, and our end of its pipe."""
        try:
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=worker_main, args=(theirs, share), daemon=True)
            process.start()
        except OSError as error:
            self.close()
            raise _cannot_spawn(error, count) from error
        # With only the worker holding its end, its death is the end of the stream.
        theirs.close()
        return process, SpinWaitPipe(ours, self.spin_seconds)

    def _gather(self, workers: Sequence[Worker], starting: bool = False) -> list[Worker]:
        """Waits for the answer of each of these to `start` or `step`; gives those that died instead.

        One after another: all have to answer anyway, and a worker's death ends its stream after its last message.
        """
        dead = []
        with self._waiting:
            for worker in workers:
                limit_seconds = self._step_timeout
                if limit_seconds and (starting or not worker.has_answered):
                    limit_seconds = max(START_FACTOR * limit_seconds, START_SECONDS)
                try:
                    while not self._take(self._receive(worker, limit_seconds)):
                        pass
                    worker.has_answered = True
                except (EOFError, OSError):
                    dead.append(worker)
        return dead

    def _receive(self, worker: Worker, limit_seconds: float) -> tuple[str, Any]:
        """The next message; a worker that moves on to no other environment for too long is ended."""
        at, since, say_after = worker.share.at(), time.monotonic(), SILENT_SECONDS
        while not worker.pipe.wait(TICK_SECONDS):
            now = time.monotonic()
            if worker.share.at() != at:
                at, since, say_after = worker.share.at(), now, SILENT_SECONDS
            elif limit_seconds and now - since >= limit_seconds:
                who = "it" if at is None else f"environment {at}"
                worker.hung = f"{who} did not answer for {limit_seconds:g} s (--step-timeout)"
                worker.process.kill()
                raise EOFError
            elif now - since >= say_after:
                say_after *= 2
                self._on_event(no_answer(at, now - since, self._name))
        answer: tuple[str, Any] = worker.pipe.recv()
        return answer

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
        why = worker.hung or f"worker process died {_exit_of(code)}"
        if worker.deaths > MAX_RESTARTS:
            raise UserError(
                f"{share.source.name}: the worker of environments {indices[0]}..{indices[1]} died "
                f"{worker.deaths} times (at most {MAX_RESTARTS} restarts), the last: {why}.",
                _death_fixes(worker, code, self._step_timeout),
            )
        self._on_event(
            {
                "event": "worker_restarted",
                "environments": indices,
                "restarts": worker.deaths,
                "max_restarts": MAX_RESTARTS,
                "error": why,
            }
        )
        worker.pipe.close()
        share.block.at[share.first] = -1
        worker.process, worker.pipe = self._spawn(share, len(self._workers))
        worker.has_answered, worker.hung = False, ""
        for attribute in self._attributes.items():
            send(worker, ("set", attribute))


def _exit_of(code: int | None) -> str:
    """`with exit code 7`, `by SIGKILL`."""
    if code is None or code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"


def _death_fixes(worker: Worker, code: int | None, step_timeout: float) -> list[str]:
    """What helps; never an engine in which the same environment would end the trainer."""
    if worker.hung:
        return [
            f"--step-timeout {10 * step_timeout:g}",
            "--step-timeout 0 (no limit)",
            "mend what the environment waits for",
        ]
    if code == -signal.SIGKILL:
        return ["fewer --num-envs: the system ends processes when memory runs out"]
    if not worker.has_answered and code == 1:
        return ['start the program under `if __name__ == "__main__":`']
    return ["raise an exception in the environment instead of ending its process (os._exit, sys.exit, abort)"]


def _cannot_spawn(error: OSError, count: int) -> UserError:
    """The error for workers that the system does not let us start."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return UserError(
            f"{count} worker processes need more open files than the limit of {soft} (ulimit -n): {error.strerror}.",
            ["ulimit -n 1024", "--num-threads 2", "--engine gymnasium-sync"],
        )
    return UserError(
        f"{count} worker processes cannot be started: {error}.", ["--num-threads 2", "--engine gymnasium-sync"]
    )


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
