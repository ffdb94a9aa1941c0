"""A tuning as an Optuna study, for its dashboard and its plots: one trial for each setting that was tried."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.core.safe_open import checked_path
from batchwright.tuning.judging import SKIPPED
from batchwright.tuning.optuna_search import load_optuna
from batchwright.tuning.playbook import JUDGING_PHASE
from batchwright.tuning.tuning_ledger import LEDGER_FILE, UNIT, read_ledger

SQLITE = b"SQLite format 3\x00"
Line = Mapping[str, Any]


def check_export(path: str | Path) -> None:
    """Refuses, before anything is trained, a file that is no database."""
    load_optuna()
    place = checked_path(path)
    if place.is_dir() or not place.parent.is_dir():
        raise UserError(f"{place} is no file that can be written.", ["--export-optuna study.db"])
    if place.exists():
        with place.open("rb") as file:
            head = file.read(len(SQLITE))
        if head not in (b"", SQLITE):
            raise UserError(f"{place} exists and is no SQLite database.", ["--export-optuna another.db"])


def export_optuna(folder: Path, path: str | Path) -> str:
    """Writes the study of a tuning, finished or not, and returns its name; an older one of that name is replaced."""
    check_export(path)
    optuna = load_optuna()
    lines = read_ledger(folder / LEDGER_FILE)
    header = lines[0]
    units = sorted((line for line in lines if line["kind"] == UNIT), key=lambda unit: int(unit["unit"]))
    tried = _by_setting([unit for unit in units if unit["phase"] != JUDGING_PHASE and unit["status"] != SKIPPED])
    values = [{**header["defaults"], **group[0]["setting"]} for group in tried]
    spaces = {name: _distribution(optuna, [numbers[name] for numbers in values]) for name in header["defaults"]}
    storage, name = f"sqlite:///{checked_path(path).resolve()}", folder.resolve().name
    if name in optuna.get_all_study_names(storage):
        optuna.delete_study(study_name=name, storage=storage)
    study = optuna.create_study(study_name=name, storage=storage, direction="maximize")
    for key in ("env", "algo", "unit_steps", "objective"):
        study.set_user_attr(key, header[key])
    study.add_trials([_trial(optuna, *each, spaces) for each in zip(tried, values, strict=True)])
    return name


def _by_setting(units: Sequence[Line]) -> list[list[Line]]:
    groups: dict[str, list[Line]] = {}
    for unit in units:
        groups.setdefault(json.dumps(unit["setting"], sort_keys=True), []).append(unit)
    return list(groups.values())


def _trial(optuna: Any, units: Sequence[Line], numbers: Line, spaces: Mapping[str, Any]) -> Any:
    scores = [unit["score"] for unit in units]
    states = optuna.trial.TrialState
    failed = None in scores
    return optuna.trial.create_trial(
        state=states.FAIL if failed else states.COMPLETE,
        value=None if failed else math.fsum(scores) / len(scores),
        params={name: numbers[name] for name in spaces},
        distributions=dict(spaces),
        user_attrs={
            "phase": units[0]["phase"],
            "seeds": [unit["seed"] for unit in units],
            "scores": scores,
            "units": [unit["key"] for unit in units],
            "reasons": [unit["reason"] for unit in units if unit["reason"]],
        },
    )


def _distribution(optuna: Any, values: Sequence[Any]) -> Any:
    """From the lowest to the highest value that was tried; names and switches are categories."""
    kinds = optuna.distributions
    if any(isinstance(value, (bool, str)) or value is None for value in values):
        return kinds.CategoricalDistribution(list(dict.fromkeys(values)))
    if all(isinstance(value, int) for value in values):
        return kinds.IntDistribution(min(values), max(values))
    return kinds.FloatDistribution(float(min(values)), float(max(values)))
