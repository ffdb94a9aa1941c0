"""Trains runs with one planted fault and healthy ones, and judges the doctor by them.

python benchmarks/doctor.py train [--only WORD ...] [--seeds 0 1] [--runs FOLDER]   trains what is not there yet
python benchmarks/doctor.py judge [--runs FOLDER] [--json benchmarks/results/doctor.json]   no training: records alone
python benchmarks/doctor.py repair [--runs FOLDER]   trains sick runs again with the first advice applied

Thresholds were set on the runs of seeds 0 and 1. Those of seeds 100 to 102 judge: they were trained after the last
threshold was set, and nothing was changed for what they showed.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import sys
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from doctor_faults import BASES, FAULTS, HEALTHY, Base, Fault  # noqa: E402

SETTING_SEEDS, JUDGING_SEEDS = (0, 1), (100, 101, 102)
SEEDS = (*SETTING_SEEDS, *JUDGING_SEEDS)
SHARED: dict[str, Any] = {"eval_episodes": 20, "eval_every": 0, "quiet": True, "engine": "jax"}


def folder_of(root: Path, key: str, seed: int) -> Path:
    """Where one run lies."""
    return root / re.sub(r"[^a-z0-9.]+", "-", key.lower()).strip("-") / str(seed)


def train_one(root: Path, key: str, base: Base, seed: int, fault: Fault | None = None, **more: Any) -> float | None:
    """One run, unless it is there already; its mean return at the end, or None where it diverged."""
    folder = folder_of(root, key, seed)
    outcome = folder / "outcome.json"
    if not outcome.exists():
        try:
            folder.mkdir(parents=True)
        except FileExistsError:  # another process has it, or was killed over it: remove the folder then
            return None
        outcome.write_text(json.dumps(_train(folder / "run", base, seed, fault, more)))
        shutil.rmtree(folder / "run" / "checkpoints", ignore_errors=True)
        shutil.rmtree(folder / "run" / "dumps", ignore_errors=True)
    found: float | None = json.loads(outcome.read_text())["mean"]
    print(f"{key} seed {seed}: {found}", flush=True)
    return found


def _train(run: Path, base: Base, seed: int, fault: Fault | None, more: dict[str, Any]) -> dict[str, Any]:
    from batchwright.api import prepare
    from batchwright.regimes import make_learner
    from batchwright.runs.launch import continue_run
    from batchwright.runs.loop import DivergedError
    from batchwright.runs.recorder import OutputOptions

    settings = SHARED | base.settings | (fault.change if fault else {}) | more
    env = fault.env if fault and fault.env else base.env
    network = _frozen_head if fault and fault.network else None
    prepare(env, run_dir=run, seed=seed, network=network, **settings)
    try:
        options = OutputOptions(quiet=True, stream=io.StringIO())
        result = continue_run(run, partial(make_learner, network=network), options)
    except DivergedError as error:
        return {"mean": None, "diverged": str(error)}
    return {"mean": result.evaluation["mean"], "seconds": result.seconds}


def _frozen_head(inputs: Any, raw_size: int, values: int) -> Any:
    """A network whose last four outputs, the second head's, take no gradient."""
    import jax
    import jax.numpy as jnp

    import batchwright
    from batchwright.nets.networks import mlp

    inner = mlp(inputs.vector_size, raw_size, values, (64, 64), "tanh")

    def apply(params: Any, seen: Any) -> Any:
        raw, value = inner.apply(params, seen)
        return jnp.concatenate([raw[..., :4], jax.lax.stop_gradient(raw[..., 4:])], -1), value

    return batchwright.Network(inner.init, apply)


def train_all(root: Path, seeds: list[int], words: list[str], backwards: bool) -> None:
    """One sick run of each fault and healthy ones, a seed at a time; then the faults in further environments."""
    cases = all_cases()
    first = {fault.name: fault.key for fault in reversed(FAULTS)}
    once = [case for case in cases if case[2] is None or first[case[2].name] == case[0]]
    further = [case for case in cases if case not in once]
    for group in (once, further):
        for seed in seeds:
            for key, base, fault in group[:: -1 if backwards else 1]:
                if _wanted(key, words):
                    train_one(root, key, base, seed, fault)


def all_cases() -> list[tuple[str, Base, Fault | None]]:
    """(key, base, fault) of every case, healthy ones first."""
    healthy: list[tuple[str, Base, Fault | None]] = [(f"healthy {name}", base, None) for name, base in HEALTHY.items()]
    return [*healthy, *((fault.key, BASES[fault.base], fault) for fault in FAULTS)]


def judge(root: Path) -> dict[str, Any]:
    """What the doctor says of every run that is there, beside what was planted."""
    rows = []
    for key, base, fault in all_cases():
        for seed in SEEDS:
            folder = folder_of(root, key, seed)
            if not (folder / "outcome.json").exists():
                continue
            found = [finding for finding in diagnose(folder / "run").findings if finding.alarm]
            names = [finding.name for finding in found]
            row: dict[str, Any] = {
                "case": key,
                "seed": seed,
                "env": (fault.env if fault and fault.env else base.env).rsplit("/", 1)[-1],
                "half": "setting" if seed in SETTING_SEEDS else "judging",
                "alarms": names,
                "mean": json.loads((folder / "outcome.json").read_text())["mean"],
            }
            if fault is not None:
                places = [place for place, name in enumerate(names) if name in fault.accepted]
                row |= {
                    "fault": fault.name,
                    "accepted": list(fault.accepted),
                    "place": places[0] + 1 if places else None,
                }
            rows.append(row)
    return {"measured": f"{datetime.now():%Y-%m-%d}", "rows": rows, "summary": summarise(rows)}


def diagnose(run: Path) -> Any:
    from batchwright.api import diagnose as look

    return look(run)


def summarise(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Shares over each half and over all runs."""
    summary = {}
    for half in ("setting", "judging", "all"):
        mine = [row for row in rows if half in (row["half"], "all")]
        sick, healthy = [row for row in mine if "fault" in row], [row for row in mine if "fault" not in row]
        summary[half] = {
            "sick_runs": len(sick),
            "faults": len({row["fault"] for row in sick}),
            "environments": len({row["env"] for row in sick}),
            "named_first": _share([row["place"] == 1 for row in sick]),
            "among_first_three": _share([row["place"] is not None and row["place"] <= 3 for row in sick]),
            "healthy_runs": len(healthy),
            "false_alarms": _share([bool(row["alarms"]) for row in healthy]),
        }
    return summary


def _share(hits: list[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def repair(root: Path, seeds: list[int], words: list[str]) -> None:
    """Trains every run that its fault has harmed and a flag can mend again, with the first advice applied."""
    from batchwright.config.schema import FIELDS

    for seed in seeds:
        for fault in FAULTS:
            run, aim = folder_of(root, fault.key, seed) / "run", aim_of(root, fault)
            before = outcome_of(root, fault.key, seed)
            if not fault.repairable or not _wanted(fault.key, words) or before is None or aim is None:
                continue
            if aim.met_by(before["mean"]):
                continue
            found = [finding for finding in diagnose(run).findings if finding.alarm and finding.flags]
            if found:
                flags = as_settings(found[0].flags[0], set(FIELDS))
                train_one(root, f"repaired {fault.key}", BASES[fault.base], seed, fault, **flags)


def as_settings(flags: str, known: set[str]) -> dict[str, Any]:
    """Flags as keywords of `batchwright.train`."""
    words, settings = flags.split(), {}
    while words:
        name = words.pop(0)[2:].replace("-", "_")
        value: Any = words.pop(0) if words and not words[0].startswith("--") else True
        if name not in known and name.startswith("no_"):
            name, value = name[3:], False
        settings[name] = value
    return settings


def repairs(root: Path) -> list[dict[str, Any]]:
    """Returns after the advice beside those of the sick and of the healthy run; as near as 20% of healthy is mended."""
    found = []
    for fault in FAULTS:
        aim = aim_of(root, fault)
        for seed in SEEDS:
            sick, again = outcome_of(root, fault.key, seed), outcome_of(root, f"repaired {fault.key}", seed)
            if aim is None or sick is None or again is None:
                continue
            before, after = sick["mean"], again["mean"]
            row = {"case": fault.key, "seed": seed, "sick": before, "repaired": after, "healthy": aim.mean}
            found.append(row | {"harmed": not aim.met_by(before), "mended": aim.met_by(after)})
    return found


def outcome_of(root: Path, key: str, seed: int) -> dict[str, Any] | None:
    """What a run came to, where it is there."""
    path = folder_of(root, key, seed) / "outcome.json"
    return json.loads(path.read_text()) if path.exists() else None


@dataclass(frozen=True)
class Aim:
    """What healthy runs of a base reach, and how far below a return still counts as reaching it."""

    mean: float
    below: float

    def met_by(self, value: float | None) -> bool:
        return value is not None and value >= self.mean - self.below


def aim_of(root: Path, fault: Fault) -> Aim | None:
    """Within 20% of the healthy return; where that is near 0, within 5% of what healthy runs gain over their start."""
    key = next(f"healthy {name}" for name, base in HEALTHY.items() if base == BASES[fault.base])
    means, starts = [], []
    for seed in JUDGING_SEEDS:
        found = outcome_of(root, key, seed)
        if found and found["mean"] is not None:
            means.append(found["mean"])
            lines = (folder_of(root, key, seed) / "run" / "metrics.jsonl").read_text().splitlines()
            first = (json.loads(line).get("episode_return") for line in lines)
            starts.append(next(value for value in first if value is not None))
    if not means:
        return None
    mean, start = (reward_factor(fault) * sum(values) / len(values) for values in (means, starts))
    return Aim(mean, max(0.2 * abs(mean), 0.05 * abs(mean - start)))


def reward_factor(fault: Fault) -> float:
    """What the planted environment multiplies rewards by."""
    return 1e4 if "rewards_up" in (fault.env or "") else 1e-4 if "rewards_down" in (fault.env or "") else 1.0


def _wanted(key: str, words: list[str]) -> bool:
    return not words or any(word in key for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "judge", "repair"))
    parser.add_argument("--runs", type=Path, default=Path("runs/doctor"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(JUDGING_SEEDS))
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--all", action="store_true", help="name also the errors of the half that judges")
    parser.add_argument("--backwards", action="store_true", help="the last first: for a second process beside one")
    stated = parser.parse_args()
    if stated.what == "train":
        train_all(stated.runs, stated.seeds, stated.only, stated.backwards)
        return
    if stated.what == "repair":
        repair(stated.runs, stated.seeds, stated.only)
        return
    found = judge(stated.runs)
    found["repairs"] = repairs(stated.runs)
    harmed = [row for row in found["repairs"] if row["harmed"]]
    found["summary"]["repaired"] = {"runs": len(harmed), "share": _share([row["mended"] for row in harmed])}
    for row in found["rows"]:
        wrong = row["place"] != 1 if "fault" in row else row["alarms"]
        if wrong and (stated.all or row["half"] == "setting"):
            print(f"{row['case']} seed {row['seed']} ({row['mean']}): {', '.join(row['alarms']) or 'no alarm'}")
    print(json.dumps(found["summary"], indent=1))
    if stated.json:
        stated.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
