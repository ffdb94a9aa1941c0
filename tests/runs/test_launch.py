"""The start of a run: its directory is one training's alone."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from batchwright.config.load import resolve
from batchwright.core.errors import UserError
from batchwright.planning.make import make_plan
from batchwright.runs.launch import create_run_dir
from run_batchwright import LAPTOP


def test_of_trainings_prepared_at_one_instant_in_one_directory_one_is_accepted(tmp_path: Path) -> None:
    resolved = resolve({"env": "CartPole-v1"})
    plan = make_plan(resolved, LAPTOP)
    accepted: list[Path] = []

    def prepare(folder: Path, barrier: threading.Barrier) -> None:
        barrier.wait()
        with contextlib.suppress(UserError):
            create_run_dir(resolved, plan, folder, "")
            accepted.append(folder)

    for attempt in range(20):
        barrier = threading.Barrier(4)
        threads = [threading.Thread(target=prepare, args=(tmp_path / str(attempt), barrier)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert accepted == [tmp_path / str(attempt) for attempt in range(20)]
