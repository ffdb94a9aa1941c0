"""A worker process: reads tasks line by line, trains the run of each, writes its outcome as a line of JSON."""

from __future__ import annotations

import json
import os
import queue
import threading
from pathlib import Path

from batchwright.runs.shared_programs import SharedPrograms
from batchwright.tuning.executors import end_with_parent, train_run


def main() -> None:
    """Works until standard input is closed. What a run prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=end_with_parent, args=(lines,), daemon=True).start()
    programs = SharedPrograms()
    while True:
        task = json.loads(lines.get())
        outcome = train_run(Path(task["run"]), programs, tuple(task["writers"]), trust=task["trust"])
        print(json.dumps(outcome.to_json()), file=answers, flush=True)


if __name__ == "__main__":
    main()
