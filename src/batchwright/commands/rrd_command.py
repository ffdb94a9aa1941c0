"""The command rrd: trains a reward model on recorded episodes, or online in an environment."""

from __future__ import annotations

import json
from typing import Any

from batchwright.commands.parser import RECORDING, Parser, add_settings
from batchwright.config.presets import PresetNames
from batchwright.core.errors import UserError
from batchwright.core.safe_open import checked_path
from batchwright.planning.memory import show_bytes
from batchwright.planning.plan import Plan


def rrd(words: list[str]) -> int:
    """`batchwright rrd DATA [...]` or `batchwright rrd ENV [...]`."""
    if words and names_environment(words[0]):
        return _online(words)
    parser = Parser(
        prog="batchwright rrd",
        description="Learns rewards of single steps from the returns of episodes: of recorded ones (DATA), or of those "
        "that an environment (ENV) gives to random actions or to the policy of another run. batchwright rrd ENV --help "
        "lists the flags of the second form.",
        allow_abbrev=False,
    )
    add_settings(parser, subject=RECORDING)
    _add_output(parser)
    parser.add_argument("--show", action="store_true", help="only show what the recording holds")
    stated = parser.read(words)
    data, preset, config = stated.pop("data"), stated.pop("preset"), stated.pop("config")
    run_dir, show, show_plan, quiet, as_json = (
        stated.pop(name) for name in ("run_dir", "show", "show_plan", "quiet", "json")
    )
    if data is None and config is None:
        raise UserError(
            "rrd needs recorded episodes or an environment.",
            ["batchwright rrd FOLDER", "batchwright rrd Pendulum-v1", "batchwright rrd --help"],
        )
    if show:
        _show({"data": data, **stated}, preset, config, as_json)
        return 0

    from batchwright.api import prepare_reward, resume_reward
    from batchwright.commands.train_commands import finish

    on_plan = _show_plan if show_plan and not as_json else None
    run = prepare_reward(data, preset=preset, config=config, run_dir=run_dir, on_plan=on_plan, **stated)
    return finish(lambda: resume_reward(run, quiet=quiet or as_json), as_json)


def names_environment(subject: str) -> bool:
    """Whether the first word names an environment: it is no flag and no path, and a catalogue knows it."""
    if subject.startswith("-") or checked_path(subject).exists():
        return False
    from batchwright.envs.catalog import describe

    try:
        describe(subject)
    except UserError:
        return False
    return True


def _online(words: list[str]) -> int:
    """Collects in an environment and learns the reward network alone."""
    parser = Parser(
        prog="batchwright rrd ENV",
        description="Collects with random actions, or with the policy of --collecting-run, and learns the rewards of "
        "single steps from the returns of the episodes. No policy is updated.",
        allow_abbrev=False,
    )
    add_settings(parser, leave_out=("dataset", "recorded", "hardware"))
    _add_output(parser)
    stated = parser.read(words)
    env, run_dir, show_plan, quiet, as_json = (
        stated.pop(name) for name in ("env", "run_dir", "show_plan", "quiet", "json")
    )

    from batchwright.api import prepare_online_reward, resume
    from batchwright.commands.train_commands import finish

    on_plan = _show_plan if show_plan and not as_json else None
    run = prepare_online_reward(env, run_dir=run_dir, quiet=quiet or as_json, on_plan=on_plan, **stated)
    return finish(lambda: resume(run, quiet=quiet or as_json), as_json)


def _add_output(parser: Parser) -> None:
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept; runs/... when not stated")
    parser.add_argument("--show-plan", action="store_true", help="print the whole plan before training")
    parser.add_argument("--quiet", action="store_true", help="print only warnings and the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")


def _show_plan(plan: Plan) -> None:
    print(plan.explain(), plan.diagram(), sep="\n\n", end="\n\n")


def _show(flags: dict[str, Any], preset: PresetNames, config: str | None, as_json: bool) -> None:
    from batchwright.api import set_up_jax

    set_up_jax()
    from batchwright.config.load import resolve
    from batchwright.reward.reward_data import find_data, summary

    about = summary(find_data(resolve(flags, preset, config), needs_returns=False))
    print(json.dumps(about, indent=2) if as_json else "\n".join(_summary_lines(about)))


def _summary_lines(about: dict[str, Any]) -> list[str]:
    length, returns = about["length"], about["returns"]
    width = max(len(key) for key in about["keys"])
    lines = [
        f"{about['path']}: {about['format']}",
        f"  {about['episodes']:,} episodes, {about['steps']:,} steps; lengths {length['min']} to {length['max']}, "
        f"mean {length['mean']:.4g}",
        _returns_line(returns),
        "",
        f"  {'key':<{width}}  {'part':<11}  {'used':<4}  {'stored as':<9}  {'memory':>10}  shape",
    ]
    for key, array in about["keys"].items():
        used = "yes" if array["used"] else "no"
        lines.append(
            f"  {key:<{width}}  {array['part']:<11}  {used:<4}  {array['dtype']:<9}  "
            f"{show_bytes(array['bytes']):>10}  {' x '.join(map(str, array['shape'])) or '1'}"
        )
    return [
        *lines,
        "",
        f"  keys of one number per step: {', '.join(about['per_step_keys']) or 'none'}",
        f"  memory of what is used: {show_bytes(about['bytes'])}",
    ]


def _returns_line(returns: dict[str, Any] | None) -> str:
    if returns is None:
        return "  returns: none recorded; add them with --success-key KEY or --returns FILE"
    return (
        f"  returns ({returns['from']}): mean {returns['mean']:.4g}, std {returns['std']:.4g}, "
        f"median {returns['median']:.4g}, {returns['min']:.4g} to {returns['max']:.4g}"
    )
