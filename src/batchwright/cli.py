"""The command `batchwright`: reads words, calls the library, prints; exits with 0 (done), 2 (bad input) or 130."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from batchwright import __version__
from batchwright.config import schema, values
from batchwright.core.errors import UserError, did_you_mean, unknown

BAD_INPUT = 2
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are ours: one message with the nearest words, raised and not printed."""

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
        return dict(vars(found))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot write is shown by its code
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(words)
        sys.stdout.flush()
        return code
    except UserError as error:
        if "--json" in words:
            print(json.dumps(error.to_json()))
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader (head, less) has gone: nothing more to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if words[0] == "--version":
        print(f"batchwright {__version__}")
        return 0
    if words[0] not in COMMANDS:
        raise unknown("command", words[0], COMMANDS, "batchwright")
    return COMMANDS[words[0]][0](words[1:])


def _overview() -> str:
    lines = [
        "batchwright: sizes, runs and explains every batch of policy training",
        "",
        "usage: batchwright COMMAND [...]",
        "",
    ]
    lines += [f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join([*lines, "", "batchwright COMMAND --help tells a command's flags."])


def _plan(words: list[str]) -> int:
    parser = _Parser(
        prog="batchwright plan", description="Plans every batch-like number without training.", allow_abbrev=False
    )
    _add_wishes(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--for", dest="trainer", choices=schema.TRAINERS, help="print the plan for another trainer")
    output.add_argument("--all", action="store_true", help="give every default its row and reason")
    output.add_argument("--explain", action="store_true", help="tell what larger and smaller do, for each number")
    output.add_argument("--json", action="store_true", help="print the plan as JSON")
    stated = parser.read(words)
    trainer, explain, everything, as_json = (stated.pop(name) for name in ("trainer", "explain", "all", "json"))
    preset, config_file = stated.pop("preset"), stated.pop("config")

    from batchwright.api import plan_resolved
    from batchwright.config.load import resolve
    from batchwright.core.machine import probe_machine

    plan = plan_resolved(resolve(stated, preset, config_file), probe_machine(), trainer)
    adapted = _adapter(trainer) if trainer else None
    if as_json:
        print(json.dumps(plan.to_dict() | ({"for": adapted.to_dict(plan)} if adapted else {}), indent=2))
        return 0
    if adapted:
        text = adapted.text(plan)
        for warning in plan.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        print(text)
        return 0
    print(plan.explain(everything), plan.diagram(), sep="\n\n")
    if explain:
        from batchwright.planning.explain import levers

        print("\n" + levers(plan))
    return 0


def _adapter(trainer: str) -> Any:
    import importlib

    return importlib.import_module(f"batchwright.adapters.{trainer}")


def _presets(words: list[str]) -> int:
    parser = _Parser(
        prog="batchwright presets", description="Lists presets, or shows one with its source.", allow_abbrev=False
    )
    parser.add_argument("action", nargs="?", help="'show', to print one")
    parser.add_argument("name", nargs="?", help="the preset to print")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    stated = parser.read(words)

    from batchwright.config.presets import preset_names, read_preset

    if stated["action"] is None:
        found = [read_preset(name) for name in preset_names()]
        if stated["json"]:
            print(json.dumps([{"name": p.name, "summary": p.summary, "source": p.source} for p in found], indent=2))
        else:
            width = max(len(p.name) for p in found)
            print("\n".join(f"{p.name:<{width}}  {p.summary}" for p in found))
        return 0
    if stated["action"] != "show" or stated["name"] is None:
        raise UserError(f"presets takes 'show NAME', got {' '.join(words)!r}.", ["batchwright presets show balanced"])
    preset = read_preset(stated["name"])
    record = {"name": preset.name, "summary": preset.summary, "source": preset.source, "values": dict(preset.values)}
    record |= {"corrections": list(preset.corrections), "result": preset.result}
    if stated["json"]:
        print(json.dumps(record, indent=2))
        return 0
    lines = [f"{preset.name}: {preset.summary}", f"source: {preset.source}", ""]
    lines += [
        f"  {name}: {json.dumps(value) if isinstance(value, bool) else value}" for name, value in preset.values.items()
    ]
    lines += ["", *(f"correction: {text}" for text in preset.corrections)] if preset.corrections else []
    lines += ["", f"measured: {preset.result}"] if preset.result else []
    print("\n".join(lines))
    return 0


def _envs(words: list[str]) -> int:
    parser = _Parser(prog="batchwright envs", description="Lists what can be trained here.", allow_abbrev=False)
    parser.add_argument("word", nargs="?", help="only names that contain this")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    stated = parser.read(words)

    from batchwright.envs.catalog import list_environments

    entries = list_environments(stated["word"])
    if not entries:
        known = {entry.name for entry in list_environments(None)}
        raise unknown("environment", str(stated["word"]), known, "batchwright envs")
    if stated["json"]:
        print(json.dumps([{"name": e.name, "engine": e.engine, "note": e.note} for e in entries], indent=2))
        return 0
    width = max(len(entry.name) for entry in entries)
    print("\n".join(f"{e.name:<{width}}  {e.engine:<10}  {e.note}".rstrip() for e in entries))
    return 0


def _add_wishes(parser: argparse.ArgumentParser) -> None:
    """A flag for every field of the schema, in the sections of the schema."""
    parser.add_argument("env", nargs="?", help=schema.FIELDS["env"].metadata["help"])
    parser.add_argument("--preset", help="named settings to start from (batchwright presets)")
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings")
    for section, cls in schema.SECTIONS.items():
        group = parser.add_argument_group(section, (cls.__doc__ or "").strip())
        for name in (field for field, owner in schema.SECTION_OF.items() if owner == section and field != "env"):
            meta = schema.FIELDS[name].metadata
            if values.kind_of(name) is bool:
                group.add_argument(schema.flag_of(name), action=argparse.BooleanOptionalAction, help=meta["help"])
                continue
            shown = (
                "{" + ",".join(meta["choices"]) + "}"
                if meta["choices"]
                else {int: "N", float: "X", tuple: "N,N", str: "NAME"}[values.kind_of(name)]
            )
            group.add_argument(schema.flag_of(name), metavar=shown, help=meta["help"].replace("%", "%%"))


COMMANDS: dict[str, tuple[Callable[[list[str]], int], str]] = {
    "plan": (_plan, "plan every batch-like number of a run, with its reason"),
    "presets": (_presets, "list presets, or show one with its source"),
    "envs": (_envs, "list the environments that can be trained here"),
}


if __name__ == "__main__":
    sys.exit(main())
