"""The command tune."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from batchwright.commands.parser import Parser, add_settings, whole
from batchwright.commands.train_commands import INTERRUPTED
from batchwright.commands.trust_question import add_trust
from batchwright.core.errors import UserError

if TYPE_CHECKING:
    from batchwright.tuning.tuning_flow import TuneResult


def tune(words: list[str]) -> int:
    """`batchwright tune ENV [...]` or `batchwright tune --resume DIR`."""
    stated = _parser().read(words)
    as_json, quiet, resume = stated.pop("json"), stated.pop("quiet"), stated.pop("resume")
    workers, trust = stated.pop("workers"), stated.pop("trust")
    place = {"on": stated.pop("on") or "local", "address": stated.pop("address")}
    place["export_optuna"] = stated.pop("export_optuna")
    place["workers"] = None if workers is None else whole("--workers", workers, 1)
    if resume is not None:
        given = [name for name, value in stated.items() if value not in (None, False, [])]
        if given:
            flag = "ENV" if given[0] == "env" else f"--{given[0].replace('_', '-')}"
            raise UserError(
                f"{flag} cannot change in a tuning that has begun; --workers, --on, --address, --export-optuna, "
                "--quiet and --json may.",
                [f"batchwright tune --resume {resume}"],
            )
    elif trust:
        raise UserError("--trust is for a tuning that is resumed.", ["leave out --trust"])
    elif stated["env"] is None:
        raise UserError("tune needs an environment.", ["batchwright tune CartPole-v1", "batchwright envs"])

    from batchwright import api

    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        if resume is not None:
            result: TuneResult | None = api.resume_tuning(resume, quiet=quiet, trust=trust, **place)
        else:
            options = _options(stated)
            result = api.tune(quiet=quiet, **place, **options, **_settings(stated))
    if result is None:
        return 0
    if as_json:
        shown = {**asdict(result), "run_dir": str(result.run_dir)}
        print(json.dumps(shown | {"preset": str(result.preset) if result.preset else None}))
    else:
        print(result_text(result))
    return INTERRUPTED if result.interrupted else 0


def _parser() -> Parser:
    parser = Parser(
        prog="batchwright tune",
        description="Finds better settings within a budget and judges them on fresh seeds. Stated numbers stay fixed; "
        "--total-steps is the length of one training.",
        allow_abbrev=False,
    )
    add_settings(parser, leave_out=("dataset", "hardware"))
    parser.add_argument("--budget", metavar="TIME", help="time to spend, such as 90s, 30m or 2h (30m)")
    parser.add_argument("--budget-steps", metavar="N", help="environment steps to spend instead, such as 200k or 5M")
    parser.add_argument("--phases", nargs="+", default=[], metavar="LETTER", help="only these phases: A B C D E")
    parser.add_argument("--space", metavar="FILE", help="YAML file of phases, numbers and values to try")
    parser.add_argument(
        "--fix", nargs="+", default=[], metavar="NAME=VALUE", help="numbers that are not tuned; the same as their flags"
    )
    parser.add_argument(
        "--search",
        metavar="NAME",
        help="joint search around the best: surface, local, none, or Optuna's sobol, tpe, gp (surface)",
    )
    parser.add_argument("--tune-seeds", metavar="N", help="seeds of each setting while tuning (1 or 2, by the budget)")
    parser.add_argument("--judge-seeds", metavar="N", help="fresh seeds that judge the best settings (5)")
    parser.add_argument("--on", metavar="PLACE", help="where units are trained: local, or ray for a cluster (local)")
    parser.add_argument("--address", metavar="HOST:PORT", help="of the Ray cluster; the one of this machine else")
    parser.add_argument(
        "--workers", metavar="N", help="units trained side by side (1; on ray all that the cluster has cores for)"
    )
    parser.add_argument("--export-optuna", metavar="FILE", help="write the tuning as an Optuna study too: SQLite")
    parser.add_argument("--run-dir", metavar="DIR", help="where the tuning is kept; runs/... when not stated")
    parser.add_argument("--resume", metavar="DIR", help="go on with a tuning")
    add_trust(parser)
    parser.add_argument("--dry-run", action="store_true", help="print the forecast, tune nothing")
    parser.add_argument("--quiet", action="store_true", help="print only the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    return parser


def _options(stated: dict[str, Any]) -> dict[str, Any]:
    """The options of a tuning, taken out of what was stated."""
    found = {name: stated.pop(name) for name in ("budget", "budget_steps", "phases", "space", "run_dir", "dry_run")}
    found["search"] = stated.pop("search") or "surface"
    judge, tuning = stated.pop("judge_seeds"), stated.pop("tune_seeds")
    found["judge_seeds"] = whole("--judge-seeds", judge or "5", 1)
    return found | {"tune_seeds": whole("--tune-seeds", tuning, 1) if tuning else None}


def _settings(stated: dict[str, Any]) -> dict[str, Any]:
    """Settings of the schema, those of --fix among them."""
    for text in stated.pop("fix"):
        name, equals, value = text.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in stated or name == "env":
            raise UserError(f"--fix {text[:60]!r} is not NAME=VALUE with a number of a run.", ["--fix gamma=0.99"])
        if stated[name] is not None:
            raise UserError(f"--fix {text[:60]!r} and its flag both state {name}.", ["leave out one of them"])
        stated[name] = value
    return stated


def result_text(result: TuneResult) -> str:
    """The verdict as a table."""
    from batchwright.tuning.settings_text import show_setting

    cost = f"{result.units} units, {result.env_steps:,} steps, {result.seconds / 60:.1f} minutes of training"
    if result.failed_units:
        cost += f"; {result.failed_units} of them failed (batchwright report {result.run_dir})"
    if result.verdict is None:
        return f"{cost}\ngo on with: batchwright tune --resume {result.run_dir}"
    head = ("setting", "IQM", "95% interval", "last return", "P(better)", "interval", "p", "tuning - judging")
    rows = [head, *(_cells(row, show_setting(row["setting"])) for row in result.verdict["rows"])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    table = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    outcome = "no winner" if result.verdict["winner"] is None else f"winner: {show_setting(result.best)}"
    lines = [*table, "", f"{outcome}: {result.verdict['reason']}", cost]
    if result.preset is not None:
        lines.append(f"preset: {result.preset}   use it with: batchwright train ENV --preset {result.preset}")
    return "\n".join(lines)


def _cells(row: dict[str, Any], label: str) -> tuple[str, ...]:
    def number(value: float | None, digits: str = ",.4g") -> str:
        return "-" if value is None else format(value, digits)

    def pair(value: list[float] | None, digits: str) -> str:
        return "-" if value is None else f"{value[0]:{digits}} to {value[1]:{digits}}"

    return (
        label,
        number(row["iqm"]),
        pair(row["iqm_interval"], ",.4g"),
        number(row["final_iqm"]),
        number(row["probability"], ".2f"),
        pair(row["probability_interval"], ".2f"),
        number(row["p_value"], ".3f"),
        number(row["fell"]),
    )
