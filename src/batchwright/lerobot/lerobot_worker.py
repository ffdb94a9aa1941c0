"""Trains one run in LeRobot's interpreter: LeRobot's own loop, with our update, data order and checkpoints in it.

`python -m batchwright.lerobot.lerobot_worker RUN [--quiet] [--writer=NAME ...]`. LeRobot's own output goes to
`lerobot.log` of the run.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from batchwright.core.errors import UserError
from batchwright.core.run_dir import RunDir
from batchwright.lerobot import lerobot_config, torchvision_schemas
from batchwright.lerobot.dataset_settings import DatasetSettings
from batchwright.lerobot.lerobot_checkpoints import CheckpointWriter, SavedUpdate, last_checkpoint
from batchwright.planning.memory_ladder import Rung
from batchwright.planning.plan import plan_from_dict
from batchwright.watch.run_end import FAILED

if TYPE_CHECKING:
    from batchwright.lerobot.dataset_record import DatasetRecord

JOB_FILE = "lerobot.json"
LOG_FILE = "lerobot.log"
WRITER = "--writer="
DIVERGED, INTERRUPTED, BAD_INPUT, UNEXPECTED = 3, 130, 2, 1
MOST_BAD_UPDATES = 3
"""After so many updates in a row with a loss or gradient that is not finite the run stops."""


class StopTraining(Exception):  # noqa: N818 - a request, not an error
    """Ends LeRobot's loop at the next batch."""


class Diverged(Exception):  # noqa: N818 - named after what happened
    """The loss or the gradient was not finite several times in a row."""


class Worker:
    """One run: what its directory says, and the parts that LeRobot's loop calls."""

    def __init__(self, run: RunDir, terminal: TextIO, quiet: bool, writers: tuple[str, ...] = ()) -> None:
        from batchwright.lerobot.accumulated_update import AccumulatedUpdate, Growth
        from batchwright.lerobot.dataset_record import DatasetRecord, memory_use

        self.run = run
        self.settings = DatasetSettings.from_plan(plan_from_dict(json.loads(run.plan_path.read_bytes())))
        self.job = json.loads((run.path / JOB_FILE).read_bytes())
        self.rank, self.processes = int(os.environ.get("RANK", "0")), self.settings.processes
        self.saved = last_checkpoint(run.checkpoints)
        first = self.saved.update if self.saved else 0
        # Only the first process writes; the others compute the same updates.
        self.record = None
        if self.rank == 0:
            self.record = DatasetRecord(run, self.settings, self.job["frames"], terminal, quiet, writers)
        self.update = AccumulatedUpdate(
            self._first_rung(self.saved),
            self.settings.rung.samples_per_step,
            self.settings.seed,
            first,
            self.settings.max_grad_norm,
            self._on_rung,
            self._on_update,
            self._on_non_finite,
            Growth(memory_use, self._on_growth) if self.settings.grows else None,
        )
        self.bad_updates = 0
        self.process, self.asked = os.getpid(), 0
        self.stopping = self.stops = False
        self.config: Any = None

    def _first_rung(self, saved: SavedUpdate | None) -> Rung:
        return Rung(**saved.state["rung"]) if saved else self.settings.rung

    def _on_rung(self, update: int, rung: Rung, phase: str) -> None:
        if self.record is not None:
            self.record.on_rung(update, rung, phase)

    def _on_growth(self, update: int, rung: Rung) -> None:
        if self.record is not None:
            shown = rung.describe(self.settings.largest_share)
            iteration = self.record.iteration_of(update)
            self.record.events.record(
                "growth", iteration, f"memory allows {shown} from update {update} on", **vars(rung)
            )

    def _on_update(self, result: Any) -> None:
        self.bad_updates = 0 if math.isfinite(result.loss) and math.isfinite(result.gradient_norm) else self.bad_updates
        if self.record is not None:
            self.record.on_update(result)

    def _on_non_finite(self, update: int, loss: float, norm: float) -> None:
        self.bad_updates += 1
        message = f"loss {loss:g}, gradient norm {norm:g}; update {update} is left out"
        if self.record is not None:
            self.record.warn("non-finite", update, message)
        if self.bad_updates >= MOST_BAD_UPDATES:
            raise Diverged(f"the loss or the gradient was not finite in {MOST_BAD_UPDATES} updates in a row")

    def train(self) -> None:
        """LeRobot's training to its end, or to a stop that was asked for."""
        torchvision_schemas.declare()
        module = importlib.import_module("lerobot.scripts.lerobot_train")
        writer = CheckpointWriter(self.run.checkpoints, self._own_state, self._on_saved)
        self.run.checkpoints.mkdir(exist_ok=True)
        replaced = {
            "update_policy": self.update,
            "cycle": self._batches,
            "get_step_checkpoint_dir": writer.partial_folder,
            "update_last_checkpoint": writer.complete,
        }
        missing = [name for name in replaced if not hasattr(module, name)]
        if missing:
            raise UserError(f"this LeRobot has no {missing[0]} in its training loop.", ["make lerobot"])
        for name, part in replaced.items():
            setattr(module, name, part)
        self._capture_config(module)
        lerobot_config.skip_help_texts()
        if self.record is not None:
            self._restore(self.record)
        sys.argv = ["lerobot-train", *self._words()]
        with contextlib.suppress(StopTraining):
            module.train()

    def _restore(self, record: DatasetRecord) -> None:
        """Cuts what was recorded after the last checkpoint; a run that was killed before its first one begins anew."""
        if self.saved is None:
            record.restore(0, {})
            return
        iteration = record.iteration_of(self.saved.update)
        record.restore(iteration, self.saved.state["sums"])
        record.events.record("resume", iteration, f"resumed after update {self.saved.update}")

    def _words(self) -> list[str]:
        """The words of LeRobot's command line; a resumed run takes its configuration from the checkpoint."""
        if self.saved is None:
            return list(self.job["words"])
        return [f"--config_path={self.saved.config_path}", "--resume=true", *self.job["resume_words"]]

    def _capture_config(self, module: Any) -> None:
        """Keeps LeRobot's configuration, whose `save_freq` makes it save before a stop."""
        validate = module.TrainPipelineConfig.validate

        def keep(config: Any) -> None:
            validate(config)
            self.config = config

        module.TrainPipelineConfig.validate = keep

    def _batches(self, dataloader: Any) -> Iterator[Any]:
        """In the place of `cycle`: batches in our order, from the update that comes next."""
        import torch

        from batchwright.lerobot.chunk_decode import skip_unused_images
        from batchwright.lerobot.data_order import DataOrder

        dataset = dataloader.dataset
        skip_unused_images(dataset)
        if self.record is not None:
            self.record.frames = len(dataset)
        order = DataOrder(
            len(dataset),
            self.settings.samples_per_update,
            self.settings.seed,
            self.job["groups"],
            self.job["weights"],
            self.rank,
            self.processes,
        )
        workers = self.settings.workers
        loader = torch.utils.data.DataLoader(
            dataset,
            batch_sampler=order.batches(self.update.update),
            num_workers=workers,
            prefetch_factor=self.settings.prefetch_factor if workers else None,
            pin_memory=torch.cuda.is_available(),
            generator=torch.Generator().manual_seed(self.settings.seed),
        )
        batches = iter(loader)
        while True:
            self._settle_stop()
            if self.stops:
                raise StopTraining
            start_seconds = time.perf_counter()
            batch = next(batches)
            if self.record is not None:
                self.record.loader_seconds = time.perf_counter() - start_seconds
            yield batch

    def _settle_stop(self) -> None:
        """Between two updates: where a stop was asked for, one more update follows, LeRobot saves, and then it stops.

        The processes agree on it, because each of them has a part in every update.
        """
        if self.stopping:
            self.stops = True
        elif self._asked_of_any():
            self.stopping = True
            self.config.save_freq = 1

    def _asked_of_any(self) -> bool:
        if self.processes == 1:
            return bool(self.asked)
        import torch

        flag = torch.tensor([float(self.asked)], device=_device())
        torch.distributed.all_reduce(flag)
        return bool(flag.item())

    def ask_to_stop(self, number: int, frame: Any) -> None:
        if os.getpid() != self.process:
            return  # a loader process
        self.asked += 1
        if self.asked > 1:
            raise KeyboardInterrupt
        if self.record is not None:
            self.record.say("stopping after the next update; again to stop at once")

    def _own_state(self) -> dict[str, Any]:
        sums = dict(self.record.sums) if self.record is not None else {}
        return {"update": self.update.update, "rung": vars(self.update.rung), "sums": sums}

    def _on_saved(self, folder: Path) -> None:
        if self.record is not None:
            self.record.metrics.sync()
            done = self.update.update
            self.record.events.record(
                "checkpoint", self.record.iteration_of(done), f"saved after update {done}", update=done
            )


def _device() -> Any:
    import torch

    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def main() -> int:
    """Trains the run that the first word names; returns the exit code."""
    _die_with_parent()
    run, quiet = RunDir(Path(sys.argv[1])), "--quiet" in sys.argv[2:]
    writers = tuple(word.removeprefix(WRITER) for word in sys.argv[2:] if word.startswith(WRITER))
    terminal = _divert_output(run.path / LOG_FILE)
    rank = int(os.environ.get("RANK", "0"))
    try:
        with run.lock() if rank == 0 else contextlib.nullcontext():
            return _train(run, terminal, quiet, writers)
    except UserError as error:
        if rank == 0:
            print(f"error: {error}", file=terminal, flush=True)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        traceback.print_exc()
        print(f"error: {_reason(error)}. LeRobot's output: {run.path / LOG_FILE}", file=terminal, flush=True)
        return UNEXPECTED


def _reason(error: Exception) -> str:
    """One line on an error; a mistake of the user is shown without the name of a class."""
    line = (str(error).splitlines() or [""])[0][:300]
    return line if isinstance(error, UserError) else f"{type(error).__name__}: {line}"


def _train(run: RunDir, terminal: TextIO, quiet: bool, writers: tuple[str, ...]) -> int:
    worker = Worker(run, terminal, quiet, writers)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, worker.ask_to_stop)
    record = worker.record
    try:
        worker.train()
        done = worker.update.update
        finished = done >= worker.settings.total_updates
        if record is not None:
            kind = "finished" if finished else "interrupted"
            record.events.record(
                kind, max(0, record.iteration_of(done - 1)), f"{kind} after update {done}", update=done
            )
        return 0 if finished else INTERRUPTED
    except Diverged as error:
        if record is not None:
            record.warn("diverged", worker.update.update, f"training diverged: {error}")
        return DIVERGED
    except Exception as error:
        if record is not None:
            done = worker.update.update
            record.events.record(FAILED, record.iteration_of(done), _reason(error), update=done)
        raise
    finally:
        if record is not None:
            record.close()


def _divert_output(path: Path) -> TextIO:
    """Sends what LeRobot prints to a file of the run; returns the terminal for our own lines."""
    terminal = os.fdopen(os.dup(1), "w", buffering=1)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
    for number in (1, 2):
        os.dup2(handle, number)
    os.close(handle)
    return terminal


def _die_with_parent() -> None:
    """A worker does not outlive the command that started it, so that the run can be resumed at once."""
    if sys.platform != "linux":
        return
    import ctypes

    kill_when_parent_dies = 1
    ctypes.CDLL(None).prctl(kill_when_parent_dies, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
