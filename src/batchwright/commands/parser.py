"""Parses command lines: flags are built from the schema, errors are UserErrors."""

from __future__ import annotations

import argparse
import difflib
from typing import Any, NoReturn

from batchwright.config import schema, values
from batchwright.config.presets import NO_PRESET, preset_names
from batchwright.core.errors import UserError, did_you_mean


class Parser(argparse.ArgumentParser):
    """argparse that raises UserError with the nearest flags instead of printing usage and exiting."""

    def error(self, message: str) -> NoReturn:
        words = message.removeprefix("unrecognized arguments: ").split()
        if message.startswith("unrecognized arguments") and words and words[0].startswith("-"):
            flags = [flag for action in self._actions for flag in action.option_strings]
            word = words[0].split("=")[0]
            close = did_you_mean(word, flags)
            hint = f" Did you mean {' or '.join(close)}?" if close else ""
            raise UserError(f"unknown flag {word}.{hint}", close or [f"{self.prog} --help"])
        raise UserError(f"{self.prog}: {message}.", [f"{self.prog} --help"])

    def read(self, words: list[str]) -> dict[str, Any]:
        """The stated values by name."""
        found, rest = self.parse_known_args(words)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        stated = dict(vars(found))
        if len(stated.get("preset") or ()) > 1:
            _give_back_subject(stated)
        return stated


ENVIRONMENT, RECORDING = "env", "data"
"""What the first word of a command names."""


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
            group.add_argument(schema.flag_of(name), metavar=shown, help=meta["help"].replace("%", "%%"))


def _goes_with(name: str, subject: str) -> bool:
    """Whether a field is a flag of the commands about environments, or of those about recordings."""
    if name == subject:
        return False
    regimes = schema.FIELDS[name].metadata["regimes"]
    return schema.RECORDED in regimes if subject == RECORDING else regimes != (schema.RECORDED,)


def whole(flag: str, text: str, least: int) -> int:
    """The whole number of a flag that is no setting of a run."""
    if not (text.isascii() and text.isdigit()) or int(text) < least or len(text) > 9:
        raise UserError(f"{flag} {text[:40]} is not a whole number of at least {least}.", [f"{flag} {max(least, 5)}"])
    return int(text)
