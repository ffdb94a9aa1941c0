"""Parses command lines: flags are built from the schema, errors are UserErrors."""

from __future__ import annotations

import argparse
import difflib
import json
from typing import Any, NoReturn

from batchwright.commands.foreign_flags import foreign_flag_names, in_our_words
from batchwright.config import schema, values
from batchwright.config.presets import NO_PRESET, preset_names
from batchwright.core.errors import UserError, did_you_mean

LONGEST_MESSAGE = 400
"""Characters; a word of the user's may have thousands."""


class Parser(argparse.ArgumentParser):
    """argparse that raises UserError with the nearest flags instead of printing usage and exiting."""

    def error(self, message: str) -> NoReturn:
        message = message if len(message) <= LONGEST_MESSAGE else f"{message[:LONGEST_MESSAGE]}..."
        words = message.removeprefix("unrecognized arguments: ").split()
        if message.startswith("unrecognized arguments") and words and words[0].startswith("-"):
            flags = [flag for action in self._actions for flag in action.option_strings]
            flags = [flag for flag in flags if flag.replace("_", "-") == flag or flag.replace("_", "-") not in flags]
            word = words[0].split("=")[0]
            close = did_you_mean(word, [*flags, *foreign_flag_names(flags)])
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise UserError(f"unknown flag {word}.{hint}", close or [f"{self.prog} --help"])
        raise UserError(f"{self.prog}: {message}.", [f"{self.prog} --help"])

    def read(self, words: list[str]) -> dict[str, Any]:
        """The stated values by name."""
        options = [flag for action in self._actions for flag in action.option_strings]
        takes_env = any(action.dest == ENVIRONMENT and not action.option_strings for action in self._actions)
        found, rest = self.parse_known_args(in_our_words(words, options, takes_env))
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        stated = dict(vars(found))
        if len(stated.get("preset") or ()) > 1:
            _give_back_subject(stated)
        return stated


ENVIRONMENT, RECORDING = "env", "data"
"""What the first word of a command names."""


RL_GAMES_FLAGS = {
    "num_envs": ("--num_envs",),
    "rollout_steps": ("--horizon_length",),
    "minibatch_transitions": ("--minibatch_size",),
    "epochs": ("--mini_epochs",),
}
"""The words of rl_games and Isaac Lab for our settings; they work as flags too."""


MISTYPED = 0.8
"""A word this close to a preset's name is that name mistyped; CartPole-v1 is 0.7 from ppo-cartpole."""


def _give_back_subject(stated: dict[str, Any]) -> None:
    """In `--preset balanced CartPole-v1` the last word is the environment: --preset takes several names."""
    last, known = stated["preset"][-1], preset_names()
    subject = next((name for name in (ENVIRONMENT, RECORDING) if stated.get(name, last) is None), None)
    if (
        subject is not None
        and last not in (*known, NO_PRESET)
        and not difflib.get_close_matches(last, known, cutoff=MISTYPED)
    ):
        stated[subject] = stated["preset"].pop()


def add_settings(
    parser: argparse.ArgumentParser,
    leave_out: tuple[str, ...] = (),
    subject: str = ENVIRONMENT,
    subject_is_a_word: bool = True,
) -> None:
    """A flag for every field of the schema that goes with the subject, in the sections of the schema."""
    if subject_is_a_word:
        parser.add_argument(subject, nargs="?", help=schema.FIELDS[subject].metadata["help"])
    parser.add_argument(
        "--preset",
        nargs="+",
        metavar="NAME",
        help="named settings to start from (batchwright presets); of several, later ones win",
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings")
    for section, cls in schema.SECTIONS.items():
        if section in leave_out:
            continue
        names = [name for name, owner in schema.SECTION_OF.items() if owner == section and _goes_with(name, subject)]
        if not names:
            continue
        group = parser.add_argument_group(section, (cls.__doc__ or "").strip())
        for name in names:
            meta = schema.FIELDS[name].metadata
            if values.kind_of(name) is bool:
                group.add_argument(schema.flag_of(name), action=argparse.BooleanOptionalAction, help=meta["help"])
                continue
            if values.kind_of(name) is tuple and values.is_names(name):
                group.add_argument(schema.flag_of(name), nargs="+", metavar="NAME", help=meta["help"])
                continue
            shown = (
                "{" + ",".join(meta["choices"]) + "}"
                if meta["choices"]
                else {int: "N", float: "X", tuple: "N,N", str: "NAME"}[values.kind_of(name)]
            )
            flags = (schema.flag_of(name), *RL_GAMES_FLAGS.get(name, ()))
            group.add_argument(*flags, metavar=shown, help=meta["help"].replace("%", "%%"), action=_OneName)


class _OneName(argparse.Action):
    """Stores the value; two names of one setting with two values contradict each other."""

    said: tuple[str, Any] | None = None

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        if self.said is not None and self.said[0] != option and self.said[1] != values:
            first = f"{self.said[0]} {self.said[1]}"
            raise UserError(
                f"{first} and {option} {values} are the same setting with two values.", [first, f"{option} {values}"]
            )
        self.said = (str(option), values)
        setattr(namespace, self.dest, values)


def _goes_with(name: str, subject: str) -> bool:
    """Whether a field is a flag of the commands about environments, or of those about recordings."""
    if name == subject:
        return False
    regimes = schema.FIELDS[name].metadata["regimes"]
    return schema.RECORDED in regimes if subject == RECORDING else regimes != (schema.RECORDED,)


def add_env_kwargs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env-kwargs", nargs="+", metavar="KEY=VALUE", help="keyword arguments of the environment; values as in JSON"
    )


def env_kwargs_of(words: list[str] | None) -> dict[str, Any]:
    """Keyword arguments of an environment from words such as `continuous=true`."""
    found = {}
    for word in words or ():
        key, equals, value = word.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(
                f"--env-kwargs {word[:60]} is not KEY=VALUE.", ["--env-kwargs continuous=true gravity=-5.0"]
            )
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def whole(flag: str, text: str, least: int) -> int:
    """The whole number of a flag that is no setting of a run."""
    if not (text.isascii() and text.isdigit()) or int(text) < least or len(text) > 9:
        raise UserError(f"{flag} {text[:40]} is not a whole number of at least {least}.", [f"{flag} {max(least, 5)}"])
    return int(text)
