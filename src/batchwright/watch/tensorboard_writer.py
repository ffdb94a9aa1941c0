"""Event files for TensorBoard by tensorboardX, without TensorFlow or PyTorch. The only file that imports it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from batchwright.core.errors import missing_package
from batchwright.watch.json_lines import numbers_of
from batchwright.watch.metric_groups import grouped

FLUSH_EVERY_SECONDS = 5.0


class TensorBoardWriter:
    """Writes all metrics of an iteration as one event over environment steps.

    It writes in the calling thread: the thread of tensorboardX's SummaryWriter dies on a full disk, and its caller then
    blocks for ever. One event per scalar is also more than ten times slower.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        try:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto import event_pb2, summary_pb2
        except ImportError as error:
            raise missing_package("tensorboardX", "tensorboard") from error
        self._events, self._summaries = event_pb2, summary_pb2
        folder.mkdir(parents=True, exist_ok=True)
        # Two starts within one second must not share a file.
        self._writer = EventsWriter(str(folder / "events"), f".{os.getpid()}-{time.monotonic_ns()}")
        self._started = False
        self._next_flush = 0.0
        self._write_hparams(settings)

    def _write_hparams(self, settings: Mapping[str, Any]) -> None:
        """The numbers of the plan for TensorBoard's page of hyper-parameters, beside the mean of evaluations."""
        from tensorboardX.summary import hparams

        if not settings:
            return
        plain = {name: value for name, value in settings.items() if isinstance(value, (bool, int, float, str))}
        for summary in hparams(plain, {"eval/mean": 0.0}):
            self._writer.write_event(self._events.Event(wall_time=time.time(), summary=summary))

    def write(self, record: Mapping[str, Any]) -> None:
        numbers = numbers_of(record)
        step, now = int(numbers["env_steps"]), time.time()
        if not self._started:  # makes TensorBoard discard what an earlier process wrote from this step on
            session = self._events.SessionLog(status=self._events.SessionLog.START)
            self._writer.write_event(self._events.Event(wall_time=now, step=step, session_log=session))
            self._started = True
        named = grouped(numbers).items()
        values = [self._summaries.Summary.Value(tag=name, simple_value=value) for name, value in named]
        summary = self._summaries.Summary(value=values)
        self._writer.write_event(self._events.Event(wall_time=now, step=step, summary=summary))
        if time.monotonic() >= self._next_flush:
            self._writer.flush()
            self._next_flush = time.monotonic() + FLUSH_EVERY_SECONDS

    def close(self) -> None:
        self._writer.close()
