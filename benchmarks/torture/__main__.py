"""Attacks Batchwright and counts what survives: kills, damaged and malicious runs, fuzzed commands, nasty environments.

python benchmarks/torture [PART ...] [--kills 500] [--damages 2000] [--calls 10000] [--environments 200] [--json FILE]

PART is any of kills, damages, strangers, calls, environments; all where none is named. All attacks happen in a folder
of their own below --scratch. Every attack is drawn from --seed and its number: `--only damages:123` repeats one.
Exit code 1 where anything fell.

A long campaign goes in rounds: `--kills 20 --seed 1 2 3 4` makes 80 kills. The file of --json keeps a round for each
part and seed, written when it ends; the same command after a stop leaves out the rounds that are on file.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parents[1] / "tests"
sys.path[:0] = [str(HERE), str(TESTS), str(TESTS / "cli"), str(TESTS / "store" / "recorded")]
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"  # thousands of starts share a few small programs

from batchwright.api import set_up_jax

set_up_jax()  # before JAX is imported

import calls
import damages
import kills
import nasty
import strangers
from rounds import add_round, is_on_file
from sandbox import Sandbox
from tally import MOST_SHOWN, Tally

PARTS = {
    "kills": (kills.run, 40, "killed runs"),
    "damages": (damages.run, 100, "damages"),
    "strangers": (strangers.run, 1000, "malicious run directories"),
    "calls": (calls.run, 2000, "fuzzed calls"),
    "environments": (nasty.run, 40, "nasty environments"),
}
"""Name -> (function, how many where nothing is stated, what one is)."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all where none is named")
    for name, (_, count, what) in PARTS.items():
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N", help=f"{what} ({count}); 0 leaves out")
    parser.add_argument("--seed", type=int, nargs="+", default=[0], help="a round of attacks with each seed (0)")
    parser.add_argument("--only", metavar="PART:N", help="repeat one attack and show what it printed")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="folder to attack in (the system's temporary one)")
    parser.add_argument("--keep", action="store_true", help="leave the folder of the attacks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add the rounds; those on file are not repeated")
    stated = parser.parse_args()
    part, _, number = (stated.only or "").partition(":")
    only = int(number) if number else None
    chosen = [part] if part else stated.parts or list(PARTS)
    unknown = set(chosen) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]}; parts are {', '.join(PARTS)}")
    sandbox = Sandbox(stated.scratch)
    os.environ["TMPDIR"] = tempfile.tempdir = str(sandbox.path)
    os.environ["XDG_STATE_HOME"] = str(sandbox.path / "state")  # what commands remember is not the user's
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that the folder is removed
    print(f"attacks happen in {sandbox.path}", flush=True)
    fell = False
    try:
        for seed in stated.seed:
            for name in chosen:
                count = getattr(stated, name)
                if count and not (stated.json and is_on_file(stated.json, name, seed)):
                    tally = _run(name, sandbox, count, seed, only)
                    _show(tally, seed, whole=only is not None)
                    fell = fell or bool(tally.failures)
                    if stated.json and only is None:
                        measured = datetime.now(UTC).isoformat(timespec="seconds")
                        add_round(stated.json, tally.to_dict() | {"seed": seed, "measured": measured}, list(PARTS))
    finally:
        if not stated.keep:
            sandbox.remove()
    return int(fell)


def _run(name: str, sandbox: Sandbox, count: int, seed: int, only: int | None) -> Tally:
    attack, _, unit = PARTS[name]
    tally, start = Tally(name, unit), time.monotonic()
    sandbox.lay_out()
    attack(tally, sandbox, count, seed, only)
    tally.seconds = time.monotonic() - start
    return tally


def _show(tally: Tally, seed: int, whole: bool) -> None:
    print(f"\n{tally.part}: {tally.tried:,} {tally.unit} tried, {tally.survived:,} survived; {tally.calls:,} calls")
    print("  " + ", ".join(f"{name}: {count:,}" for name, count in sorted(tally.codes.items())))
    for failure in tally.failures[:MOST_SHOWN]:
        print(f"  FELL {failure.what}\n    {failure.why}")
        if whole:
            print(failure.shown)
        print(f"    repeat: python benchmarks/torture --seed {seed} --only {failure.part}:{failure.number}")
    if len(tally.failures) > MOST_SHOWN:
        print(f"  and {len(tally.failures) - MOST_SHOWN} more")


if __name__ == "__main__":
    sys.exit(main())
