"""Runs killed with SIGKILL again and again and resumed: their record must be, to the bit, that of one left alone."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kinds import KINDS, Kind
from sandbox import Sandbox, erase
from tally import Tally

from batchwright.watch.metric_log import first_difference, read_events, read_metrics
from kill_again import fork
from small_runs import lines

KILLS_PER_RUN = 10
"""Each costs a start; what a run costs besides, one start to the end and a comparison, is shared by all of them."""
KINDS_PER_SEED = 7
"""Each seed begins so many kinds later: short rounds with different seeds come to all of them."""
LONGEST_SECONDS = 120.0


class Moment(NamedTuple):
    """When an attempt is killed: what it waits for, after how many records, and how much later at most."""

    name: str
    after: int = -1
    seconds: float = 0.02


def run(tally: Tally, sandbox: Sandbox, kills: int, seed: int, only: int | None) -> None:
    """Kills runs of all kinds in turn, from one of this seed on, until so many kills are made."""
    first, number = seed * KINDS_PER_SEED % len(KINDS), 0
    order = KINDS[first:] + KINDS[:first]
    while sum(tally.codes.values()) < kills or only is not None:
        if only is None or number == only:
            kind = order[number % len(order)]
            left = kills - sum(tally.codes.values())
            _attack(tally, sandbox, kind, number, random.Random(f"{seed} kills {number}"), min(left, KILLS_PER_RUN))
            if only is not None:
                return
        number += 1


def _attack(tally: Tally, sandbox: Sandbox, kind: Kind, number: int, draw: random.Random, kills: int) -> None:
    iterations = kind.pace * (kills + 1)
    whole, killed = sandbox.path / "whole" / f"{kind.name}, {kills} kills", sandbox.path / "killed"
    if not whole.exists():
        _to_the_end(lambda: kind.train(whole, iterations, max(2, kind.pace // 2), sandbox.path / "data"))
    erase(killed)
    killed.mkdir()
    for name in ("config.yaml", "plan.json"):
        shutil.copy(whole / name, killed / name)
    moments = draw_moments(kills, kind.pace, iterations, draw)
    for moment in moments:
        if _kill(kind, killed, moment, iterations, draw):
            tally.codes[moment.name] += 1
    problems = []
    try:
        _to_the_end(lambda: kind.resume(killed))
        problems = differences(whole, killed)
    except ChildProcessError as error:
        problems = [str(error)]
    tally.calls += len(moments) + 1
    tally.count(kind.name, number, f"killed at {', '.join(moment.name for moment in moments)}", problems)


def draw_moments(kills: int, pace: int, iterations: int, draw: random.Random) -> list[Moment]:
    """So many moments, the early ones first: while starting, between records, in checkpoints, at the end."""
    names = draw.choices(("start-up", "record", "checkpoint", "final", "report"), (2, 4, 5, 3, 2), k=kills)
    order = {"start-up": 0, "record": 1, "checkpoint": 1, "final": 2, "report": 3}
    names.sort(key=lambda name: order[name])
    after, found = -1, []
    for name in names:
        if order[name] == 1:
            after = min(after + 1 + draw.randrange(pace), iterations - 2)
        wait = {"start-up": 1.0, "record": 0.02, "checkpoint": 0.003, "final": 0.2, "report": 0.05}[name]
        found.append(Moment(name, after if order[name] == 1 else -1 if name == "start-up" else iterations - 1, wait))
    if draw.random() < 0.3:
        found.append(found.pop(0))  # a start-up may also come last
    return found


def _kill(kind: Kind, folder: Path, moment: Moment, iterations: int, draw: random.Random) -> bool:
    """One attempt, killed at the moment; False where it had ended before."""
    child = fork(lambda: kind.resume(folder))
    is_due = _trigger(folder, moment, iterations)
    deadline = time.monotonic() + LONGEST_SECONDS
    while not is_due() and time.monotonic() < deadline:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.0002)
    time.sleep(draw.random() * moment.seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def _trigger(folder: Path, moment: Moment, iterations: int) -> Callable[[], bool]:
    """Whether the moment has come; asked again and again."""
    if moment.name == "start-up":
        return lambda: True
    if moment.name == "checkpoint":
        return lambda: lines(folder) > moment.after and _writes_checkpoint(folder / "checkpoints")
    if moment.name == "report":
        events = folder / "events.jsonl"
        return lambda: b'"finished"' in (events.read_bytes() if events.exists() else b"")
    return lambda: lines(folder) > min(moment.after, iterations - 1)


def _writes_checkpoint(folder: Path) -> bool:
    return folder.is_dir() and any(path.suffix == ".partial" for path in folder.iterdir())


def _to_the_end(work: Callable[[], Any]) -> None:
    _, status = os.waitpid(fork(work), 0)
    if status:
        raise ChildProcessError(f"a run that nobody killed ended with status {status}")


def differences(whole: Path, killed: Path) -> list[str]:
    """What a run that was killed and resumed has other than one that was left alone; empty where nothing differs."""
    found = []
    difference = first_difference(read_metrics(whole / "metrics.jsonl"), read_metrics(killed / "metrics.jsonl"))
    if difference is not None:
        found.append(f"another record: {difference}")
    last, other = _last_evaluation(whole), _last_evaluation(killed)
    if last != other:
        found.append(f"another last evaluation: {last} and {other}")
    for name in ("fit.json", "report.html"):
        if (whole / name).exists() and not (killed / name).exists():
            found.append(f"no {name}")
    if _fit(whole) != _fit(killed):
        found.append("another fit.json")
    litter = [*killed.rglob("*.tmp"), *killed.rglob("*.partial")]
    if litter:
        found.append(f"left behind: {litter[0].relative_to(killed)}")
    return found


def _last_evaluation(folder: Path) -> Any:
    events = [event for event in read_events(folder / "events.jsonl") if event["kind"] == "evaluation"]
    return [event.get("returns") for event in events[-1:]]


def _fit(folder: Path) -> Any:
    path = folder / "fit.json"
    return json.loads(path.read_text()) if path.exists() else None
