"""PPO training speed, Batchwright beside its peers: one command, interleaved, repeated, at identical settings.

    .venv-peers/bin/python benchmarks/speed.py

Every contender runs in a process of its own (`benchmarks/peers/<name>.py`), which leaves imports, compilation and the
first iteration out. One round runs every contender once; rounds alternate their direction, so that a slow drift of the
machine falls on all alike. Writes benchmarks/results/speed.json after every setting. `benchmarks/README.md` tells how
the peers' environment is made.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from peers import machine

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Setting:
    key: str
    env: str
    num_envs: int
    rollout_steps: int
    minibatch: int
    epochs: int

    @property
    def title(self) -> str:
        return f"{self.env}, {self.num_envs} x {self.rollout_steps}, minibatch {self.minibatch}, {self.epochs} epochs"

    def arguments(self) -> list[str]:
        return [
            *("--env", self.env, "--num-envs", str(self.num_envs), "--rollout-steps", str(self.rollout_steps)),
            *("--minibatch", str(self.minibatch), "--epochs", str(self.epochs)),
        ]


@dataclass(frozen=True)
class Contender:
    script: str
    feed: str
    """`usual` or `envpool` for a peer, the engine for Batchwright."""
    envs: tuple[str, ...] | None = None
    """The environments it can run; all when None."""

    @property
    def name(self) -> str:
        return f"{self.script} {self.feed}"

    @property
    def ours(self) -> bool:
        return self.script == "batchwright"


@dataclass(frozen=True)
class Floor:
    """Issue 3, "Fast": the contender's median must be at least `ratio` times the peer's."""

    setting: str
    contender: str
    peer: str
    ratio: float


@dataclass
class Tally:
    """All runs of one contender at one setting."""

    speeds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        return statistics.median(self.speeds) if self.speeds else None


SETTINGS = (
    Setting("cartpole-8x256", "CartPole-v1", 8, 256, 64, 10),
    Setting("cartpole-8x32", "CartPole-v1", 8, 32, 256, 20),
    Setting("halfcheetah-8x256", "HalfCheetah-v5", 8, 256, 64, 10),
    Setting("lunarlander-16x1024", "LunarLander-v3", 16, 1024, 64, 4),
)

CONTENDERS = (
    Contender("batchwright", "envpool"),
    Contender("batchwright", "gymnasium"),
    Contender("batchwright", "jax", envs=("CartPole-v1",)),
    Contender("sb3", "usual"),
    Contender("sb3", "envpool"),
    Contender("sbx", "usual"),
    Contender("sbx", "envpool"),
    Contender("rl_games", "usual"),
    Contender("rl_games", "envpool"),
    Contender("tianshou", "usual"),
    Contender("tianshou", "envpool"),
    Contender("torchrl", "usual"),
)

# The Gymnasium engine is held to its floor at all of them.
FLOORS = (
    Floor("cartpole-8x256", "batchwright envpool", "sb3 usual", 12),
    Floor("cartpole-8x256", "batchwright envpool", "sbx usual", 8),
    Floor("halfcheetah-8x256", "batchwright envpool", "sb3 usual", 6),
    Floor("halfcheetah-8x256", "batchwright envpool", "sbx usual", 4.5),
    Floor("lunarlander-16x1024", "batchwright envpool", "sb3 usual", 8),
    Floor("lunarlander-16x1024", "batchwright envpool", "sbx envpool", 3.5),
    *(Floor(setting.key, "batchwright gymnasium", "sb3 usual", 4) for setting in SETTINGS),
)

COMPARED_WITH = ("sb3 usual", "sb3 envpool", "sbx usual", "sbx envpool")

Tallies = dict[str, Tally]


def command(contender: Contender, setting: Setting, options: argparse.Namespace) -> list[str]:
    python = options.python_ours if contender.ours else options.python_peers
    script = str(HERE / "peers" / f"{contender.script}.py")
    feed = ["--engine" if contender.ours else "--feed", contender.feed]
    threads = [] if contender.ours else ["--threads", str(options.peer_threads)]
    return [python, script, *setting.arguments(), "--seconds", str(options.seconds), *feed, *threads]


def last_line(text: str | bytes | None) -> str:
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def run_once(argv: list[str], timeout_seconds: float, tally: Tally) -> str:
    """Add one run to the tally; returns a word on it for the progress line."""
    # MuJoCo and rl_games leave log files where they run: give them a directory that goes away.
    with tempfile.TemporaryDirectory() as directory:
        try:
            done = subprocess.run(
                argv, capture_output=True, text=True, timeout=timeout_seconds, cwd=directory, check=False
            )
        except subprocess.TimeoutExpired as expired:
            reason = f"no result within {timeout_seconds:g} s; last stderr line: {last_line(expired.stderr)}"
        except OSError as error:
            reason = str(error)
        else:
            reason = read_result(done, tally)
    if reason:
        tally.failures.append(reason)
        return f"failed: {reason}"
    return f"{tally.speeds[-1]:,.0f} steps/s"


def read_result(done: subprocess.CompletedProcess[str], tally: Tally) -> str:
    """Take the JSON line of a finished process; the reason when there is none."""
    if done.returncode != 0:
        return f"exit code {done.returncode}: {last_line(done.stderr)}"
    try:
        result = json.loads(last_line(done.stdout))
        tally.speeds.append(float(result["steps_per_second"]))
        tally.versions = result["versions"]
    except (ValueError, KeyError, TypeError):
        return f"no JSON result on stdout; last stderr line: {last_line(done.stderr)}"
    return ""


def measure(setting: Setting, contenders: list[Contender], options: argparse.Namespace) -> Tallies:
    tallies = {contender.name: Tally() for contender in contenders}
    for repeat in range(options.repeats):
        for contender in contenders if repeat % 2 == 0 else reversed(contenders):
            argv = command(contender, setting, options)
            word = run_once(argv, options.timeout, tallies[contender.name])
            print(f"  {setting.key} {repeat + 1}/{options.repeats} {contender.name}: {word}", file=sys.stderr)
    return tallies


def ratio(tallies: Tallies, contender: str, peer: str) -> float | None:
    """Ratio of medians."""
    ours, theirs = tallies.get(contender, Tally()).median, tallies.get(peer, Tally()).median
    return ours / theirs if ours and theirs else None


def as_times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} x"


def print_table(setting: Setting, tallies: Tallies) -> None:
    print(f"\n{setting.title}\n")
    print("| | steps/s, median | min - max | " + " | ".join(f"to {peer}" for peer in COMPARED_WITH) + " |")
    print("|---" * (3 + len(COMPARED_WITH)) + "|")
    for name, tally in tallies.items():
        cells = ["failed", "-"]
        if tally.median is not None:
            cells = [f"{tally.median:,.0f}", f"{min(tally.speeds):,.0f} - {max(tally.speeds):,.0f}"]
        cells += [as_times(ratio(tallies, name, peer)) for peer in COMPARED_WITH]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name, tally in tallies.items():
        if tally.failures:
            runs = len(tally.failures) + len(tally.speeds)
            print(f"\n{name}: {len(tally.failures)} of {runs} runs failed; the last: {tally.failures[-1]}")


def judge(floor: Floor, tallies: Tallies) -> dict[str, Any]:
    reached = ratio(tallies, floor.contender, floor.peer)
    verdict = "not measured" if reached is None else "pass" if reached >= floor.ratio else "FAIL"
    return {**asdict(floor), "reached": None if reached is None else round(reached, 2), "verdict": verdict}


def print_floors(verdicts: list[dict[str, Any]]) -> None:
    print("\nFloors\n\n| setting | contender | peer | floor | reached | |\n|---|---|---|---|---|---|")
    for row in verdicts:
        cells = (row["setting"], row["contender"], row["peer"], as_times(row["ratio"]), as_times(row["reached"]))
        print("| " + " | ".join(cells) + f" | {row['verdict']} |")


def setting_record(setting: Setting, tallies: Tallies) -> dict[str, Any]:
    contenders = {
        name: {
            "median": tally.median,
            "speeds": tally.speeds,
            "failures": tally.failures,
            "versions": tally.versions,
            "ratios": {peer: ratio(tallies, name, peer) for peer in COMPARED_WITH},
        }
        for name, tally in tallies.items()
    }
    return {**asdict(setting), "contenders": contenders}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-ours", default=str(HERE.parent / ".venv" / "bin" / "python"))
    parser.add_argument("--python-peers", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="least time measured per run")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds until a run counts as failed")
    parser.add_argument("--peer-threads", type=int, default=1, help="torch threads of the peers")
    parser.add_argument("--settings", nargs="+", choices=[s.key for s in SETTINGS], metavar="KEY")
    parser.add_argument("--contenders", nargs="+", choices=[c.name for c in CONTENDERS], metavar="NAME")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "speed.json")
    return parser.parse_args()


def chosen(setting: Setting, options: argparse.Namespace) -> list[Contender]:
    able = [c for c in CONTENDERS if c.envs is None or setting.env in c.envs]
    return [c for c in able if not options.contenders or c.name in options.contenders]


def write_report(report: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")


def main() -> int:
    options = parse_options()
    if warning := machine.busy_warning():
        print(f"warning: {warning}", file=sys.stderr)
    report: dict[str, Any] = {
        "measured": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": machine.describe(),
        "python": {
            "ours": machine.interpreter_version(options.python_ours),
            "peers": machine.interpreter_version(options.python_peers),
        },
        "options": {name: getattr(options, name) for name in ("repeats", "seconds", "timeout", "peer_threads")},
        "settings": [],
        "floors": [],
    }
    failed = False
    for setting in SETTINGS:
        if options.settings and setting.key not in options.settings:
            continue
        tallies = measure(setting, chosen(setting, options), options)
        print_table(setting, tallies)
        report["settings"].append(setting_record(setting, tallies))
        report["floors"] += [judge(floor, tallies) for floor in FLOORS if floor.setting == setting.key]
        write_report(report, options.output)
        failed = failed or any(tally.failures for tally in tallies.values())
    print_floors(report["floors"])
    print(f"\nwritten: {options.output}")
    return 1 if failed or any(row["verdict"] == "FAIL" for row in report["floors"]) else 0


if __name__ == "__main__":
    sys.exit(main())
