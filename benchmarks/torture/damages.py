"""Random damage to every file of a run, then every command that reads one."""

from __future__ import annotations

import json
import os
import random
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import damage
from caller import Answer, Caller
from kinds import KINDS, Kind
from sandbox import Sandbox
from tally import Tally, problems_of

from batchwright.core.machine import probe_machine
from batchwright.watch.metric_log import is_time_valued
from kill_again import fork

KIND_NAMES = ("ppo, jax", "sac + rrd, jax", "reward model", "episodes, jax", "ppo, gymnasium-sync")
READ_BY_EVAL = ("config.yaml", "plan.json", "checkpoints")
ITERATIONS, CHECKPOINT_EVERY = 12, 2
SECONDS = 40.0
"""For one call; a run that trains is asked to stop then, and must."""


def functions() -> dict[str, Any]:
    """What the warm process is asked for besides commands."""
    return {"load": _load, "watch": _watch}


def _load(run: str) -> None:
    import batchwright

    (batchwright.load_reward if batchwright.api.is_reward_run(run) else batchwright.load)(run)


def _watch(run: str) -> None:
    """The three questions that the page asks about a run; the answers must be strict JSON."""
    from batchwright.web.describe import details
    from batchwright.web.folder import Folder
    from batchwright.web.server import Refused, Watcher

    path = Path(run)
    watcher = Watcher(Folder(path.parent))
    try:
        record = watcher.record(path.name)
    except Refused:
        json.dumps(watcher.state([(path.name, None)], 64, True), allow_nan=False)
        return
    record.refresh()
    record.videos()
    json.dumps(details(record), allow_nan=False)
    json.dumps(watcher.state([(path.name, None)], 64, True), allow_nan=False)


FINISHED, UNFINISHED = "finished", "unfinished"
RUNS = tuple(f"{kind}, {how}" for kind in KIND_NAMES for how in (FINISHED, UNFINISHED))
"""What is damaged in turn: a finished and an unfinished run of each kind."""


def prepare(sandbox: Sandbox, *names: str) -> None:
    """Makes the named runs that copies are taken from, where they are missing, and one to compare with."""
    for name in (RUNS[0], *names):
        kind = next(kind for kind in KINDS if name.startswith(f"{kind.name}, "))
        finished, unfinished = (sandbox.pristine / f"{kind.name}, {how}" for how in (FINISHED, UNFINISHED))
        if not finished.exists():
            _wait(fork(lambda kind=kind, to=finished: kind.train(to, ITERATIONS, CHECKPOINT_EVERY, sandbox.path)))
            sandbox.expect()
        if name == unfinished.name and not unfinished.exists():
            _unfinished(kind, finished, unfinished)
            sandbox.expect()


def _unfinished(kind: Kind, finished: Path, folder: Path) -> None:
    """The same run, killed within its fourth checkpoint."""
    folder.mkdir()
    for name in ("config.yaml", "plan.json"):
        (folder / name).write_bytes((finished / name).read_bytes())
    _wait(fork(lambda: _resume_until_checkpoint(kind, folder, 4)), killed=True)


def _resume_until_checkpoint(kind: Kind, folder: Path, count: int) -> None:
    from batchwright.runs import checkpoints

    whole, made = checkpoints.save, iter(range(1, count))

    def save(*arguments: Any, **named: Any) -> Path:
        if next(made, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(*arguments, **named)

    checkpoints.save = save
    kind.resume(folder)


def _wait(child: int, killed: bool = False) -> None:
    _, status = os.waitpid(child, 0)
    if bool(status) != killed:
        raise SystemExit(f"a run to be damaged could not be made: status {status}")


def run(tally: Tally, sandbox: Sandbox, damages: int, seed: int, only: int | None) -> None:
    """So many damages, each in a fresh copy of a run, each followed by all commands."""
    caller = Caller(sandbox.path, functions(), memory_bytes=probe_machine().ram_bytes // 3)
    try:
        for number in range(damages) if only is None else (only,):
            _attack(tally, sandbox, caller, RUNS[number % len(RUNS)], number, random.Random(f"{seed} {number}"))
    finally:
        caller.close()


def _attack(tally: Tally, sandbox: Sandbox, caller: Caller, name: str, number: int, draw: random.Random) -> None:
    prepare(sandbox, name)
    victim = sandbox.fresh_copy(name)
    done = [inflict(victim, sandbox.outside, draw) for _ in range(draw.choice((1, 1, 1, 1, 2, 3)))]
    what = f"{name}: {', '.join(f'{how} {path}' for how, path in done)}"
    before, problems, shown = rows(victim) & rows(sandbox.pristine / name), [], ""
    plays = any(path.parts[0] in READ_BY_EVAL for _, path in done)
    for command, answer in calls(caller, victim, draw, plays or draw.random() < 0.2):
        tally.calls += 1
        tally.codes[str(answer.code)] += 1
        found = problems_of(answer)
        found += [f"changed outside: {path}" for path in sandbox.changes()[:3]]
        problems += [f"{command}: {text}" for text in found]
        shown = shown or (answer.text[-1500:] if found else "")
    if answer.code != 0:  # rows behind a checkpoint are cut to be made again, which a run that may not write cannot
        before = {row for row in before if json.loads(row)["iteration"] < CHECKPOINT_EVERY}
    after = rows(victim)
    if any(path.name in ("plan.json", "config.yaml") for _, path in done):
        # Other settings may be legal ones, and rows behind the last checkpoint are then made again with other values.
        before, after = ({json.loads(row)["iteration"] for row in found} for found in (before, after))
    if before - after:
        problems.append(f"{len(before - after)} rows of metrics.jsonl are gone")
    tally.count(done[0][0], number, what, problems, shown)


def inflict(victim: Path, outside: Path, draw: random.Random) -> tuple[str, Path]:
    """Damages one file or folder of a run; returns the way and the place."""
    places = [path for path in sorted(victim.rglob("*")) if damage.is_damageable(path)]
    groups: dict[str, list[Path]] = {}
    for path in places:  # each kind of file is as likely as any other, however many there are
        groups.setdefault(path.name if path.parent.name != "shared" else "shared/*", []).append(path)
    path = draw.choice(groups[draw.choice(sorted(groups))])
    how = draw.choice(damage.fitting(path))
    try:
        how(path, draw, outside)
    except (ValueError, IndexError):  # what was damaged before may not be JSON any more
        how = damage.truncate
        how(path, draw, outside)
    return how.__name__, path.relative_to(victim)


def calls(caller: Caller, victim: Path, draw: random.Random, plays: bool = True) -> Iterator[tuple[str, Answer]]:
    """All that reads a run, what writes last; `plays` is whether the policy is loaded, which costs a second."""
    run = str(victim)
    other = str(victim.parents[1] / "pristine" / RUNS[0])
    yield "doctor", caller.command("doctor", run, *draw.choice(([], ["--json"])), seconds=SECONDS)
    yield "compare", caller.command("compare", run, other, seconds=SECONDS)
    yield "watch", caller.function("watch", run, seconds=SECONDS)
    if plays and draw.random() < 0.3:
        yield "load", caller.function("load", run, seconds=SECONDS)
    elif plays:
        yield "eval", caller.command("eval", run, "--episodes", "1", seconds=SECONDS)
    yield "report", caller.command("report", run, seconds=SECONDS)
    resumed = caller.command("resume", run, "--quiet", seconds=SECONDS)
    yield "resume", resumed
    if "--from-start" in resumed.err:  # what it offers where no checkpoint is left
        yield "resume --from-start", caller.command("resume", run, "--quiet", "--from-start", seconds=SECONDS)


def rows(victim: Path) -> set[str]:
    """The readable rows of every metrics file of a run, wherever it lies, time-valued metrics aside."""
    found = set()
    for path in sorted(victim.rglob("*metrics*.jsonl*")) if _is_open(victim) else []:
        if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size < 10**7:
            found |= {row for line in path.read_bytes().splitlines() if (row := _row(line))}
    return found


def _is_open(victim: Path) -> bool:
    return victim.is_dir() and not victim.is_symlink()


def _row(line: bytes) -> str:
    """A row in a fixed form; empty where it is not one of a run."""
    try:
        value = json.loads(line)
        known = isinstance(value, dict) and isinstance(value["iteration"], int) and value["parameters_digest"]
    except (ValueError, KeyError, RecursionError):
        return ""
    if not known:
        return ""
    return json.dumps({name: value[name] for name in sorted(value) if not is_time_valued(name)})
