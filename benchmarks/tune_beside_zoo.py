"""`batchwright tune` beside RL Baselines3 Zoo itself, each with its own trainer of PPO, at equal environment steps.

python benchmarks/tune_beside_zoo.py --peers-python PATH [--envs CartPole-v1 Acrobot-v1] [--ours FILE] [--work DIR]
The Zoo tunes as its command does: TPE over its space, from the numbers that it ships for the environment, the last
evaluation as its objective, as many trainings as `tune_against.py` gives `tune`, each as long. Its evaluations are not
counted. No training is pruned, so that steps are equal. What it chose is trained by the Zoo with 10 seeds. Ours are the
judged runs of `tune` in the file of `tune_against.py`. Score: the mean training return over the steps of a training;
and the last evaluation, 10 episodes, which is what the Zoo tunes for. `--trials N` makes N trials more and ends; the
next call continues.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.tuning.judging import improvement_interval, improvement_probability
from batchwright.tuning.unit_runs import RETURN, score_of, training_return
from batchwright.watch.statistics import bootstrap_interval, interquartile_mean
from tune_against import ENVS, JUDGED, TRAININGS, Record

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "tune_beside_zoo.json"
WINDOW = 1024
"""Environment steps of one point of a learning curve."""
FIRST_SEED = 9400


class Zoo:
    """The Zoo's command for one environment."""

    def __init__(self, python: str, env: str, work: Path) -> None:
        self.env, self.steps, self.work, self.python = env, ENVS[env][1], work / env, python
        self.study = ["--storage", str(self.work / "study.log"), "--study-name", env]

    def tune(self, most: int) -> bool:
        """So many trials more, or what is left of them; whether the study is finished."""
        done = self.read()["finished"] if (self.work / "study.log").exists() else 0
        now = min(most, TRAININGS - done)
        if now > 0:  # the seed changes with each call, or random draws would come twice
            more = ["-optimize", "--sampler", "tpe", "--pruner", "none", "--n-evaluations", "1", "--no-optim-plots"]
            more += ["--n-trials", str(now), "--seed", str(done), "--eval-episodes", "10"]
            self._train([*more, *self.study, "--log-folder", str(self.work)])
        return done + now >= TRAININGS

    def read(self) -> dict[str, Any]:
        """{"number", "value", "params"} of the best trial, and {"trials", "finished", "seconds"} of the study.

        Read where the Zoo is installed.
        """
        words = (
            "import json, sys, optuna; from optuna.storages import JournalStorage; "
            "from optuna.storages.journal import JournalFileBackend; "
            "study = optuna.load_study(study_name=sys.argv[2], storage=JournalStorage(JournalFileBackend(sys.argv[1])))"
            "; done = [t for t in study.trials if t.state.is_finished()]; best = study.best_trial; "
            "print(json.dumps({'number': best.number, 'value': best.value, 'params': best.params, "
            "'trials': len(study.trials), 'finished': len(done), "
            "'seconds': sum(t.duration.total_seconds() for t in done)}))"
        )
        command = [self.python, "-c", words, str(self.work / "study.log"), self.env]
        return dict(json.loads(_run(command).strip().splitlines()[-1]))

    def judge(self, best: dict[str, Any], seed: int) -> dict[str, Any]:
        """One training with what the study chose."""
        begun, folder = time.perf_counter(), self.work / f"seed{seed}"
        trial = best["number"] - best["trials"]  # counted from the end: the Zoo takes no trial 0
        more = [*self.study, "--trial-id", str(trial), "--seed", str(seed), "--log-folder", str(folder)]
        self._train([*more, "--eval-freq", str(self.steps), "--eval-episodes", "10"])
        run = folder / "ppo" / f"{self.env}_1"
        evaluated = np.load(run / "evaluations.npz")["results"]
        found = {"score": zoo_score(run, self.steps), "final": float(evaluated[0].mean()), "env_steps": self.steps}
        return {**found, "seconds": round(time.perf_counter() - begun, 2)}

    def _train(self, more: list[str]) -> None:
        shared = ["-m", "rl_zoo3.train", "--algo", "ppo", "--env", self.env, "-n", str(self.steps)]
        self.work.mkdir(parents=True, exist_ok=True)
        _run([self.python, *shared, "--num-threads", "1", "--device", "cpu", "--verbose", "0", *more])


def _run(words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{words} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def zoo_score(run: Path, steps: int) -> float:
    """The score that `tune` ranks by, from the Zoo's files of episodes: one for each environment side by side."""
    files = sorted(run.glob("*.monitor.csv"))
    ends: list[tuple[int, float]] = []
    for path in files:
        rows = list(csv.DictReader(path.read_text().splitlines()[1:]))
        lengths = accumulate(int(row["l"]) for row in rows)
        ends += [(end * len(files), float(row["r"])) for end, row in zip(lengths, rows, strict=True)]
    records = []
    for end in range(WINDOW, steps + 1, WINDOW):
        inside = [value for at, value in ends if end - WINDOW < at <= end]
        records.append({"env_steps": end, RETURN: float(np.mean(inside)) if inside else None})
    score = score_of(records, steps, training_return)
    assert score is not None, f"no episode ended in {run}"
    return score


def rows(record: Record, ours: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each environment, side and figure."""
    found = []
    for env in ENVS:
        zoo = [record.units.get(f"{env}/zoo/{FIRST_SEED + k}") for k in range(JUDGED)]
        first = ours["judge_from"]
        own = [ours["units"].get(f"{env}/judge/tune/{seed}") for seed in range(first, first + JUDGED)]
        if not all(zoo) or not all(own):
            continue
        for figure in ("score", "final"):
            sides = {"tune": own, "zoo": zoo}
            values = {side: np.array([unit[figure] for unit in units if unit]) for side, units in sides.items()}
            row: dict[str, Any] = {"env": env, "figure": figure}
            for side, value in values.items():
                row[side] = float(interquartile_mean(value))
                row[f"{side}_interval"] = bootstrap_interval([value], interquartile_mean)
            row["tune_better"] = improvement_probability(values["tune"], values["zoo"])
            row["tune_better_interval"] = improvement_interval(values["tune"], values["zoo"])
            row["tune_minutes"] = round(ours["units"][f"{env}/tune"]["seconds"] / 60, 1)
            row["tune_steps"] = ours["units"][f"{env}/tune"]["env_steps"]
            row["zoo_minutes"] = round(record.data["studies"][env]["seconds"] / 60, 1)
            row["zoo_steps"] = TRAININGS * ENVS[env][1]
            found.append(row)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peers-python", required=True, help="the interpreter that has rl_zoo3")
    parser.add_argument("--envs", nargs="+", choices=list(ENVS), default=["CartPole-v1", "Acrobot-v1"])
    parser.add_argument("--ours", type=Path, default=HERE / "results" / "tune_against.json")
    parser.add_argument("--work", type=Path, default=Path("runs/tune-beside-zoo"))
    parser.add_argument("--trials", type=int, default=0, help="make so many trials more of the study and end")
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    record = Record(given.output)
    for env in given.envs:
        zoo = Zoo(given.peers_python, env, given.work.resolve())
        if not zoo.tune(given.trials or TRAININGS) or given.trials:
            continue
        best = zoo.read()
        record.data.setdefault("studies", {})[env] = best
        for seed in range(FIRST_SEED, FIRST_SEED + JUDGED):
            if f"{env}/zoo/{seed}" not in record.units:
                record.keep(f"{env}/zoo/{seed}", zoo.judge(best, seed))
    if given.ours.exists():
        record.data["rows"] = rows(record, json.loads(given.ours.read_text()))
        record.write()
        print(json.dumps(record.data["rows"], indent=1))


if __name__ == "__main__":
    main()
