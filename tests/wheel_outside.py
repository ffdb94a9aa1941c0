"""Builds the wheel, installs it with the extra envpool into a fresh environment, and does a user's first jobs there.

`make wheel-test` runs it. It works in a temporary folder outside the repository and imports nothing of it.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

ROOT = Path(__file__).parents[1]
OWN_ENV = """
import gymnasium as gym

def make_env():
    return gym.make("CartPole-v1", max_episode_steps=50)
"""
JOBS = [
    "--version",
    "plan CartPole-v1 --json",
    "presets",
    "train CartPole-v1 --total-steps 5000 --run-dir first --quiet",
    "train CartPole-v1 --engine envpool --total-steps 2000 --run-dir pool --quiet",
    "train own.py:make_env --total-steps 2000 --run-dir own --quiet",
    "train CartPole-v1 --init-from first@best --total-steps 2000 --run-dir tuned --quiet",
    "resume first --total-steps 8000 --quiet",
    "eval first --checkpoint best --episodes 3 --json",
    "export first --to numpy",
    "doctor first",
    "report first pool -o both.html",
    "compare first pool",
    "completion bash",
]
REFUSED = {"export first --to onnx": "batchwright[onnx]", "train CartPole-v1 --writers wandb": "batchwright[wandb]"}
"""What needs another extra, and what the message must name."""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="batchwright-wheel-") as place:
        work = Path(place)
        wheel = _build(work)
        python = _install(work, wheel)
        (work / "own.py").write_text(OWN_ENV, encoding="utf-8")
        where = _run(work, [python, "-c", "import batchwright; print(batchwright.__file__)"]).strip()
        assert Path(where).is_relative_to(work), f"{where} is not the installed package"
        command = str(Path(python).with_name("batchwright"))
        for line in JOBS:
            start = time.monotonic()
            _run(work, [command, *shlex.split(line)])
            print(f"{time.monotonic() - start:6.1f} s  batchwright {line}", flush=True)
        for line, word in REFUSED.items():
            done = subprocess.run(
                [command, *shlex.split(line)], cwd=work, env=_env(), capture_output=True, text=True, check=False
            )
            assert done.returncode == 2 and word in done.stderr, (line, done.stderr)
        _robot(work, python)
        _page(work, command)
    print("the wheel works outside the repository")
    return 0


def _env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def _run(work: Path, words: list[str]) -> str:
    done = subprocess.run(words, cwd=work, env=_env(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"{shlex.join(words)} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


def _build(work: Path) -> Path:
    _run(work, [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(work / "dist"), str(ROOT)])
    (wheel,) = (work / "dist").glob("*.whl")
    return wheel


def _install(work: Path, wheel: Path) -> str:
    _run(work, [sys.executable, "-m", "venv", str(work / "venv")])
    python = str(work / "venv" / "bin" / "python")
    pinned = ["-c", str(ROOT / "constraints.txt")]
    _run(work, [python, "-m", "pip", "install", "--quiet", *pinned, f"{wheel}[envpool]"])
    return python


def _robot(work: Path, python: str) -> None:
    """The exported policy, called by its own loader with NumPy alone."""
    files = sorted(path.name for path in (work / "first").iterdir() if path.suffix in (".npz", ".py"))
    loader = next(name for name in files if name.endswith(".py"))
    code = f"""
import sys; sys.path.insert(0, "first")
import numpy as np
from {loader.removesuffix(".py")} import Policy
print(Policy("first/policy.npz")(np.zeros(4, np.float32)))
assert "jax" not in sys.modules and "batchwright" not in sys.modules
"""
    _run(work, [python, "-c", code])


def _page(work: Path, command: str) -> None:
    """The live page with its scripts, which are files of the wheel."""
    server = subprocess.Popen(
        [command, "watch", ".", "--port", "0"], cwd=work, env=_env(), stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    link = server.stdout.readline().split()[-1]
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    base = link.split("?")[0]
    page = opener.open(link).read().decode()
    for script in (part.split('"')[0] for part in page.split('src="/')[1:]):
        assert opener.open(base + script).read()
    runs = json.loads(opener.open(f"{base}api/state").read())["runs"]
    assert {run["name"] for run in runs} >= {"first", "pool"}, runs
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0


if __name__ == "__main__":
    raise SystemExit(main())
