"""A run on recorded data from its plan to its result: the directory is made here, LeRobot's interpreter trains."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from batchwright.adapters.lerobot import plain_line
from batchwright.config.load import Resolved
from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.run_dir import RunDir, run_name
from batchwright.core.safe_open import checked_path, read_json
from batchwright.lerobot.dataset_settings import DatasetSettings
from batchwright.lerobot.lerobot_plan import LeRobotRequest, data_folder, groups_of, policy_words, refuse_plugins
from batchwright.lerobot.lerobot_python import LeRobotPython, call_environment, find_python, import_path
from batchwright.lerobot.lerobot_worker import INTERRUPTED, JOB_FILE, UNEXPECTED, WRITER
from batchwright.planning.plan import Plan, plan_from_dict
from batchwright.runs.launch import create_run_dir
from batchwright.watch.metric_log import EventLog, read_metrics
from batchwright.watch.run_end import FAILED

GRACE_SECONDS = 20.0
"""How long processes may go on after one of them has failed."""


@dataclass(frozen=True)
class DatasetResult:
    """The outcome of a run on recorded data."""

    run_dir: Path
    code: int
    """Exit code of the training process."""
    updates: int
    samples: int
    loss: float | None
    """Mean of the last line of metrics."""
    checkpoint: Path | None
    """The trained policy, in LeRobot's form."""
    seconds: float = 0.0
    failure: str | None = None
    """What ended a training process from outside, such as the kernel when RAM runs out."""

    @property
    def interrupted(self) -> bool:
        return self.code == INTERRUPTED


def prepare_run(
    resolved: Resolved, plan: Plan, request: LeRobotRequest, python: LeRobotPython, run_dir: str | Path | None
) -> Path:
    """A run directory with its plan and the words for LeRobot; nothing is trained yet."""
    if not request.datasets:
        raise UserError("train needs a dataset.", ["--dataset DIR", "--dataset USER/NAME"])
    if run_dir is not None:
        RunDir.refuse_used(run_dir)  # before datasets are merged, which takes long
    repo_id, root = data_folder(request, python)
    settings = DatasetSettings.from_plan(plan)
    words = train_words(plan, request, repo_id, root)
    name = Path(request.datasets[0].name).name
    run = create_run_dir(resolved, plan, run_dir, run_name(name, plan.algo, settings.seed))
    frames = sum(found.frames for found in request.datasets)
    job = {
        "words": [*words, f"--output_dir={run.path.absolute() / 'lerobot-output'}"],
        # A run that was stopped has saved itself with another rhythm of checkpoints.
        "resume_words": [f"--save_freq={settings.updates_per_checkpoint}"],
        "datasets": [str(found.root or found.name) for found in request.datasets],
        "root": None if root is None else str(root),
        "frames": frames or 1,
        "groups": groups_of(request),
        "weights": list(request.weights),
        "python": python.path,
        "lerobot": python.version,
        "offline": request.offline,
    }
    write_atomically(run.path / JOB_FILE, json.dumps(job, indent=2).encode())
    return run.path


def train_words(plan: Plan, request: LeRobotRequest, repo_id: str, root: Path | None) -> list[str]:
    """The words of LeRobot's command line for a run of ours; its batch is that of a whole update."""
    settings = DatasetSettings.from_plan(plan)
    words = [f"--dataset.repo_id={repo_id}"]
    words += [f"--dataset.root={root}"] if root is not None else []
    words += policy_words(settings.policy, request)
    words += [
        f"--batch_size={settings.largest_share}",
        "--num_workers=0",  # of the loader that ours takes the place of
        f"--steps={settings.total_updates}",
        f"--save_freq={settings.updates_per_checkpoint}",
        "--log_freq=0",
        f"--seed={settings.seed}",
        "--wandb.enable=false",
    ]
    if settings.learning_rate is not None:
        words.append(f"--policy.optimizer_lr={settings.learning_rate}")
    if not any(word.startswith("--policy.device=") for word in request.extra) and not _has_gpu():
        words.append("--policy.device=cpu")
    return words


def _has_gpu() -> bool:
    from batchwright.core.machine import probe_machine

    return bool(probe_machine().gpus) or sys.platform == "darwin"


def shown_line(plan: Plan, request: LeRobotRequest) -> str:
    """The plain command of LeRobot, with what it cannot carry."""
    names = [found.name for found in request.datasets]
    return plain_line(plan, names, policy_words(plan.algo, request))


def continue_run(
    path: str | Path, python: str | None = None, quiet: bool = False, writers: tuple[str, ...] = ()
) -> DatasetResult:
    """Trains a run from its last checkpoint, or from its start, to the end of its plan."""
    run = RunDir.open(path)
    start_seconds = time.perf_counter()
    try:
        job = read_json(run.path / JOB_FILE)
        plan = plan_from_dict(read_json(run.plan_path))
    except (OSError, ValueError) as error:
        raise UserError(f"{run} is damaged: {error}.", ["train anew in another --run-dir"]) from None
    _refuse_missing_data(run, job)
    refuse_plugins([str(word) for word in job.get("words", [])])
    found = find_python(python) if python else _same_python(run, job)
    with run.lock():  # said here, before a process is started for it
        pass
    with import_path() as folder:
        words = [found.path, "-m", "batchwright.lerobot.lerobot_worker", str(run.path.absolute())]
        words += [*(["--quiet"] if quiet else []), *(f"{WRITER}{name}" for name in writers)]
        environment = call_environment(folder, bool(job.get("offline")))
        code = _run_processes(words, environment, DatasetSettings.from_plan(plan).processes)
    result = _result(run, code, time.perf_counter() - start_seconds)
    return result if code >= 0 else _record_death(run, plan, result)


def _same_python(run: RunDir, job: dict[str, Any]) -> LeRobotPython:
    """An interpreter of this user with the version that trained the run; one that the run names is not started."""
    named, version = str(job.get("python")), str(job.get("lerobot"))
    fix = f"BATCHWRIGHT_LEROBOT_PYTHON={named} batchwright resume {run}, if you know that interpreter"
    try:
        found = find_python(None)
    except UserError as error:
        raise UserError(error.message, [*error.fixes, fix]) from None
    if found.version != version:
        raise UserError(f"{run} was trained with LeRobot {version}; {found.path} has {found.version}.", [fix])
    return found


def _refuse_missing_data(run: RunDir, job: dict[str, Any]) -> None:
    root = job.get("root")
    if root is not None and not (Path(str(root)) / "meta" / "info.json").is_file():
        raise UserError(
            f"the data of {run} is gone: {root}.", [f"put it back at {root}", "train anew in another --run-dir"]
        )


def _run_processes(words: list[str], environment: dict[str, str], count: int) -> int:
    """Starts one training process or several that share each update; passes signals on.

    Returns the exit code; of a process that a signal ended, the signal's number below 0.
    """
    common = environment if count == 1 else environment | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())}
    started = []
    for rank in range(count):
        own = {} if count == 1 else {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        stdout = None if rank == 0 else subprocess.DEVNULL
        started.append(subprocess.Popen(words, env=common | own, start_new_session=True, stdout=stdout))
    with _passing_signals(started):
        codes = _wait(started)
    return next((code for code in codes if code > 0), 0) or next((code for code in codes if code), 0)


def _wait(processes: list[subprocess.Popen[bytes]]) -> list[int]:
    """Waits for all; when one has failed, the others would wait for its part of the next update and are ended."""
    deadline = math.inf
    while any(process.poll() is None for process in processes):
        if deadline == math.inf and any(process.poll() for process in processes):
            deadline = time.monotonic() + GRACE_SECONDS
        if time.monotonic() > deadline:
            for process in processes:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    return [process.wait() for process in processes]


@contextlib.contextmanager
def _passing_signals(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    def pass_on(number: int, frame: Any) -> None:
        for process in processes:
            if process.poll() is None:
                process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _result(run: RunDir, code: int, seconds: float) -> DatasetResult:
    records = read_metrics(run.metrics_path)
    last = records[-1] if records else {}
    link = run.checkpoints / "last"
    policy = link.resolve() / "pretrained_model" if os.path.lexists(link) else None
    return DatasetResult(
        run.path, code, int(last.get("updates", 0)), int(last.get("samples", 0)), last.get("loss"), policy, seconds
    )


def _record_death(run: RunDir, plan: Plan, result: DatasetResult) -> DatasetResult:
    """Writes down that a signal ended training, which the process itself could not."""
    name = signal.Signals(-result.code).name
    cause = ", which the kernel sends when RAM runs out" if name == "SIGKILL" else ""
    failure = f"training was ended by {name}{cause}, after update {result.updates}"
    events = EventLog(run.events_path)
    events.record(FAILED, result.updates // plan["updates_per_iteration"], failure, update=result.updates)
    events.close()
    return replace(result, code=UNEXPECTED, failure=failure)


def is_dataset_run(path: str | Path) -> bool:
    """Whether a directory is a run on recorded data."""
    try:
        return (checked_path(path) / JOB_FILE).is_file()
    except PermissionError:  # opening the run gives the message
        return False
