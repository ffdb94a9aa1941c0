"""Trains runs with one graded fault and healthy ones, measures the harm of each, and judges the doctor by them.

python benchmarks/doctor.py train [--set further] [--only WORD ...]  trains what is not there yet
python benchmarks/doctor.py judge [--all] [--json FILE]             all sets that are there; no training: records alone
python benchmarks/doctor.py repair [--set further]                   harmed runs, first flags applied
python benchmarks/doctor.py try [--set further]                      harmed runs, what `--try` chose applied

A run is harmed where its return at the end of training has lost more than 25% of what healthy runs of its base gain
over their first return, and lies below every one of them. A fault that harms nothing makes a healthy run of odd
numbers, on which an alarm is false. The set `further` judged the present doctor: tasks, seeds and grades that nothing
was chosen on. All others have been looked at, and are for choosing.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from doctor_faults import SICK, Base, Fault  # noqa: E402
from doctor_unseen import SETS  # noqa: E402

SHARED: dict[str, Any] = {"eval_episodes": 1, "eval_every": 0, "checkpoint_every": 100_000, "doctor": "off"}
ARRAYS = {"learning_rate", "gamma", "gae_lambda", "clip_range", "entropy_start", "entropy_end", "max_grad_norm"} | {
    "value_weight",
    "polyak",
    "updates_per_target",
    "warmup_steps",
    "epsilon_start",
    "epsilon_end",
    "huber_limit",
}
LOST_SHARE = 0.25
LAST_SHARE = 0.1
MENDED_SHARE = 0.25
HEALTHY_SEEDS = {"tuning": (0, 1, 2), "judging": (100, 101, 102), "again": (200, 201, 202)} | {
    "others": (0, 1, 2),
    "others-judging": (100, 101, 102),
    "fresh": (300, 301, 302, 303, 304),
    "fresh-again": (400, 401, 402),
    "unseen": (500, 501, 502, 503),
    "further": (600, 601, 602, 603),
}


def folder_of(root: Path, key: str, seed: int) -> Path:
    """Where one run lies."""
    return root / re.sub(r"[^a-z0-9.]+", "-", key.lower()).strip("-") / str(seed)


def healthy_key(base: str) -> str:
    return f"healthy {base}"


class Trainer:
    """Trains runs in one process: programs of equal shapes are compiled once."""

    def __init__(self, root: Path, minutes: float = math.inf) -> None:
        from batchwright.api import set_up_jax
        from batchwright.runs.shared_programs import SharedPrograms

        set_up_jax()
        self.root, self.programs = root, SharedPrograms()
        self.until = time.monotonic() + 60 * minutes

    def run(self, key: str, base: Base, seed: int, fault: Fault | None = None, **more: Any) -> None:
        """One run, unless it is there already or another process has it; one that is refused has no outcome."""
        from batchwright.core.errors import UserError

        if time.monotonic() > self.until:
            return
        folder = folder_of(self.root, key, seed)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            return
        try:
            outcome = self._train(folder / "run", base, seed, fault, more)
        except UserError as error:
            print(f"{key} refused: {error}", flush=True)
            return
        for name in ("checkpoints", "dumps"):
            shutil.rmtree(folder / "run" / name, ignore_errors=True)
        (folder / "outcome.json").write_text(json.dumps(outcome))
        print(f"{datetime.now():%H:%M:%S} {key} seed {seed}: {outcome}", flush=True)

    def _train(self, run: Path, base: Base, seed: int, fault: Fault | None, more: dict[str, Any]) -> dict[str, Any]:
        from batchwright.api import prepare
        from batchwright.regimes import make_learner
        from batchwright.runs.launch import continue_run
        from batchwright.runs.loop import DivergedError
        from batchwright.runs.recorder import OutputOptions

        settings = {"engine": "jax"} | SHARED | base.settings | (fault.change if fault else {}) | more
        try:
            prepare(env_of(base, fault), run_dir=run, seed=seed, quiet=True, **settings)
            options = OutputOptions(quiet=True, stream=io.StringIO())
            result = continue_run(run, partial(make_learner, programs=self.programs), options)
        except DivergedError:
            return {"diverged": True} | ends_of(run)
        return {"seconds": result.seconds} | ends_of(run)


def env_of(base: Base, fault: Fault | None) -> str:
    """The environment of a run, with its fault where it lies there."""
    if fault is None or fault.env_fault is None:
        return base.env
    from batchwright.envs.env_names import with_kwargs

    name, grade = fault.env_fault
    return with_kwargs(f"{SICK}:planted", {"task": base.task, "fault": name, "grade": grade})


def ends_of(run: Path) -> dict[str, float | None]:
    """The return in the first and in the last tenth of a run."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    returns = [value for line in lines if (value := json.loads(line).get("episode_return")) is not None]
    count = max(1, int(LAST_SHARE * len(returns)))
    if not returns:
        return {"first": None, "last": None}
    return {"first": sum(returns[:count]) / count, "last": sum(returns[-count:]) / count}


def outcome_of(root: Path, key: str, seed: int) -> dict[str, Any] | None:
    """What a run came to, where it is there."""
    path = folder_of(root, key, seed) / "outcome.json"
    return json.loads(path.read_text()) if path.exists() else None


class Harm:
    """What healthy runs of each base reach, and from where on a run counts as harmed."""

    def __init__(self, root: Path, chosen: str) -> None:
        self.limits: dict[str, tuple[float, float]] = {}
        for base in SETS[chosen].bases:
            found = [outcome_of(root, healthy_key(base), seed) for seed in HEALTHY_SEEDS[chosen]]
            ends = [(one["first"], one["last"]) for one in found if one and one["last"] is not None]
            if ends:
                first, last = (sum(column) / len(ends) for column in zip(*ends, strict=True))
                lost = last - LOST_SHARE * abs(last - first)
                self.limits[base] = min(lost, *(one for _, one in ends)), last

    def of(self, fault: Fault, outcome: dict[str, Any]) -> bool | None:
        """Whether a run was harmed; None where nothing healthy is there to compare it with."""
        if fault.base not in self.limits:
            return None
        last = outcome.get("last")
        return last is None or bool(outcome.get("diverged")) or last / fault.reward_factor < self.limits[fault.base][0]


def judge(root: Path, chosen: str, seeds: list[int]) -> dict[str, Any]:
    """What the doctor says of every run that is there, beside what was planted and what harm it did."""
    from batchwright.api import diagnose

    rows, harm = [], Harm(root, chosen)
    for base in SETS[chosen].bases:
        for seed in HEALTHY_SEEDS[chosen]:
            if (outcome := outcome_of(root, healthy_key(base), seed)) is not None:
                found = diagnose(folder_of(root, healthy_key(base), seed) / "run").findings
                rows.append(
                    {"case": healthy_key(base), "base": base, "seed": seed, "harmed": False}
                    | seen(found, ())
                    | {"last": outcome["last"]}
                )
    for fault in SETS[chosen].faults:
        for seed in seeds:
            outcome = outcome_of(root, fault.key, seed)
            if outcome is None or (harmed := harm.of(fault, outcome)) is None:
                continue
            found = diagnose(folder_of(root, fault.key, seed) / "run").findings
            row = {"case": fault.key, "base": fault.base, "seed": seed, "fault": fault.name, "grade": fault.grade}
            row |= {"kind": fault.kind, "harmed": harmed, "last": outcome["last"], "accepted": list(fault.accepted)}
            rows.append(row | seen(found, fault.accepted) | mended(root, harm, fault, seed))
    return {"rows": rows, "summary": summarise(rows)}


def seen(found: Any, accepted: tuple[str, ...]) -> dict[str, Any]:
    """The alarms, and at which place the cause is named."""
    alarms = [finding.name for finding in found if finding.alarm]
    places = [place for place, name in enumerate(alarms, 1) if name in accepted]
    return {"alarms": alarms, "place": places[0] if places else None}


def mended(root: Path, harm: Harm, fault: Fault, seed: int) -> dict[str, bool]:
    """Whether the first flags, and what `--try` chose, brought a harmed run back to healthy."""
    found = {}
    for name in ("repaired", "tried"):
        outcome = outcome_of(root, f"{name} {fault.key}", seed)
        if outcome is not None:
            found[name] = not harm.of(fault, outcome)
    return found


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares over all runs, by kind of fault, and by grade."""
    harmed, harmless = [row for row in rows if row["harmed"]], [row for row in rows if not row["harmed"]]
    return {
        "harmed_runs": len(harmed),
        "faults": len({row["fault"] for row in rows if "fault" in row}),
        "bases": len({row["base"] for row in rows}),
        "named_first": share([row["place"] == 1 for row in harmed]),
        "among_first_three": share([row["place"] is not None and row["place"] <= 3 for row in harmed]),
        "silent": share([not row["alarms"] for row in harmed]),
        "harmless_runs": len(harmless),
        "harmless_faults": sum("fault" in row for row in harmless),
        "false_alarms": share([bool(row["alarms"]) for row in harmless]),
        "repaired": share([row["repaired"] for row in harmed if "repaired" in row]),
        "repaired_runs": sum("repaired" in row for row in harmed),
        "tried": share([row["tried"] for row in harmed if "tried" in row]),
        "tried_runs": sum("tried" in row for row in harmed),
        "kinds": {
            kind: {
                "harmed_runs": len(mine),
                "named_first": share([row["place"] == 1 for row in mine]),
                "silent": share([not row["alarms"] for row in mine]),
            }
            for kind in sorted({row["kind"] for row in harmed})
            if (mine := [row for row in harmed if row["kind"] == kind])
        },
        "algorithms": {
            algo: {
                "harmed_runs": len(mine),
                "named_first": share([row["place"] == 1 for row in mine]),
                "among_first_three": share([row["place"] is not None and row["place"] <= 3 for row in mine]),
                "silent": share([not row["alarms"] for row in mine]),
                "harmless_runs": len(fine),
                "false_alarms": share([bool(row["alarms"]) for row in fine]),
            }
            for algo in sorted({algorithm_of(row["base"]) for row in rows})
            for mine in [[row for row in harmed if algorithm_of(row["base"]) == algo]]
            for fine in [[row for row in harmless if algorithm_of(row["base"]) == algo]]
        },
    }


def algorithm_of(base: str) -> str:
    """The algorithm that a base is named by; PPO where it names none."""
    first = base.split(maxsplit=1)[0]
    return first if first in ("a2c", "reinforce", "dqn", "sac", "rrd") else "ppo"


def share(hits: list[bool]) -> float | None:
    return round(sum(hits) / len(hits), 4) if hits else None


def train(trainer: Trainer, chosen: str, seeds: list[int], wanted: Callable[[str], bool], backwards: bool) -> None:
    """Healthy runs of every base, then every fault."""
    made, order = SETS[chosen], slice(None, None, -1 if backwards else 1)
    for base in list(made.bases)[order]:
        for seed in HEALTHY_SEEDS[chosen]:
            if wanted(healthy_key(base)):
                trainer.run(healthy_key(base), made.bases[base], seed)
    for seed in seeds:
        # Faults in numbers that programs take as arrays come first: they compile nothing.
        for fault in sorted(made.faults, key=lambda one: bool(one.env_fault) or not set(one.change) <= ARRAYS)[order]:
            if wanted(fault.key):
                trainer.run(fault.key, made.bases[fault.base], seed, fault)


def train_again(
    trainer: Trainer,
    name: str,
    choose: Callable[[Path], str | None],
    chosen: str,
    seeds: list[int],
    wanted: Callable[[str], bool],
) -> None:
    """Harmed runs that a flag can mend, again with the flags that `choose` takes from the run."""
    from batchwright.tuning.remedy_trials import as_settings

    harm = Harm(trainer.root, chosen)
    for fault in SETS[chosen].faults:
        for seed in seeds:
            outcome = outcome_of(trainer.root, fault.key, seed)
            if outcome is None or not harm.of(fault, outcome) or not fault.repairable or not wanted(fault.key):
                continue
            key = f"{name} {fault.key}"
            flags = choose(folder_of(trainer.root, fault.key, seed) / "run")
            if flags is not None:
                trainer.run(key, SETS[chosen].bases[fault.base], seed, fault, **as_settings(flags))
            elif not (folder := folder_of(trainer.root, key, seed)).exists():
                folder.mkdir(parents=True)  # nothing to try: the run stays as it is
                (folder / "outcome.json").write_text(json.dumps(outcome))


def first_flags(run: Path) -> str | None:
    """The first flags of the first alarm that has some."""
    from batchwright.api import diagnose

    return next((one.flags[0] for one in diagnose(run).findings if one.alarm and one.flags), None)


def helped_flags(run: Path) -> str | None:
    """What `batchwright doctor RUN --try` says helped."""
    from batchwright.api import try_remedies

    best = try_remedies(run, quiet=True, trust=True).best
    return None if best is None else best.flags


def confusion(rows: list[dict[str, Any]]) -> list[str]:
    """Harmed faults beside what was named first."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row["harmed"] and "fault" in row:
            found.setdefault(row["fault"], Counter())[row["alarms"][0] if row["alarms"] else "silent"] += 1
    return [
        f"{fault}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}"
        for fault, counts in sorted(found.items())
    ]


def show(found: dict[str, Any], everything: bool) -> None:
    """Errors by name, where they may be looked at, and the shares."""
    for row in found["rows"]:
        wrong = row["place"] != 1 if row["harmed"] else bool(row["alarms"])
        if everything and wrong:
            kind = "HARMED  " if row["harmed"] else "harmless"
            print(f"{kind} {row['case']} ({row['last']}): {', '.join(row['alarms']) or 'silent'}")
    if everything:
        print("\n".join(confusion(found["rows"])))
    print(json.dumps(found["summary"], indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "judge", "repair", "try"))
    parser.add_argument("--set", dest="chosen", choices=tuple(SETS), default="further")
    parser.add_argument("--runs", type=Path, default=Path("runs/doctor"))
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no run after so many")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--all", action="store_true", help="name every error")
    parser.add_argument("--backwards", action="store_true", help="the last first: for a second process beside one")
    stated = parser.parse_args()
    seeds = stated.seeds or [HEALTHY_SEEDS[stated.chosen][0]]

    def wanted(key: str) -> bool:
        return not stated.only or any(word in key for word in stated.only)

    if stated.what == "judge":
        names = [name for name in SETS if (stated.runs / name).exists()]
        sets = {name: judge(stated.runs / name, name, [HEALTHY_SEEDS[name][0]]) for name in names}
        for name, found in sets.items():
            print(name)
            show(found, stated.all)
        if stated.json:
            # Sets whose runs are not here keep what was found when they were judged.
            earlier = json.loads(stated.json.read_text())["sets"] if stated.json.exists() else {}
            report = {"measured": f"{datetime.now():%Y-%m-%d}", "sets": earlier | sets}
            stated.json.write_text(json.dumps(report, indent=1) + "\n")
        return
    trainer = Trainer(stated.runs / stated.chosen, stated.minutes)
    if stated.what == "train":
        train(trainer, stated.chosen, seeds, wanted, stated.backwards)
    else:
        choose = first_flags if stated.what == "repair" else helped_flags
        name = "repaired" if stated.what == "repair" else "tried"
        train_again(trainer, name, choose, stated.chosen, seeds, wanted)


if __name__ == "__main__":
    main()
