"""The command lerobot: plan, probe and train policies of LeRobot on recorded demonstrations."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from batchwright.commands.parser import Parser
from batchwright.config import schema, values
from batchwright.core.errors import UserError, unknown
from batchwright.lerobot.lerobot_versions import REPLACED_FLAGS

if TYPE_CHECKING:
    from batchwright.lerobot.lerobot_probe import LoaderReport, MemoryReport

SUBCOMMANDS = {
    "plan": "every number of a training, memory traced at the shapes of the data",
    "train": "LeRobot's own training with planned numbers; leaves a run directory",
    "probe": "measure the loader at several numbers of workers; with --memory, the memory of real updates",
}
LEFT_OUT = ("dataset", "env", "policy")


def lerobot(words: list[str]) -> int:
    """`batchwright lerobot plan|train|probe [...]`."""
    if not words or words[0] in ("-h", "--help"):
        lines = [
            "usage: batchwright lerobot COMMAND [...]",
            "",
            "Policies of LeRobot (ACT, SmolVLA) on recorded data.",
            "",
        ]
        lines += [f"  {name:<6} {summary}" for name, summary in SUBCOMMANDS.items()]
        print("\n".join([*lines, "", "batchwright lerobot COMMAND --help lists a command's flags."]))
        return 0
    if words[0] not in SUBCOMMANDS:
        raise unknown("command", words[0], SUBCOMMANDS, "batchwright lerobot")
    own, extra = _split(words[1:])
    return {"plan": _plan, "train": _train, "probe": _probe}[words[0]](own, extra)


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Our words, and those behind `--` for LeRobot; flags that do not exist here are answered with ours."""
    own, extra = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    for word in own:
        name = word.split("=")[0]
        if name in REPLACED_FLAGS and name != REPLACED_FLAGS[name]:
            raise UserError(f"{name} does not exist here.", [REPLACED_FLAGS[name]])
    return own, extra


def _parser(name: str) -> Parser:
    parser = Parser(prog=f"batchwright lerobot {name}", description=f"{SUBCOMMANDS[name]}.", allow_abbrev=False)
    parser.add_argument("--policy", choices=schema.POLICIES, help=schema.FIELDS["policy"].metadata["help"])
    parser.add_argument(
        "--dataset", nargs="+", default=(), metavar="DIR", help="datasets: folders, or names on the hub"
    )
    parser.add_argument(
        "--preset", nargs="+", metavar="NAME", help="named settings to start from (batchwright presets)"
    )
    parser.add_argument("--config", metavar="FILE", help="YAML file of settings")
    parser.add_argument(
        "--policy-path", metavar="DIR", help="a trained policy to start from: a folder, or a name on the hub"
    )
    parser.add_argument("--vlm", metavar="DIR", help="SmolVLA's vision-language model: a folder, or a name on the hub")
    parser.add_argument("--lerobot-python", metavar="PYTHON", help="the interpreter that has LeRobot (.venv-lerobot)")
    parser.add_argument("--hub-offline", action="store_true", help="ask no hub for anything")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    for section in ("dataset", "learning", "running", "hardware"):
        _add_section(parser, section)
    return parser


def _add_section(parser: Parser, section: str) -> None:
    fields = [
        name
        for name, owner in schema.SECTION_OF.items()
        if owner == section and schema.DATASET in schema.FIELDS[name].metadata["regimes"] and name not in LEFT_OUT
    ]
    fields += ["updates_per_iteration"] if section == "running" else []
    group = parser.add_argument_group(section)
    for name in fields:
        meta = schema.FIELDS[name].metadata
        if values.kind_of(name) is bool:
            group.add_argument(schema.flag_of(name), action=argparse.BooleanOptionalAction, help=meta["help"])
            continue
        shown = (
            "{" + ",".join(meta["choices"]) + "}" if meta["choices"] else "N" if values.kind_of(name) is int else "X"
        )
        group.add_argument(schema.flag_of(name), metavar=shown, help=meta["help"].replace("%", "%%"))


class Asked:
    """A command line, read: settings, datasets, interpreter."""

    def __init__(self, parser: Parser, own: list[str], extra: list[str], needs_lerobot: bool) -> None:
        from batchwright.config.load import resolve
        from batchwright.lerobot.lerobot_plan import make_request
        from batchwright.lerobot.lerobot_python import find_python

        stated = parser.read(own)
        self.as_json, names = stated.pop("json"), list(stated.pop("dataset"))
        preset, config, path = stated.pop("preset"), stated.pop("config"), stated.pop("lerobot_python")
        weights = [_weight(text) for text in stated.pop("weights", None) or ()]
        options = {name: stated.pop(name) for name in ("policy_path", "vlm")}
        self.stated = {name: stated.pop(name) for name in list(stated) if name not in schema.FIELDS}
        offline = self.stated.pop("hub_offline")
        if stated["policy"] is None and not preset and not config:
            stated["policy"] = "act"
        self.request = make_request(names, weights, extra=extra, offline=offline, **options)
        self.resolved = resolve({**stated, "dataset": ", ".join(names) or None}, preset, config)
        if self.resolved.config.regime != schema.DATASET:
            raise UserError(
                f"{self.resolved.config.algo} is no policy of LeRobot.", ["--policy act", "--policy smolvla"]
            )
        self.python = find_python(path) if needs_lerobot or path else _python_where_found()


def _python_where_found() -> Any:
    from batchwright.lerobot.lerobot_python import find_python

    try:
        return find_python(None)
    except UserError:
        return None


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UserError(f"--weights {text[:40]} is not a number.", ["--weights 2 1"]) from None


def _plan(own: list[str], extra: list[str]) -> int:
    parser = _parser("plan")
    parser.add_argument("--all", action="store_true", help="give every default its row and reason")
    parser.add_argument("--explain", action="store_true", help="show what larger and smaller values do")
    asked = Asked(parser, own, extra, needs_lerobot=False)
    plan = _make_plan(asked)

    from batchwright.lerobot.lerobot_run import shown_line

    line = shown_line(plan, asked.request)
    if asked.as_json:
        print(json.dumps(plan.to_dict() | {"lerobot_train": line}, indent=2))
        return 0
    print(plan.explain(asked.stated["all"]), plan.diagram(), f"without Batchwright:\n{line}", sep="\n\n")
    if asked.stated["explain"]:
        from batchwright.planning.explain import levers

        print("\n" + levers(plan.quantities))
    return 0


def _make_plan(asked: Asked) -> Any:
    from batchwright.core.machine import probe_machine
    from batchwright.lerobot.lerobot_plan import plan_lerobot
    from batchwright.lerobot.lerobot_versions import describe_version, find_version

    request, python = asked.request, asked.python
    plan = plan_lerobot(asked.resolved, probe_machine(), request, python)
    if python is None:
        print("note: no LeRobot was found; memory is that of a trace made before (make lerobot)", file=sys.stderr)
    elif find_version(python.version) is None:
        print(f"warning: {describe_version(python.version)}", file=sys.stderr)
    if plan.algo == "smolvla" and request.datasets and not (request.policy_path or request.vlm):
        print("note: SmolVLA starts from random weights here; --policy-path lerobot/smolvla_base", file=sys.stderr)
    return plan


def _train(own: list[str], extra: list[str]) -> int:
    parser = _parser("train")
    parser.add_argument("--weights", nargs="+", metavar="X", help="draw from several datasets by these weights")
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept; runs/... when not stated")
    parser.add_argument("--show-plan", action="store_true", help="print the whole plan before training")
    parser.add_argument("--quiet", action="store_true", help="print only warnings and the result")
    parser.add_argument("--writers", nargs="+", default=(), metavar="NAME", help="also csv, tensorboard, wandb, mlflow")
    asked = Asked(parser, own, extra, needs_lerobot=True)
    if not asked.request.datasets:
        raise UserError("train needs a dataset.", ["--dataset DIR", "--dataset USER/NAME"])

    from batchwright.lerobot.lerobot_run import prepare_run, shown_line
    from batchwright.watch.writers import check_writers

    writers = tuple(asked.stated["writers"])
    check_writers(writers)
    plan = _make_plan(asked)
    quiet = asked.stated["quiet"] or asked.as_json
    if asked.stated["show_plan"] and not asked.as_json:
        print(plan.explain(), plan.diagram(), sep="\n\n", end="\n\n")
    for warning in plan.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    run = prepare_run(asked.resolved, plan, asked.request, asked.python, asked.stated["run_dir"])
    if not quiet:
        print(f"run directory: {run}\nwithout Batchwright:\n{shown_line(plan, asked.request)}\n", flush=True)
    return finish_dataset_run(str(run), quiet, asked.as_json, asked.python.path, writers)


def finish_dataset_run(
    run: str, quiet: bool, as_json: bool, python: str | None = None, writers: tuple[str, ...] = ()
) -> int:
    """Trains a run to its end, leaves its report, prints the result; returns the exit code."""
    from batchwright.api import continue_dataset_run

    result = continue_dataset_run(run, python=python, quiet=quiet, writers=writers)
    if as_json:
        shown = {
            name: str(value) if name in ("run_dir", "checkpoint") else value for name, value in vars(result).items()
        }
        print(json.dumps(shown | {"interrupted": result.interrupted}))
    elif result.failure is not None:
        error = UserError(f"{result.failure}.", [f"batchwright resume {run}", "a smaller --samples-per-step"])
        print(f"error: {error}", file=sys.stderr)
    elif result.interrupted:
        print(f"interrupted after update {result.updates}; go on with: batchwright resume {run}")
    elif result.code == 0:
        loss = "" if result.loss is None else f"loss {result.loss:.4g} after "
        print(f"{loss}{result.updates:,} updates on {result.samples:,} samples; policy: {result.checkpoint}")
    return result.code


def _probe(own: list[str], extra: list[str]) -> int:
    parser = _parser("probe")
    # The setting `memory` is another one: that of recurrent policies.
    what = "measure the memory of real updates on this machine"
    parser.add_argument("--memory", action="store_true", dest="real_updates", help=what)
    parser.add_argument("--seconds", default="5", metavar="X", help="time of one measurement (5)")
    parser.add_argument("--loader-only", action="store_true", help="leave the update out: measure the loader alone")
    asked = Asked(parser, own, extra, needs_lerobot=True)

    from batchwright.lerobot import lerobot_probe

    report: LoaderReport | MemoryReport
    if asked.stated["real_updates"]:
        report = lerobot_probe.calibrate(asked.resolved, asked.request, asked.python)
    else:
        options = asked.stated["seconds"], asked.stated["loader_only"]
        report = lerobot_probe.probe(asked.resolved, asked.request, asked.python, *options)
    print(json.dumps(report.to_dict(), indent=2) if asked.as_json else str(report))
    return 0
