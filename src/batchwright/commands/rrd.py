"""rrd: a reward model from recorded episodes."""

from __future__ import annotations

import json
from typing import Any

from batchwright.commands.parser import RECORDING, Parser, add_wishes
from batchwright.core.errors import UserError
from batchwright.planning.memory import show_bytes
from batchwright.planning.quantity import Plan


def rrd(words: list[str]) -> int:
    """`batchwright rrd DATA [...]`."""
    parser = Parser(
        prog="batchwright rrd",
        description="Learns rewards of single steps from the returns of recorded episodes, without an environment.",
        allow_abbrev=False,
    )
    add_wishes(parser, subject=RECORDING)
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept; runs/... when not stated")
    parser.add_argument("--show", action="store_true", help="only tell what the recording holds")
    parser.add_argument("--show-plan", action="store_true", help="print the whole plan before training")
    parser.add_argument("--quiet", action="store_true", help="only warnings and the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    stated = parser.read(words)
    data, preset, config = stated.pop("data"), stated.pop("preset"), stated.pop("config")
    run_dir, show, show_plan, quiet, as_json = (
        stated.pop(name) for name in ("run_dir", "show", "show_plan", "quiet", "json")
    )
    if data is None and config is None:
        raise UserError("rrd needs recorded episodes.", ["batchwright rrd FOLDER", "batchwright rrd --help"])
    if show:
        _show({"data": data, **stated}, preset, config, as_json)
        return 0

    from batchwright.api import prepare_reward, resume_reward
    from batchwright.commands.training import finish

    tell = _show_plan if show_plan and not as_json else None
    run = prepare_reward(data, preset=preset, config=config, run_dir=run_dir, on_plan=tell, **stated)
    return finish(lambda: resume_reward(run, quiet=quiet or as_json), as_json)


def _show_plan(plan: Plan) -> None:
    print(plan.explain(), plan.diagram(), sep="\n\n", end="\n\n")


def _show(flags: dict[str, Any], preset: str | None, config: str | None, as_json: bool) -> None:
    from batchwright.api import set_up_jax

    set_up_jax()
    from batchwright.config.load import resolve
    from batchwright.training.reward_data import find_data, summary

    told = summary(find_data(resolve(flags, preset, config), needs_returns=False))
    print(json.dumps(told, indent=2) if as_json else "\n".join(_summary_lines(told)))


def _summary_lines(told: dict[str, Any]) -> list[str]:
    length, returns = told["length"], told["returns"]
    width = max(len(key) for key in told["keys"])
    lines = [
        f"{told['path']}: {told['format']}",
        f"  {told['episodes']:,} episodes, {told['steps']:,} steps; lengths {length['min']} to {length['max']}, "
        f"mean {length['mean']:.4g}",
        _returns_line(returns),
        "",
        f"  {'key':<{width}}  {'part':<11}  {'used':<4}  {'stored as':<9}  {'memory':>10}  shape",
    ]
    for key, about in told["keys"].items():
        used = "yes" if about["used"] else "no"
        lines.append(
            f"  {key:<{width}}  {about['part']:<11}  {used:<4}  {about['dtype']:<9}  "
            f"{show_bytes(about['bytes']):>10}  {' x '.join(map(str, about['shape'])) or '1'}"
        )
    return [
        *lines,
        "",
        f"  keys of one number per step: {', '.join(told['per_step_keys']) or 'none'}",
        f"  memory of what is used: {show_bytes(told['bytes'])}",
    ]


def _returns_line(returns: dict[str, Any] | None) -> str:
    if returns is None:
        return "  returns: none recorded; --success-key KEY or --returns FILE brings them"
    return (
        f"  returns ({returns['from']}): mean {returns['mean']:.4g}, spread {returns['std']:.4g}, "
        f"median {returns['median']:.4g}, {returns['min']:.4g} to {returns['max']:.4g}"
    )
