"""Optuna chooses the learning rate; a callback reports every evaluation and ends runs that fall behind."""

import sys
from collections.abc import Mapping
from typing import Any

import optuna

import batchwright


class Report(batchwright.Callback):
    """Reports evaluations to a trial; stops the run where the trial should be pruned."""

    def __init__(self, trial: optuna.Trial) -> None:
        self.trial, self.pruned = trial, False

    def on_evaluation(self, evaluation: Mapping[str, Any], view: batchwright.RunView) -> None:
        self.trial.report(evaluation["mean"], view.env_steps)
        if self.trial.should_prune():
            self.pruned = True
            view.stop("pruned")


def objective(trial: optuna.Trial, total_steps: int) -> float:
    rate = trial.suggest_float("learning_rate", 1e-5, 1e-2, log=True)
    callback = Report(trial)
    settings = {"total_steps": total_steps, "num_envs": 8, "eval_every": 4, "engine": "jax"}
    result = batchwright.train("CartPole-v1", learning_rate=rate, callback=callback, quiet=True, **settings)
    if callback.pruned:
        raise optuna.TrialPruned
    return float(result.evaluation["mean"])


if __name__ == "__main__":
    steps, trials = (int(word) for word in (sys.argv[1:] or ["20000", "8"]))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=2)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0), pruner=pruner)
    study.optimize(lambda trial: objective(trial, steps), n_trials=trials)
    states = [trial.state.name.lower() for trial in study.trials]
    print(f"best: {study.best_value:.1f} with {study.best_params}; {states.count('pruned')} of {len(states)} pruned")
