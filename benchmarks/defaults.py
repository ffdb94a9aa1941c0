"""`train ENV` without flags beside PPO of Stable-Baselines3 with its defaults, on environments without a preset.

python benchmarks/defaults.py --peers-python PATH [--half choose|judge|fresh|sac] [--only ENV ...] [--seeds 0 1 2]
    [--ours "" "--minibatch-transitions 64" ...] [--minutes 20] [--json benchmarks/results/defaults.json]

Defaults are chosen on the part `choose` and judged on `judge` and `fresh`; `sac` is `train ENV --algo sac` beside SAC
of SBX with its defaults. Every finished run is kept in the JSON file at once; runs that are there are not made again.
`--ours` names flags: each is a contender of its own. Hybrid actions are one vector for the peers, which have none.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "defaults.json"
EVAL_EPISODES = 20
PARTS = ("choose", "judge", "fresh", "sac")
PEERS = {"sac": "sbx"}
"""The peer of a part, where it is not `sb3`."""
RANDOM = "random"


class Task(NamedTuple):
    """An environment and how long it is trained."""

    half: str
    """`choose`, `judge`, or `fresh`: further judging tasks, added before any of them was trained; `sac`."""
    steps: int = 40_960
    kind: str = "gymnasium"
    """`envpool` where Gymnasium does not have it, `own` where it is ours."""
    flags: str = ""
    """What ours is told beside the contender's flags."""
    name: str = ""
    """The environment, where the task has another name."""

    def env(self, key: str) -> str:
        return self.name or key


TASKS = {
    "MountainCar-v0": Task("judge", steps=102_400),
    "MountainCarContinuous-v0": Task("choose"),
    "BipedalWalker-v3": Task("judge"),
    "Walker2d-v5": Task("judge"),
    "Ant-v5": Task("choose"),
    "Swimmer-v5": Task("choose"),
    "Reacher-v5": Task("judge"),
    "Pusher-v5": Task("choose"),
    "InvertedPendulum-v5": Task("choose"),
    "InvertedDoublePendulum-v5": Task("judge"),
    "Humanoid-v5": Task("judge"),
    "HumanoidStandup-v5": Task("choose"),
    "FrozenLake-v1": Task("judge"),
    "Taxi-v4": Task("choose"),
    "MiniGrid-Dynamic-Obstacles-5x5-v0": Task("judge", kind="envpool"),
    "HopperHop-v1": Task("choose", kind="envpool"),
    "CheetahRun-v1": Task("judge", kind="envpool"),
    "CartpoleSwingup-v1": Task("choose", kind="envpool"),
    "ReacherEasy-v1": Task("judge", kind="envpool"),
    "FingerSpin-v1": Task("choose", kind="envpool"),
    "WalkerWalk-v1": Task("choose", kind="envpool"),
    "BallInCupCatch-v1": Task("judge", kind="envpool"),
    "CartpoleBalance-v1": Task("judge", kind="envpool"),
    "PointMassEasy-v1": Task("choose", kind="envpool"),
    "MetaWorld/Reach-v3": Task("judge", kind="envpool"),
    "MetaWorld/DrawerClose-v3": Task("choose", kind="envpool"),
    "MiniGrid-Empty-5x5-v0": Task("judge", kind="envpool"),
    "MiniGrid-LavaGapS5-v0": Task("choose", kind="envpool"),
    "MiniGrid-DoorKey-5x5-v0": Task("fresh", kind="envpool"),
    "MiniGrid-Empty-Random-6x6-v0": Task("fresh", kind="envpool"),
    "MiniGrid-DistShift1-v0": Task("fresh", kind="envpool"),
    "Catch-v0": Task("fresh", kind="envpool"),
    "FingerTurnEasy-v1": Task("fresh", kind="envpool"),
    "WalkerStand-v1": Task("fresh", kind="envpool"),
    "CartpoleBalanceSparse-v1": Task("fresh", steps=163_840, kind="envpool"),
    "HopperStand-v1": Task("fresh", steps=163_840, kind="envpool"),
    "ReacherHard-v1": Task("fresh", kind="envpool"),
    "PendulumSwingup-v1": Task("fresh", steps=163_840, kind="envpool"),
    "Platform-v0": Task("fresh", steps=61_440, kind="own", flags="--preset none"),
    "Sliding-v0": Task("fresh", steps=204_800, kind="own", flags="--preset none"),
    "Moving-v0": Task("fresh", steps=204_800, kind="own", flags="--preset none"),
    "Colony-v0": Task("fresh", steps=61_440, kind="own", flags="--preset none"),
    "CartPole-v1": Task("choose", flags="--preset none"),
    "Acrobot-v1": Task("choose", steps=81_920, flags="--preset none"),
    "LunarLander-v3": Task("choose", steps=81_920, flags="--preset none"),
} | {
    f"{env}, SAC": Task("sac", steps=10_240, kind=kind, flags="--algo sac --preset none", name=env)
    for env, kind in {
        "Pendulum-v1": "gymnasium",
        "Reacher-v5": "gymnasium",
        "InvertedDoublePendulum-v5": "gymnasium",
        "Hopper-v5": "gymnasium",
        "CheetahRun-v1": "envpool",
        "BallInCupCatch-v1": "envpool",
    }.items()
}


def ours(task: Task, env: str, seed: int, flags: str) -> dict[str, Any]:
    """One run of ours in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        line = f"train {env} --total-steps {task.steps} --seed {seed} --eval-every 0 --eval-episodes {EVAL_EPISODES}"
        line += f" {flags} {task.flags}"
        words = [sys.executable, "-m", "batchwright.cli", *line.split(), "--run-dir", str(run), "--json", "--quiet"]
        began = time.monotonic()
        found = _call(words)
        wall = time.monotonic() - began
        records = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    seconds: float = 0.0
    curve: list[list[float]] = []
    for record in records:
        seconds += record["collect_seconds"] + record["update_seconds"]
        if record.get("episode_return") is not None:
            curve.append([record["env_steps"], round(seconds, 2), record["episode_return"]])
    return {"mean": found["evaluation"]["mean"], "seconds": round(wall, 1), "curve": _thinned(curve)}


def peer(task: Task, env: str, seed: int) -> dict[str, Any]:
    """One run of the peer's PPO or SAC with its defaults; called in the peers' environment."""
    from peers.defaults_sb3 import train

    algo = "sac" if task.half in PEERS else "ppo"
    return dict(train(algo, env, task.kind, task.steps, seed, EVAL_EPISODES))


def random_mean(task: Task, env: str) -> float:
    """Mean return of random actions; called in the peers' environment."""
    from peers.defaults_sb3 import random_mean as measured

    return float(measured(env, task.kind, EVAL_EPISODES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers-python", help="the interpreter that has Stable-Baselines3")
    parser.add_argument("--half", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sides", nargs="*", default=[RANDOM, "peer"], choices=[RANDOM, "peer"])
    parser.add_argument("--ours", nargs="*", default=[""], help="flags of ours; each text is a contender")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run after so many; the next call goes on")
    parser.add_argument("--json", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=3, metavar=("SIDE", "TASK", "SEED"), help=argparse.SUPPRESS)
    stated = parser.parse_args()
    if stated.one:
        side, key, seed = stated.one
        task = TASKS[key]
        env = task.env(key)
        print(json.dumps(random_mean(task, env) if side == RANDOM else peer(task, env, int(seed))))
        return
    if not stated.peers_python:
        parser.error("--peers-python PATH: the interpreter that has Stable-Baselines3 (benchmarks/README.md)")
    _measure(stated)


def _measure(stated: argparse.Namespace) -> None:
    end = time.monotonic() + 60 * stated.minutes
    for seed in stated.seeds:
        for name in stated.only:
            task = TASKS[name]
            if task.half not in stated.half:
                continue
            sides = [PEERS.get(task.half, "sb3") if side == "peer" else side for side in stated.sides]
            for side in (*sides, *(f"ours {flags}".strip() for flags in stated.ours)):
                key = f"{name}|{side}" if side == RANDOM else f"{name}|{side}|{seed}"
                report = _read(stated.json)
                if key in report["runs"] or time.monotonic() > end:
                    continue
                if side.startswith("ours"):
                    found: Any = ours(task, task.env(name), seed, side.removeprefix("ours"))
                else:
                    found = _call([stated.peers_python, str(HERE / "defaults.py"), "--one", side, name, str(seed)])
                report = _read(stated.json)
                report["runs"][key] = found
                report["machine"] = {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()}
                report["tasks"] = {one: task._asdict() for one, task in TASKS.items()}
                report["measured"] = datetime.now(UTC).isoformat(timespec="seconds")
                stated.json.write_text(json.dumps(report) + "\n", encoding="utf-8")
                print(key, found if side == RANDOM else (found["mean"], found["seconds"]), flush=True)


def _read(path: Path) -> dict[str, Any]:
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    return {"runs": {}}


def _call(words: list[str]) -> Any:
    own = {**os.environ, "PYTHONPATH": str(HERE.parent / "src")}  # peers need it for our tasks
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=own)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _thinned(curve: list[list[float]]) -> list[list[float]]:
    """At most 50 points."""
    return curve[:: max(1, len(curve) // 50)]


if __name__ == "__main__":
    main()
