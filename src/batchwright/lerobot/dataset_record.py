"""The record of a run on recorded data, written from inside of LeRobot's loop: metrics, events, lines on the screen."""

from __future__ import annotations

import time
from typing import Any, TextIO

from batchwright.core.machine import process_tree_bytes, usable_ram_bytes
from batchwright.core.run_dir import RunDir
from batchwright.lerobot.accumulated_update import UpdateResult
from batchwright.lerobot.dataset_settings import DatasetSettings
from batchwright.planning.memory_ladder import Rung
from batchwright.watch.gauges import AcceleratorGauge, MemoryGauge
from batchwright.watch.metric_log import EventLog, MetricLog
from batchwright.watch.writers import make_writers

LINE_EVERY_SECONDS = 2.0
TIMES = ("update_seconds", "loader_seconds")


class DatasetRecord:
    """One line of metrics per `updates_per_iteration` updates; what is summed up so far is part of a checkpoint."""

    def __init__(
        self,
        run: RunDir,
        settings: DatasetSettings,
        frames: int,
        terminal: TextIO,
        quiet: bool,
        writers: tuple[str, ...] = (),
    ) -> None:
        self.settings, self.frames, self.terminal, self.quiet = settings, frames, terminal, quiet
        self.metrics, self.events = MetricLog(run.metrics_path), EventLog(run.events_path)
        self._gauges = MemoryGauge(), AcceleratorGauge()
        self.sums: dict[str, float] = {}
        self.loader_seconds = 0.0
        """What the next update waited for its batch."""
        self._line_due = 0.0
        self._writers = make_writers(writers, run, lambda message: self.warn("writer", 0, message))

    def restore(self, iteration: int, sums: dict[str, float]) -> None:
        """Goes on from a checkpoint: later lines are cut, sums of a half-done iteration are taken up again."""
        self.metrics.cut_after(iteration - 1)
        self.sums = {name: float(value) for name, value in sums.items()}

    def on_update(self, result: UpdateResult) -> None:
        added = {
            **result.outputs,
            "loss": result.loss,
            "gradient_norm": result.gradient_norm,
            "update_seconds": result.seconds,
            "loader_seconds": self.loader_seconds,
            "samples_in_iteration": float(result.samples),
            "updates_in_iteration": 1.0,
        }
        for name, value in added.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        done = result.update + 1
        if done % self.settings.updates_per_iteration == 0 or done == self.settings.total_updates:
            self._write(result, done)

    def _write(self, result: UpdateResult, done: int) -> None:
        sums, self.sums = self.sums, {}
        count, samples = sums.pop("updates_in_iteration"), int(sums.pop("samples_in_iteration"))
        times = {name: sums.pop(name) for name in TIMES}
        seen = done * self.settings.samples_per_update
        record: dict[str, Any] = {
            "iteration": (done - 1) // self.settings.updates_per_iteration,
            "env_steps": seen,
            "updates": done,
            "samples": seen,
            "epochs": seen / self.frames,
            **{name: value / count for name, value in sums.items()},
            "learning_rate": result.learning_rate,
            "samples_per_step": result.rung.samples_per_step,
            "micro_batches": result.micro_batches,
            **times,
            "samples_per_second": samples / max(1e-9, sum(times.values())),
            **self._gauges[0].read(),
            **self._gauges[1].read(),
            **accelerator_memory(),
        }
        self.metrics.record(record)
        for writer in self._writers:
            writer.write(record)
        self._show(record, done)

    def _show(self, record: dict[str, Any], done: int) -> None:
        now, last = time.monotonic(), done == self.settings.total_updates
        if self.quiet or (now < self._line_due and not last):
            return
        self._line_due = now + LINE_EVERY_SECONDS
        waited = record["loader_seconds"] / max(1e-9, record["loader_seconds"] + record["update_seconds"])
        self.say(
            f"update {done:,}/{self.settings.total_updates:,}  loss {record['loss']:.4g}  gradient "
            f"{record['gradient_norm']:.3g}  {record['samples_per_second']:.1f} samples/s  loader {waited:.0%}  epoch "
            f"{record['epochs']:.2f}"
        )

    def on_rung(self, update: int, rung: Rung, phase: str) -> None:
        """Records a rung of the ladder, and says it."""
        if phase == "optimiser step":
            message = f"out of memory in the optimiser's step of update {update}: its tensors are updated one at a time"
        else:
            shown = rung.describe(self.settings.largest_share)
            message = f"out of memory in the {phase} pass of update {update}: going on with {shown}"
        self.warn("rung", update, message, phase=phase, **vars(rung))

    def warn(self, kind: str, update: int, message: str, **details: Any) -> None:
        self.events.record(kind, self.iteration_of(update), message, update=update, **details)
        self.say(f"warning: {message}")

    def iteration_of(self, update: int) -> int:
        return update // self.settings.updates_per_iteration

    def say(self, text: str) -> None:
        print(text, file=self.terminal, flush=True)

    def close(self) -> None:
        self._gauges[1].close()
        for writer in self._writers:
            writer.close()
        for log in (self.metrics, self.events):
            log.sync()
            log.close()


def accelerator_memory() -> dict[str, int]:
    """The most memory of a GPU that tensors took since the start, and what it has; empty without a GPU."""
    import torch

    if not torch.cuda.is_available():
        return {}
    return {
        "accelerator_memory_bytes": int(torch.cuda.max_memory_reserved()),
        "accelerator_memory_limit_bytes": int(torch.cuda.get_device_properties(0).total_memory),
    }


def memory_use() -> float | None:
    """The share of the device's memory that was in use at most: of the GPU, else of RAM."""
    found = accelerator_memory()
    if found:
        return found["accelerator_memory_bytes"] / found["accelerator_memory_limit_bytes"]
    used = process_tree_bytes()
    return None if used is None else used / usable_ram_bytes()
