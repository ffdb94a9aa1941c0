"""Optuna's samplers for the joint search: asked in batches, told in unit order, seeded. An extra."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

from batchwright.core.errors import UserError

SAMPLERS = ("sobol", "tpe", "gp")


NEEDS = {"sobol": ("scipy",), "gp": ("scipy", "torch")}
"""What a sampler imports when it is first asked."""


def load_optuna(sampler: str | None = None) -> Any:
    """The package, without its log lines; an error that names what is missing for a sampler."""
    try:
        import optuna
    except ImportError:
        raise UserError(
            "the samplers sobol, tpe and gp and the export of a study need Optuna, which is not installed.",
            ["pip install 'batchwright[tune]'", "--search local", "--search none"],
        ) from None
    missing = [name for name in NEEDS.get(sampler or "", ()) if importlib.util.find_spec(name) is None]
    if missing:
        packages = " and ".join(missing)
        raise UserError(
            f"Optuna's sampler {sampler} needs {packages}, which is not installed.",
            [f"pip install {' '.join(missing)}", "--search tpe"],
        )
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


class OptunaSearch:
    """Points of [-1, 1] per number, suggested by a sampler of Optuna."""

    def __init__(self, sampler: str, names: Sequence[str], seed: int, settings: int) -> None:
        self._optuna, self._names = load_optuna(sampler), list(names)
        samplers = self._optuna.samplers
        made = {
            "sobol": lambda: samplers.QMCSampler(qmc_type="sobol", scramble=True, seed=seed),
            # A third of the settings is spread before the model is trusted: its own default is 10.
            "tpe": lambda: samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=max(2, settings // 3)),
            "gp": lambda: samplers.GPSampler(seed=seed, n_startup_trials=max(2, settings // 3)),
        }
        with warnings.catch_warnings():  # "experimental": the interface is small, and a test holds it
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            chosen = made[sampler]()
        self._study = self._optuna.create_study(direction="maximize", sampler=chosen)
        uniform = self._optuna.distributions.FloatDistribution
        self._space = {name: uniform(-1.0, 1.0) for name in self._names}
        self._asked: list[tuple[list[float], Any]] = []

    def ask(self, count: int) -> list[list[float]]:
        """The next points; all of them are told before the next call."""
        found = []
        for _ in range(count):
            trial = self._study.ask(self._space)
            # Three digits, so that a setting in a file is the setting that was tried.
            point = [round(float(trial.params[name]), 3) for name in self._names]
            self._asked.append((point, trial))
            found.append(point)
        return found

    def tell(self, point: Sequence[float], score: float | None) -> None:
        """The score of a point, in the order of `ask`; a point that was not asked for is a start."""
        states = self._optuna.trial.TrialState
        if self._asked and self._asked[0][0] == list(point):
            trial = self._asked.pop(0)[1]
            self._study.tell(trial, score, state=states.COMPLETE if score is not None else states.FAIL)
        elif score is not None:
            params = dict(zip(self._names, point, strict=True))
            known = self._optuna.trial.create_trial(params=params, distributions=self._space, value=score)
            self._study.add_trial(known)
