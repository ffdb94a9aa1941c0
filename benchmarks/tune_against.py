"""`batchwright tune` against Optuna's TPE and random search over RL Baselines3 Zoo's space of PPO, at equal steps.

python benchmarks/tune_against.py [--envs CartPole-v1 ...] [--tuners tune tpe random] [--work DIR] [--judge-from SEED]
All drive our trainer, so that only the tuner differs: the same environments side by side, the same length of a
training, the same score (mean training return over its steps). Each tuner gets the same environment steps for all that
it trains, judging included; then what it chose, and the default, is trained with 10 seeds that it never saw. On
environments without a preset `tune` is compared with the default alone. Every training is kept in the JSON file at
once, and the next call continues. Needs the extra `tune`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from batchwright.api import set_up_jax

set_up_jax()

import numpy as np  # noqa: E402

import batchwright  # noqa: E402
from batchwright.core.machine import probe_machine  # noqa: E402
from batchwright.envs.catalog import describe  # noqa: E402
from batchwright.envs.task_facts import task_facts  # noqa: E402
from batchwright.runs.shared_programs import SharedPrograms  # noqa: E402
from batchwright.tuning.executors import FINISHED, INTERRUPTED, train_run  # noqa: E402
from batchwright.tuning.judging import improvement_interval, improvement_probability  # noqa: E402
from batchwright.tuning.start_tuning import read_header  # noqa: E402
from batchwright.tuning.tuning_ledger import is_tuning  # noqa: E402
from batchwright.tuning.unit_runs import UnitPlanner, training_return, unit_result  # noqa: E402
from batchwright.watch.statistics import bootstrap_interval, interquartile_mean  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "tune_against.json"
ENVS = {
    "CartPole-v1": ("jax", 24_576),
    "Acrobot-v1": ("jax", 32_768),
    "Pendulum-v1": ("jax", 40_960),
    "LunarLander-v3": ("envpool", 32_768),
}
"""Engine and environment steps of one training."""
WITHOUT_PRESET = {
    "InvertedDoublePendulum-v4": ("envpool", 32_768),
    "Reacher-v4": ("envpool", 32_768),
    "MountainCarContinuous-v0": ("jax", 32_768),
}
"""Environments on which `tune` is compared with the default alone."""
TASKS = ENVS | WITHOUT_PRESET
NUM_ENVS, TRAININGS = 8, 60
PROBED = 2
"""Trainings that the measurement of the speed costs about; the others get as many more."""
TUNERS = ("tune", "tpe", "random")
JUDGED = 10
"""Seeds of a comparison."""
NETS = {"tiny": "64", "small": "64,64", "medium": "256,256"}


def flags_of(env: str) -> dict[str, Any]:
    shared = {"algo": "ppo", "num_envs": NUM_ENVS, "learner_threads": 1, "eval_every": 0, "eval_episodes": 10}
    return {"env": env, "engine": TASKS[env][0], **shared, "checkpoint_every": 10**6, "doctor": "off"}


def zoo_setting(trial: Any) -> dict[str, Any]:
    """A draw from the Zoo's space of PPO (rl_zoo3, hyperparams_opt.py) in our words.

    Its n_steps are of one environment; here as many transitions come from 8.
    """
    transitions = 2 ** trial.suggest_int("n_steps_pow", 5, 12)
    batch = 2 ** trial.suggest_int("batch_size_pow", 2, 10)
    entropy = trial.suggest_float("ent_coef", 1e-8, 0.1, log=True)
    return {
        "rollout_steps": transitions // NUM_ENVS,
        "minibatch_transitions": min(batch, transitions),
        "gamma": 1 - trial.suggest_float("one_minus_gamma", 1e-4, 0.03, log=True),
        "gae_lambda": 1 - trial.suggest_float("one_minus_gae_lambda", 1e-4, 0.1, log=True),
        "learning_rate": trial.suggest_float("learning_rate", 1e-5, 2e-3, log=True),
        "entropy_start": entropy,
        "entropy_end": entropy,
        "clip_range": trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3, 0.4]),
        "epochs": trial.suggest_categorical("n_epochs", [1, 5, 10, 20]),
        "max_grad_norm": trial.suggest_float("max_grad_norm", 0.3, 2.0),
        "hidden": NETS[trial.suggest_categorical("net_arch", list(NETS))],
        "activation": trial.suggest_categorical("activation_fn", ["tanh", "relu"]),
    }


class Record:
    """The JSON file; written after every training."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"units": {}}
        self.units: dict[str, dict[str, Any]] = self.data["units"]

    def keep(self, key: str, unit: dict[str, Any]) -> dict[str, Any]:
        self.units[key] = unit
        self.write()
        return unit

    def write(self) -> None:
        self.data["measured"] = datetime.now(UTC).isoformat(timespec="seconds")
        self.data["machine"] = {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()}
        self.data["seconds"] = round(sum(unit.get("seconds", 0.0) for unit in self.units.values()), 1)
        self.path.parent.mkdir(exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.data, indent=1) + "\n")
        part.replace(self.path)


class Trainer:
    """Trainings of one environment; programs are shared."""

    def __init__(self, env: str) -> None:
        self.planner = UnitPlanner(flags_of(env), probe_machine(), task_facts(describe(env)))
        self.steps, self.programs = TASKS[env][1], SharedPrograms()

    def train(self, setting: dict[str, Any], seed: int) -> dict[str, Any]:
        """{"score", "final", "env_steps", "seconds"}; score None where the training failed or diverged."""
        begun = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            try:
                run = self.planner.prepare(setting, seed, self.steps, Path(folder) / "run")
                outcome = train_run(run, self.programs)
                if outcome.status == INTERRUPTED:  # a part of a training is no training
                    raise KeyboardInterrupt
                failed = outcome.reason if outcome.status != FINISHED else ""
            except batchwright.UserError as error:
                failed = error.message
            found = {"score": None, "final": None, "env_steps": 0}
            if not failed:
                result = unit_result(run, self.steps, training_return)
                found = {name: result[name] for name in found}
        return {**found, "failed": failed[:200], "seconds": round(time.perf_counter() - begun, 2)}


def search(env: str, tuner: str, record: Record, trainer: Trainer) -> dict[str, Any]:
    """The best setting of Optuna's TPE or random search; trainings that are there are told, not made."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {"tpe": optuna.samplers.TPESampler(seed=0), "random": optuna.samplers.RandomSampler(seed=0)}
    study = optuna.create_study(direction="maximize", sampler=samplers[tuner])
    best: tuple[float, dict[str, Any]] = (-math.inf, {})
    for number in range(TRAININGS + PROBED):
        trial, key = study.ask(), f"{env}/{tuner}/{number}"
        setting = zoo_setting(trial)
        unit = record.units.get(key) or record.keep(key, {"setting": setting, **trainer.train(setting, number)})
        assert unit["setting"] == setting, f"{key} was made by other code: remove it"
        done = unit["score"] is not None
        states = optuna.trial.TrialState
        study.tell(trial, unit["score"], state=states.COMPLETE if done else states.FAIL)
        if done and unit["score"] > best[0]:
            best = unit["score"], setting
    return best[1]


def tune(env: str, record: Record, work: Path) -> dict[str, Any]:
    """What `batchwright tune` chose: its winner, or the default where there is none."""
    key = f"{env}/tune"
    if key not in record.units:
        folder, begun = work / env, time.perf_counter()
        own = {name: value for name, value in flags_of(env).items() if name not in ("env", "eval_every")}
        if is_tuning(folder):
            result = batchwright.api.resume_tuning(folder, quiet=True)
        else:
            steps = TASKS[env][1]
            budget = {"budget_steps": TRAININGS * steps, "total_steps": steps, "preset": "none"}
            made = batchwright.tune(env, run_dir=folder, quiet=True, **budget, **own)
            assert made is not None
            result = made
        assert result.verdict is not None, "interrupted: call again"
        unit = {
            "setting": _whole(env, folder, result.best),
            "winner": result.verdict["winner"] is not None,
            "env_steps": result.env_steps,
        }
        unit |= {"reason": result.verdict["reason"], "units": result.units, "failed_units": result.failed_units}
        record.keep(key, {**unit, "seconds": round(max(result.seconds, time.perf_counter() - begun), 1)})
        shutil.rmtree(folder / "units", ignore_errors=True)
    return dict(record.units[key]["setting"])


def _whole(env: str, folder: Path, setting: dict[str, Any]) -> dict[str, Any]:
    """A setting with what all units of a tuning state beside the flags of the benchmark, such as the minibatch."""
    stated = read_header(folder)["flags"]
    return {**{name: value for name, value in stated.items() if name not in flags_of(env)}, **setting}


def judge_seeds(record: Record) -> range:
    return range(record.data["judge_from"], record.data["judge_from"] + JUDGED)


def judge(env: str, name: str, setting: dict[str, Any], record: Record, trainer: Trainer) -> None:
    for seed in judge_seeds(record):
        key = f"{env}/judge/{name}/{seed}"
        if key not in record.units:
            record.keep(key, {"setting": setting, **trainer.train(setting, seed)})


def rows(record: Record) -> list[dict[str, Any]]:
    """One row for each environment and contender that is judged whole, with the probability that `tune` beats it."""
    found = []
    for env in TASKS:
        scores: dict[str, np.ndarray] = {}
        for name in ("tune", "tpe", "random", "default"):
            units = [record.units.get(f"{env}/judge/{name}/{seed}") for seed in judge_seeds(record)]
            if all(units):
                scores[name] = np.array([-1e9 if u["score"] is None else u["score"] for u in units if u])
                finals = np.array([u["final"] for u in units if u and u["final"] is not None])
                row = {"env": env, "contender": name, "setting": units[0]["setting"] if units[0] else {}}
                row |= {"iqm": float(interquartile_mean(scores[name]))}
                row |= {"iqm_interval": bootstrap_interval([scores[name]], interquartile_mean)}
                row |= {"final_iqm": float(interquartile_mean(finals)) if len(finals) else None}
                spent = [u for key, u in record.units.items() if key.startswith(f"{env}/{name}")]
                row |= {"env_steps": sum(u["env_steps"] for u in spent)}
                row |= {"minutes": round(sum(u["seconds"] for u in spent) / 60, 1)}
                found.append(row)
        for row in found:
            if row["env"] == env and row["contender"] != "tune" and "tune" in scores:
                other = scores[row["contender"]]
                row["tune_better"] = improvement_probability(scores["tune"], other)
                row["tune_better_interval"] = improvement_interval(scores["tune"], other)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--tuners", nargs="+", choices=TUNERS, default=list(TUNERS))
    parser.add_argument("--work", type=Path, default=Path("runs/tune-against"))
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--judge-from", type=int, default=9100, help="first judging seed of a new file")
    given = parser.parse_args()
    record = Record(given.output)
    record.data.setdefault("judge_from", given.judge_from)
    for env in given.envs:
        trainer = Trainer(env)
        judge(env, "default", {}, record, trainer)
        for tuner in given.tuners if env in ENVS else ["tune"]:
            setting = tune(env, record, given.work) if tuner == "tune" else search(env, tuner, record, trainer)
            judge(env, tuner, setting, record, trainer)
            record.data["rows"] = rows(record)
            record.write()
            print(json.dumps([row for row in record.data["rows"] if row["env"] == env]), flush=True)


if __name__ == "__main__":
    main()
