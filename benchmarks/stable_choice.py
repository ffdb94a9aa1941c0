"""Whether the load of the moment changes what a training plans: plans beside nothing and beside programs on all cores.

Every plan is made by a process of its own with an empty cache of choices. `--preset none` leaves the number of
environments free. Rows on file are not measured again, so a call that was stopped goes on; the file states the load
average beside every plan.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from batchwright.core.machine import usable_cores

SETTINGS = {
    "CartPole-v1": ["CartPole-v1"],
    "LunarLander-v3": ["LunarLander-v3"],
    "HalfCheetah-v5": ["HalfCheetah-v5"],
    "LunarLander-v3, Gymnasium": ["LunarLander-v3", "--engine", "gymnasium"],
    "HalfCheetah-v5, Gymnasium": ["HalfCheetah-v5", "--engine", "gymnasium"],
    "an environment of one's own": [f"{Path(__file__).parents[1] / 'examples/own_environment.py'}:make_env"],
}
CHOSEN = ("engine", "num_envs", "rollout_steps", "rollout_transitions", "minibatch_transitions")
MAKE_PLAN = """
import json, sys
from batchwright.api import keep_programs, plan_to_train
from batchwright.commands.parser import Parser, add_settings
from batchwright.runs import engine_choice
engine_choice.started_by_command = lambda: True  # as `batchwright train`, which may split environments
keep_programs()
parser = Parser(prog="plan", allow_abbrev=False)
add_settings(parser, leave_out=("dataset", "hardware"))
stated = parser.read(sys.argv[1:])
env, preset, config = (stated.pop(name) for name in ("env", "preset", "config"))
made = plan_to_train(env, preset, config, None, **stated)[1]
print(json.dumps({name: [q.value, q.source, q.reason] for name, q in made.quantities.items()}))
"""


@contextlib.contextmanager
def busy_cores(programs: int) -> Iterator[None]:
    """So many programs that never rest."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for program in running:
            program.terminate()
            program.wait()


def make_plan(words: list[str], programs_cache: str) -> tuple[dict[str, Any], float]:
    """The chosen values of one plan, measured anew, and the seconds it took."""
    with tempfile.TemporaryDirectory() as empty:
        own = {**os.environ, "XDG_CACHE_HOME": empty, "JAX_COMPILATION_CACHE_DIR": programs_cache}
        command = [sys.executable, "-W", "ignore", "-c", MAKE_PLAN, *words, "--preset", "none"]
        start = time.perf_counter()
        done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    chosen = {name: found[name][0] for name in CHOSEN}
    return {"chosen": chosen, "reason": found["engine"][2]}, time.perf_counter() - start


def measure(name: str, plans: int, busy: int, programs: str) -> dict[str, Any]:
    """So many plans of one setting beside so many busy programs."""
    with busy_cores(busy):
        taken = [(*make_plan(SETTINGS[name], programs), os.getloadavg()[0]) for _ in range(plans)]
    return {
        "setting": name,
        "busy_programs": busy,
        "plans": Counter(json.dumps(found["chosen"]) for found, _, _ in taken),
        "median_seconds": round(statistics.median(seconds for _, seconds, _ in taken), 2),
        "load_average": [round(load, 1) for _, _, load in taken],
        "reasons": [found["reason"] for found, _, _ in taken],
    }


def main() -> None:
    cores = usable_cores()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, default=10, help="plans of each setting with each load (10)")
    parser.add_argument("--busy", type=int, nargs="+", default=[0, cores], help="programs that never rest beside it")
    parser.add_argument("--only", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--json", type=Path, help="file to write the results to")
    stated = parser.parse_args()
    on_file = json.loads(stated.json.read_text())["rows"] if stated.json and stated.json.exists() else []
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as programs:
        for name, busy in ((name, busy) for name in stated.only for busy in stated.busy):
            if not any((row["setting"], row["busy_programs"]) == (name, busy) for row in on_file):
                on_file.append(measure(name, stated.plans, busy, programs))
                print(f"{name}, {busy} busy programs: {dict(on_file[-1]['plans'])}", flush=True)
            result = _result(on_file, cores)
            if stated.json:
                stated.json.write_text(json.dumps(result, indent=1) + "\n")
    same = result["same_plan_in_all"]
    print(json.dumps(same, indent=1))
    sys.exit(0 if all(same.values()) else 1)


def _result(rows: list[dict[str, Any]], cores: int) -> dict[str, Any]:
    plans: dict[str, set[str]] = {}
    for row in rows:
        plans.setdefault(row["setting"], set()).update(row["plans"])
    return {
        "date": date.today().isoformat(),
        "machine": f"{cores} cores, {platform.machine()}, Python {platform.python_version()}",
        "same_plan_in_all": {name: len(found) == 1 for name, found in plans.items()},
        "rows": rows,
    }


if __name__ == "__main__":
    main()
