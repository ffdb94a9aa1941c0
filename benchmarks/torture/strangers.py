"""Malicious run directories: nothing outside them may be touched, and none of their code may run."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import random
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import damages
import numpy as np
from caller import Answer, Caller
from sandbox import EXECUTED, Sandbox
from tally import Tally, problems_of

from batchwright.core.machine import probe_machine

Attack = Callable[[Path, Path], None]
"""(run directory, folder outside it) -> None; the run is made malicious."""
UNFINISHED, FINISHED, REPLAY = "ppo, jax, unfinished", "ppo, jax, finished", "sac + rrd, jax, unfinished"
SECONDS = 60.0


def run(tally: Tally, sandbox: Sandbox, count: int, seed: int, only: int | None) -> None:
    """Every attack on a finished, an unfinished and a replay run, with every command."""
    caller = Caller(sandbox.path, damages.functions(), memory_bytes=probe_machine().ram_bytes // 3)
    cases = [(name, attack, run) for name, attack in attacks() for run in (UNFINISHED, FINISHED, REPLAY)]
    numbers = sorted(random.Random(seed).sample(range(len(cases)), min(count, len(cases))))
    try:
        for number in numbers if only is None else (only,):
            name, attack, run_name = cases[number]
            _try(tally, sandbox, caller, number, f"{name} in {run_name}", (name.split(":")[0], attack, run_name))
    finally:
        caller.close()


def _try(tally: Tally, sandbox: Sandbox, caller: Caller, number: int, what: str, case: tuple[str, Attack, str]) -> None:
    kind, attack, run_name = case
    damages.prepare(sandbox, run_name)
    victim = sandbox.fresh_copy(run_name)
    attack(victim, sandbox.outside)
    problems, shown = [], ""
    for command, answer in _calls(caller, victim, kind):
        tally.calls += 1
        tally.codes[str(answer.code)] += 1
        found = problems_of(answer)
        for path in sandbox.changes()[:3]:
            found.append("a stranger's code ran" if path.endswith(EXECUTED) else f"changed outside: {path}")
        problems += [f"{command}: {text}" for text in found]
        shown = shown or (answer.text[-1500:] if found else "")
    tally.count(kind, number, what, problems, shown)


def _calls(caller: Caller, victim: Path, kind: str) -> Iterator[tuple[str, Answer]]:
    yield from damages.calls(caller, victim, random.Random(0))
    if kind == "code":
        yield "load", caller.function("load", str(victim), seconds=SECONDS)
        yield "prove", caller.command("prove", str(victim), seconds=SECONDS)


def attacks() -> Iterator[tuple[str, Attack]]:
    """Name and attack; the word before the colon is its kind."""
    for place, target in LINKS:
        yield f"link: {place} -> {target}", _linked(place, target)
    for place in PLACES:
        yield f"fifo: {place}", _replaced(place, os.mkfifo)
        yield f"socket: {place}", _replaced(place, _socket)
        yield f"device: {place} -> /dev/zero", _linked(place, "/dev/zero")
    for name in CODE:
        yield f"code: env {name}", _with_env(name)
    for name, content in BOMBS.items():
        for place in ("config.yaml", "plan.json", "metrics.jsonl", "events.jsonl", "checkpoints/*/manifest.json"):
            yield f"bomb: {name} in {place}", _bomb(place, content)
    for name, change in MANIFESTS.items():
        yield f"manifest: {name}", _with_manifest(change)
    for name, state in STATES.items():
        yield f"state: {name}", _with_state(state)
    yield "markup: names and values", _markup


LINKS = (
    (".lock", "precious.txt"), ("events.jsonl", "bashrc"), ("metrics.jsonl", "metrics.jsonl"), ("plan.json", "bashrc"),
    ("config.yaml", "precious.txt"), ("report.html", "precious.txt"), ("checkpoints", "photos"), ("dumps", "docs"),
    ("checkpoints/shared", "docs"), ("checkpoints/000000099", "photos/2019"), ("episode.gif", "precious.txt"),
    ("checkpoints/.000000008.partial", "docs"), ("checkpoints/000000008", "photos"), ("error.txt", "precious.txt"),
    ("traceback.txt", "precious.txt"), ("checkpoints/000000006/state.npz", "state.npz"), ("metrics.csv", "bashrc"),
)  # fmt: skip
PLACES = ("config.yaml", "plan.json", "metrics.jsonl", "events.jsonl", ".lock", "report.html", "checkpoints")
PLACES += ("checkpoints/shared", "checkpoints/000000006/state.npz", "checkpoints/000000006/manifest.json")
CODE = ("evil.py:make", "./evil.py:make", "{run}/evil.py:make", "evil:make", "this:d", "os:system", "antigravity:x",
        "../outside/evil.py:make", "evil.py", "gymnasium.envs:evil", "__main__:x", "evil/CartPole-v1")  # fmt: skip
BOMBS = {
    "merge aliases": b"m0: &m0 {a: 1, b: 2}\n"
    + b"".join(f"m{k}: &m{k} {{<<: [{', '.join([f'*m{k - 1}'] * 9)}]}}\n".encode() for k in range(1, 9)),
    "list aliases": b"a0: &a0 [x, x]\n"
    + b"".join(f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n".encode() for k in range(1, 12)),
    "100,000 brackets": b"[" * 100_000,
    "100,000 braces": b'{"a":' * 100_000,
    "one long number": b'{"iteration": ' + b"9" * 100_000 + b"}",
    "one long line": b'{"iteration": 1, "x": "' + b"y" * 20_000_000 + b'"}\n',
    "python tags": b'!!python/object/apply:os.system ["touch ../outside/EXECUTED"]\n',
}


def _linked(place: str, target: str) -> Attack:
    def attack(run: Path, outside: Path) -> None:
        _remove(run / place)
        (run / place).symlink_to(target if target.startswith("/dev") else outside / target)

    return attack


def _replaced(place: str, make: Callable[[Path], Any]) -> Attack:
    def attack(run: Path, outside: Path) -> None:
        _remove(run / place)
        make(run / place)

    return attack


def _remove(path: Path) -> None:
    from sandbox import erase

    erase(path)
    path.parent.mkdir(parents=True, exist_ok=True)


def _socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the name of a socket may have 108 characters
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(before)


def _with_env(name: str) -> Attack:
    def attack(run: Path, outside: Path) -> None:
        code = f"open({str(outside / EXECUTED)!r}, 'w').write('x')\nimport gymnasium\n"
        code += "def make(**options): return gymnasium.make('CartPole-v1')\n"
        (run / "evil.py").write_text(code)
        env = name.replace("{run}", str(run))
        found = (run / "config.yaml").read_text().replace("CartPole-v1", env).replace("IdentityContinuous-v0", env)
        (run / "config.yaml").write_text(found)
        plan = (run / "plan.json").read_text().replace('"jax"', '"gymnasium-sync"')
        (run / "plan.json").write_text(plan)

    return attack


def _bomb(place: str, content: bytes) -> Attack:
    def attack(run: Path, outside: Path) -> None:
        for path in run.glob(place):
            lines = path.suffix in (".jsonl", ".yaml")
            path.write_bytes((path.read_bytes() if lines else b"") + content)

    return attack


def _with_manifest(change: dict[str, Any]) -> Attack:
    """Every manifest with other values; None takes a name away."""

    def attack(run: Path, outside: Path) -> None:
        for path in run.glob("checkpoints/*/manifest.json"):
            found = json.loads(path.read_text()) | change
            path.write_text(json.dumps({name: value for name, value in found.items() if value is not None}))

    return attack


_UP = "../../../../outside/precious.txt"
_SHA = hashlib.sha256(b"years of work\n").hexdigest()
MANIFESTS: dict[str, dict[str, Any]] = {
    "files outside": {"sha256": {_UP: _SHA}},
    "shared files outside": {"shared": {_UP: _SHA}},
    "shared absolute": {"shared": {"/etc/passwd": "0" * 64, "/dev/zero": "0" * 64}},
    "no versions": {"versions": None},
    "versions a list": {"versions": ["x"]},
    "no iteration": {"iteration": None},
    "iteration text": {"iteration": "x"},
    "iteration -5": {"iteration": -5},
    "format 99": {"format": 99},
    "format text": {"format": "x"},
    "no hashes": {"sha256": {}},
    "hashes a list": {"sha256": ["state.npz"]},
    "hash a number": {"sha256": {"state.npz": 5}},
    "long name": {"shared": {"x" * 5000: "0" * 64}},
    "NUL in a name": {"shared": {"a\0b": "0" * 64}},
}


class Evil:
    """Runs a command when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


def _header(shape: str, dtype: str = "<f4") -> Callable[[Path], bytes]:
    """An array that declares a shape and has no content."""

    def make(outside: Path) -> bytes:
        text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
        return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text

    return make


def _saved(value: Any) -> Callable[[Path], bytes]:
    def make(outside: Path) -> bytes:
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=True)
        return buffer.getvalue()

    return make


def _pickled(outside: Path) -> bytes:
    found = np.empty(1, object)
    found[0] = Evil(outside / EXECUTED)
    buffer = io.BytesIO()
    np.save(buffer, found, allow_pickle=True)
    return buffer.getvalue()


STATES: dict[str, Callable[[Path], bytes]] = {
    "pickled array": _pickled,
    "pickle in place of an array": lambda outside: pickle.dumps(Evil(outside / EXECUTED)),
    "shape of 1e12": _header("(1000000000000,)"),
    "shape of 1e30": _header("(10**30,)".replace("10**30", "1" + "0" * 30)),
    "negative shape": _header("(-5,)"),
    "shape is code": _header("(__import__('os').getpid(),)"),
    "object dtype": _header("(3,)", "|O"),
    "array of strings": _saved(np.array(["x", "y"])),
    "array of another length": _saved(np.zeros(7, np.float32)),
    "array of NaN": _saved(np.full(3, np.nan)),
    "scalar": _saved(np.float32(1)),
    "empty": _saved(np.zeros((0, 4))),
    "200 MB of zeros, compressed": _saved(np.zeros(50_000_000, np.float32)),
}


def _with_state(make: Callable[[Path], bytes]) -> Attack:
    """Every array of every checkpoint replaced, with hashes that are right."""

    def attack(run: Path, outside: Path) -> None:
        content = make(outside)
        for folder in sorted(run.glob("checkpoints/[0-9]*")):
            state, manifest = folder / "state.npz", folder / "manifest.json"
            with zipfile.ZipFile(state) as stored:
                names = stored.namelist()[: 1 if len(content) > 10**6 else None]
            with zipfile.ZipFile(state, "w", zipfile.ZIP_DEFLATED) as stored:
                for name in names:
                    stored.writestr(name, content)
            found = json.loads(manifest.read_text())
            found["sha256"]["state.npz"] = hashlib.sha256(state.read_bytes()).hexdigest()
            manifest.write_text(json.dumps(found))

    return attack


def _markup(run: Path, outside: Path) -> None:
    text = "</script><img src=x onerror=alert(1)>"
    row = {"iteration": 99, "env_steps": 1, text: 1.0, "x": text}
    event = {"kind": "advice", "iteration": 1, "message": text, "evidence": text, "flags": [text], text: text}
    for name, value in (("metrics.jsonl", row), ("events.jsonl", event)):
        with (run / name).open("a") as file:
            file.write(json.dumps(value) + "\n")
