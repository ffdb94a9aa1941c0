"""The commands plan, presets and envs: everything that needs no training."""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any, Protocol, cast

from batchwright.commands.parser import Parser, add_settings
from batchwright.config import schema
from batchwright.core.errors import UserError, did_you_mean, quoted, unknown

if TYPE_CHECKING:
    from batchwright.planning.plan import Plan


def plan(words: list[str]) -> int:
    parser = Parser(
        prog="batchwright plan", description="Plans every batch-like number without training.", allow_abbrev=False
    )
    add_settings(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--for", dest="trainer", choices=schema.TRAINERS, help="print the plan for another trainer")
    output.add_argument("--all", action="store_true", help="give every default its row and reason")
    output.add_argument(
        "--explain", action="store_true", help="show what larger and smaller values do, for each setting"
    )
    output.add_argument(
        "--forecast", action="store_true", help="say how long training takes here: trains for a second, keeps nothing"
    )
    output.add_argument("--json", action="store_true", help="print the plan as JSON")
    stated = parser.read(words)
    if stated.pop("forecast"):
        return _forecast(stated)
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

        print("\n" + levers(plan.quantities))
    return 0


def _forecast(stated: dict[str, Any]) -> int:
    """`batchwright plan ENV --forecast`: the plan of `train` on this machine and how long it takes."""
    trainer, explain, everything, as_json = (stated.pop(name) for name in ("trainer", "explain", "all", "json"))
    env = stated.pop("env")
    if env is None or trainer is not None or explain:
        wrong = "no environment is named" if env is None else "another flag asks for another output"
        raise UserError(
            f"--forecast times our own training of an environment: {wrong}.", ["plan CartPole-v1 --forecast"]
        )
    from batchwright.api import forecast
    from batchwright.runs.time_forecast import forecast_line, to_json

    plan, speed, source = forecast(env, quiet=as_json, **stated)
    if as_json:
        print(json.dumps(plan.to_dict() | {"forecast": to_json(plan, speed, source)}, indent=2))
    else:
        print(plan.explain(everything), plan.diagram(), forecast_line(plan, speed, source), sep="\n\n")
    return 0


class Adapter(Protocol):
    """A module of batchwright.adapters: a plan in the form that another trainer reads."""

    def text(self, plan: Plan) -> str: ...

    def to_dict(self, plan: Plan) -> dict[str, Any]: ...


def _adapter(trainer: str) -> Adapter:
    return cast(Adapter, importlib.import_module(f"batchwright.adapters.{trainer}"))


def presets(words: list[str]) -> int:
    parser = Parser(
        prog="batchwright presets", description="Lists presets, or shows one with its source.", allow_abbrev=False
    )
    parser.add_argument("action", nargs="?", help="'show', to print one")
    parser.add_argument("name", nargs="?", help="the preset to print, or its file")
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
        near = (did_you_mean(stated["action"], preset_names(), 1) or ["balanced"])[0]
        got = " ".join(word for word in (stated["action"], stated["name"]) if word is not None)
        raise UserError(f"presets takes 'show NAME', got {quoted(got)}.", [f"batchwright presets show {near}"])
    preset = read_preset(stated["name"])
    record = {"name": preset.name, "summary": preset.summary, "source": preset.source, "values": dict(preset.values)}
    record |= {"corrections": list(preset.corrections), "result": preset.result}
    record |= {"certificate": dict(preset.certificate)} if preset.certificate else {}
    if stated["json"]:
        print(json.dumps(record, indent=2))
        return 0
    lines = [f"{preset.name}: {preset.summary}", f"source: {preset.source}", ""]
    lines += [
        f"  {name}: {json.dumps(value) if isinstance(value, bool) else value}" for name, value in preset.values.items()
    ]
    lines += ["", *(f"correction: {text}" for text in preset.corrections)] if preset.corrections else []
    lines += ["", f"measured: {preset.result}"] if preset.result else []
    lines += ["", "certificate:"] if preset.certificate else []
    lines += [f"  {name}: {json.dumps(value)}" for name, value in preset.certificate.items()]
    print("\n".join(lines))
    return 0


def envs(words: list[str]) -> int:
    parser = Parser(prog="batchwright envs", description="Lists what can be trained here.", allow_abbrev=False)
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
