"""The command check: what another trainer does with a rollout and its minibatches, before it is started."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from importlib import metadata
from typing import Any, Protocol, cast

from batchwright.adapters import rl_games_check
from batchwright.adapters.batch_check import ACCEPTS, DROPS, Batches, Verdict, nearest_sound, numbers_of_config
from batchwright.adapters.foreign_config import read_foreign_config
from batchwright.adapters.rl_games_fit import DEFAULT_SEQ_LENGTH
from batchwright.commands.parser import Parser, whole
from batchwright.config.schema import CHECKED_TRAINERS
from batchwright.core.errors import UserError, unknown

NUMBERS = {
    "num_envs": "environments stepped side by side",
    "rollout_steps": "steps that each of them makes in a rollout",
    "minibatches": "minibatches of an epoch, for trainers that take their number",
    "minibatch_size": "rows of a minibatch, for trainers that take its size; unrolls for brax",
    "num_agents": "agents of an environment",
    "seq_length": "steps of a sequence, for networks with memory",
    "devices": "devices that share the environments (brax)",
    "central_minibatch_size": "rows of a minibatch of the central value network (rl_games)",
}
EPOCHS = "epochs"
EPOCH_WORDS = (
    "mini_epochs",
    "num_learning_epochs",
    "n_epochs",
    "learning_epochs",
    "num_updates_per_batch",
    "update_epochs",
)
"""The same in the words of the trainers."""
UNSOUND = 1


class Checker(Protocol):
    """A module of batchwright.adapters with the rule of one trainer."""

    TITLE: str
    TRIED: str
    PACKAGE: str | None
    WORDS: Mapping[str, str]
    KNOBS: tuple[str, ...]
    HOOK: str

    def check(self, batches: Batches) -> Verdict: ...


def check(words: list[str]) -> int:
    parser = Parser(
        prog="batchwright check",
        description="Says what another trainer does with these numbers: accepts, refuses, drops rows, or NaN.",
        allow_abbrev=False,
    )
    parser.add_argument("--for", dest="trainer", metavar="NAME", help=f"one of {', '.join(CHECKED_TRAINERS)}")
    parser.add_argument(
        "--config", metavar="FILE", help="the trainer's config (YAML or INI); flags replace its numbers"
    )
    for name, text in NUMBERS.items():
        parser.add_argument(_flag(name), metavar="N", help=text)
    parser.add_argument("--epochs", metavar="N", help="passes over a rollout: how often rows are trained on")
    parser.add_argument("--recurrent", action="store_true", help="the network has memory")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    trainer = _named_trainer(words)
    checker = cast(Checker, importlib.import_module(f"batchwright.adapters.{trainer}"))
    stated = parser.read(_in_our_words(words, checker.WORDS))
    batches = _batches(stated, checker)
    verdict = checker.check(batches)
    near = [] if verdict.outcome == ACCEPTS else nearest_sound(checker.check, batches, checker.KNOBS)
    epochs = None if stated[EPOCHS] is None else whole("--epochs", stated[EPOCHS], 1)
    if stated["json"]:
        print(json.dumps(_record(trainer, checker, verdict, near, epochs), indent=2))
    else:
        print(_text(checker, verdict, near, epochs))
    return 0 if verdict.outcome == ACCEPTS else UNSOUND


def _named_trainer(words: list[str]) -> str:
    """The word after --for; the other flags depend on it."""
    if "-h" in words or "--help" in words:
        return CHECKED_TRAINERS[0]
    joined = [word.removeprefix("--for=") for word in words if word.startswith("--for=")]
    after = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "--for"]
    named = [*joined, *after]
    if not named:
        raise UserError("check needs the name of a trainer.", [f"--for {name}" for name in CHECKED_TRAINERS])
    if named[-1] not in CHECKED_TRAINERS:
        raise unknown("trainer", named[-1], CHECKED_TRAINERS, "--for")
    return named[-1]


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _in_our_words(words: list[str], theirs: Mapping[str, str]) -> list[str]:
    """Flags in the trainer's own words, with underscores or dashes, become ours."""
    ours = {word: name for name, word in theirs.items()} | {name: name for name in NUMBERS}
    ours |= dict.fromkeys(EPOCH_WORDS, EPOCHS)
    found = []
    for word in words:
        name, is_joined, value = word.removeprefix("--").partition("=")
        known = ours.get(name.replace("-", "_")) if word.startswith("--") else None
        found.append(word if known is None else _flag(known) + is_joined + value)
    return found


def _batches(stated: dict[str, Any], checker: Checker) -> Batches:
    config = read_foreign_config(stated["config"]) if stated["config"] else {}
    numbers: dict[str, Any] = numbers_of_config(config, checker.WORDS)
    if checker.TITLE == rl_games_check.TITLE:
        numbers = {"seq_length": DEFAULT_SEQ_LENGTH} | numbers | _rl_games_extras(config)
    numbers |= {name: whole(_flag(name), stated[name], 1) for name in NUMBERS if stated[name] is not None}
    numbers["recurrent"] = bool(stated["recurrent"] or numbers.get("recurrent"))
    for name in ("num_envs", "rollout_steps"):
        if name not in numbers:
            word = checker.WORDS[name]
            place = f"{stated['config']} has no {word}, and " if stated["config"] else ""
            raise UserError(f"{place}{_flag(name)} is not stated.", [f"{_flag(name)} 16"])
    return Batches(**numbers)


def _rl_games_extras(config: Mapping[str, Any]) -> dict[str, Any]:
    """Its central value network has a minibatch of its own, and memory is a section of the network."""
    params = config.get("params") if isinstance(config.get("params"), Mapping) else {}
    section = (params or {}).get("config") or {}
    central = section.get("central_value_config") if isinstance(section, Mapping) else None
    found: dict[str, Any] = {"recurrent": "rnn" in ((params or {}).get("network") or {})}
    if isinstance(central, Mapping) and isinstance(central.get("minibatch_size"), int):
        found["central_minibatch_size"] = central["minibatch_size"]
    return found


def _version_note(checker: Checker) -> str | None:
    """A line where the installed version is not the one whose verdicts were compared."""
    if checker.PACKAGE is None:
        return None
    try:
        version = metadata.version(checker.PACKAGE)
    except metadata.PackageNotFoundError:
        return None
    if version == checker.TRIED:
        return None
    return f"{checker.TITLE} {version} is installed; the rule is that of {checker.TRIED}"


def _record(
    trainer: str, checker: Checker, verdict: Verdict, near: list[dict[str, int]], epochs: int | None
) -> dict[str, Any]:
    return {
        "trainer": trainer,
        "outcome": verdict.outcome,
        "detail": verdict.detail,
        "dropped_rows": verdict.dropped_rows,
        "epochs": epochs,
        "minibatch_rows": list(verdict.minibatch_rows),
        "nearest": [{checker.WORDS.get(name, name): value for name, value in change.items()} for change in near],
        "rule_of_version": checker.TRIED,
        "version_note": _version_note(checker),
    }


def _text(checker: Checker, verdict: Verdict, near: list[dict[str, int]], epochs: int | None) -> str:
    lines = [f"{checker.TITLE} {checker.TRIED}: {verdict.outcome}", f"  {verdict.detail}"]
    if epochs is not None and verdict.outcome == ACCEPTS:
        lines.append(f"  {epochs} epochs: every row is trained on {epochs} times in an iteration.")
    if epochs is not None and verdict.outcome == DROPS:
        lost = verdict.dropped_rows
        lines.append(f"  {epochs} epochs: {lost} x {epochs} = {lost * epochs} rows are not trained on in an iteration.")
    for change in near:
        lines += [f"  sound: {checker.WORDS.get(name, name)} {value}" for name, value in change.items()]
    note = _version_note(checker)
    return "\n".join([*lines, *([f"  note: {note}"] if note else [])])
