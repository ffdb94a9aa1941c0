"""Trains prepared runs in one process of LeRobot's interpreter: `python inside_runs.py RUN DATA < SCENARIOS`.

RUN is then played on DATA.

Importing LeRobot takes longer than these runs, so each of them is a fork of this process, which has it already.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import torch
from play_policy import errors

from batchwright.lerobot import torchvision_schemas

torchvision_schemas.declare()

import lerobot.scripts.lerobot_train  # noqa: E402, F401

from batchwright.lerobot import lerobot_worker  # noqa: E402

DEADLINE_SECONDS = 600


def run_out_of_memory(phase: str, at: int, above: int) -> None:
    """One phase of an update fails while micro-batches are above a size."""
    from lerobot.policies.act.modeling_act import ACTPolicy

    forward, step, seen = ACTPolicy.forward, torch.optim.AdamW.step, {"updates": 0, "short": False}

    def fail(where: str, samples: int) -> None:
        if where == phase and seen["updates"] == at and samples > above:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    def short_forward(self, batch):
        samples = batch["action"].shape[0]
        fail("forward", samples)
        loss, outputs = forward(self, batch)
        if phase == "backward":
            loss.register_hook(lambda grad: fail("backward", samples))
        return loss, outputs

    def short_step(self, *args, **kwargs):
        if not seen["short"] and phase == "optimiser step" and seen["updates"] == at:
            seen["short"] = True
            fail("optimiser step", above + 1)
        seen["updates"] += 1
        return step(self, *args, **kwargs)

    ACTPolicy.forward, torch.optim.AdamW.step = short_forward, short_step


def start(run: str, shortage: list | None = None, environment: dict[str, str] | None = None) -> int:
    """Forks a training process; returns its id."""
    process = os.fork()
    if process:
        return process
    code = 1
    with contextlib.suppress(BaseException):
        os.environ.update(environment or {})
        if shortage:
            run_out_of_memory(*shortage)
        sys.argv = ["lerobot_worker", run, "--quiet"]
        try:
            code = lerobot_worker.main()
        except BaseException:
            traceback.print_exc()
    os._exit(code)


def code_of(process: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def wait_for(condition, process: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        assert os.waitpid(process, os.WNOHANG) == (0, 0), "it ended before"
        time.sleep(0.01)


def train(run: str, how: dict) -> list[int]:
    """Exit codes of the processes that trained one run."""
    if "kill_at" in how:
        process = start(run)
        wait_for((Path(run) / "checkpoints" / how["kill_at"]).exists, process)
        os.kill(process, signal.SIGKILL)
        return [code_of(process), code_of(start(run))]
    if "interrupt" in how:
        process = start(run)
        metrics = Path(run) / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size, process)
        os.kill(process, signal.SIGINT)
        return [code_of(process)]
    if "processes" in how:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(how["processes"])}
        ranks = [common | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(how["processes"])]
        started = [start(run, how.get("shortage"), rank) for rank in ranks]
        return [code_of(process) for process in started]
    return [code_of(start(run, how.get("shortage")))]


if __name__ == "__main__":
    torch.set_num_threads(1)
    codes, seconds = {}, {}
    for run, how in json.loads(sys.stdin.read()).items():
        begin_seconds = time.perf_counter()
        codes[Path(run).name] = train(run, how)
        seconds[Path(run).name] = round(time.perf_counter() - begin_seconds, 2)
    played = errors(str(Path(sys.argv[1]) / "checkpoints" / "last" / "pretrained_model"), sys.argv[2])
    print("\n" + json.dumps({"codes": codes, "seconds": seconds, "played": played}))
