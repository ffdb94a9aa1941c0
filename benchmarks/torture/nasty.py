"""Environments with faults in training and in evaluation: exit code 0, 2 or 3 and a message that names the fault."""

from __future__ import annotations

import random
import re
from pathlib import Path

import nasty_spaces
from caller import HUNG, Answer, Caller
from nasty_envs import FAULTS, Fault
from sandbox import Sandbox, erase
from tally import Tally, last_line, problems_of

from batchwright.config.schema import FIELDS
from batchwright.core.machine import probe_machine

SECONDS = 90.0
ENVS = Path(nasty_spaces.__file__)
ON_POLICY = "--rollout-steps 16 --minibatches 2 --epochs 1 --total-steps 256"
REPLAY = "--rollout-steps 8 --warmup-steps 32 --updates-per-iteration 1 --transitions-per-update 8 --total-steps 192"
ALGOS = {"ppo": ON_POLICY, "dqn": REPLAY, "sac": REPLAY, "td3": REPLAY}
ENGINES = ("gymnasium-sync", "gymnasium-async", "gymnasium-split")
COMMON = "--num-envs 2 --hidden 8 --eval-every 0 --eval-episodes 1 --checkpoint-every 2 --num-threads 2 --preset none"


def run(tally: Tally, sandbox: Sandbox, count: int, seed: int, only: int | None) -> None:
    """So many environments: every fault once with ppo or another algorithm, then again with other engines."""
    caller = Caller(sandbox.path, {}, memory_bytes=probe_machine().ram_bytes // 3)
    order = random.Random(seed).sample(sorted(FAULTS), len(FAULTS))
    tally.notes["different faults"] = len({order[number % len(order)] for number in range(count)})
    try:
        for number in range(count) if only is None else (only,):
            _attack(tally, sandbox, caller, order[number % len(order)], number)
    finally:
        caller.close()


def _attack(tally: Tally, sandbox: Sandbox, caller: Caller, name: str, number: int) -> None:
    fault, draw = FAULTS[name], random.Random(f"{name} {number}")
    engine = "gymnasium-async" if fault.own_process else draw.choice(ENGINES)
    algo = draw.choice(("ppo", "ppo", *ALGOS))
    suffix = "_box" if algo in ("sac", "td3") or (algo == "ppo" and draw.random() < 0.3) else ""
    words = ["train", f"{ENVS}:{name}{suffix}", "--algo", algo, "--engine", engine, "--quiet"]
    words += [*COMMON.split(), *ALGOS[algo].split(), "--run-dir", str(sandbox.victim)]
    if fault.flags and fault.flags[0][2:].replace("-", "_") in FIELDS:
        words += fault.flags
    erase(sandbox.victim)
    answer = caller.command(*words, seconds=SECONDS)
    problems = [f"train: {text}" for text in _problems(answer, fault, engine)]
    shown = answer.text[-1500:] if problems else ""
    tally.codes[str(answer.code)] += 1
    tally.calls += 1
    if sandbox.victim.exists() and not problems and not answer.stopped:
        played = caller.command("eval", str(sandbox.victim), "--episodes", "2", seconds=SECONDS)
        found = problems_of(played)
        problems += [f"eval: {text}" for text in found]
        shown = shown or (played.text[-1500:] if found else "")
        tally.codes[str(played.code)] += 1
        tally.calls += 1
    problems += [f"changed outside: {path}" for path in sandbox.changes()[:3]]
    kind = name.split("_", maxsplit=1)[0]
    tally.count(
        kind if kind in KINDS else "spaces and others", number, f"{name}{suffix}, {algo}, {engine}", problems, shown
    )


KINDS = ("reward", "observation", "step", "reset", "info", "terminated", "error", "hangs", "killed", "os", "factory")


def _problems(answer: Answer, fault: Fault, engine: str) -> list[str]:
    """What is wrong with the outcome of a training."""
    if fault.flags and answer.stopped and engine != "gymnasium-async":
        # Nothing can take this process out of the environment's own code; it must be said, and a signal be heard.
        named = re.search(fault.words, answer.text) or fault.may_train
        return [] if named and answer.code != HUNG else [f"a hang was not named, or SIGTERM not heard: {answer.code}"]
    return problems_of(answer) + _misnamed(answer, fault)


def _misnamed(answer: Answer, fault: Fault) -> list[str]:
    """What is wrong with the outcome: a fault that was trained on or not named, or a good environment refused."""
    if answer.code == 0 and fault.words and not fault.may_train:
        return ["trained as if nothing were wrong"]
    if answer.code in (2, 3) and not fault.words and not fault.may_train:
        return [f"a harmless environment was refused: {last_line(answer.err)}"]
    if answer.code in (2, 3) and not re.search(fault.words, answer.err):
        return [f"the message does not name the fault ({fault.words}): {last_line(answer.err)}"]
    return []
