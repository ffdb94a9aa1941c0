"""The commands train and resume."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from batchwright.commands.parser import Parser, add_settings
from batchwright.commands.trust_question import add_trust, may_run_code
from batchwright.config.schema import FIELDS, flag_of
from batchwright.core.errors import UserError

if TYPE_CHECKING:
    from batchwright.planning.plan import Plan
    from batchwright.reward.reward_run import RewardResult
    from batchwright.runs.launch import Result

DIVERGED = 3
INTERRUPTED = 130


def train(words: list[str]) -> int:
    """`batchwright train ENV [...]`."""
    parser = Parser(prog="batchwright train", description="Plans, trains and evaluates.", allow_abbrev=False)
    add_settings(parser, leave_out=("dataset", "hardware"))
    _add_output(parser)
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept; runs/... when not stated")
    parser.add_argument("--show-plan", action="store_true", help="print the whole plan before training")
    stated = parser.read(words)
    env = stated.pop("env")
    if env is None:
        raise UserError("train needs an environment.", ["batchwright train CartPole-v1", "batchwright envs"])
    quiet, writers, as_json = (stated.pop(name) for name in ("quiet", "writers", "json"))
    run_dir, show_plan = stated.pop("run_dir"), stated.pop("show_plan")

    from batchwright.api import prepare, train_prepared
    from batchwright.watch.writers import check_writers

    check_writers(writers)
    show = _show_plan if show_plan and not as_json else None
    run = prepare(env, run_dir=run_dir, quiet=quiet or as_json, on_plan=show, **stated)
    return finish(lambda: train_prepared(run, quiet=quiet or as_json, writers=writers), as_json)


def _show_plan(plan: Plan) -> None:
    print(plan.explain(), plan.diagram(), sep="\n\n", end="\n\n")


def resume(words: list[str]) -> int:
    """`batchwright resume RUN`."""
    parser = Parser(
        prog="batchwright resume", description="Continues a run to the end of its plan.", allow_abbrev=False
    )
    parser.add_argument("run", help="the run's directory")
    _add_output(parser)
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="start a run anew that lost its checkpoints; its record is kept beside",
    )
    add_trust(parser)
    _refuse_numbers(words)
    stated = parser.read(words)

    from batchwright.api import is_reward_run, resume_reward
    from batchwright.api import resume as resume_run

    quiet, from_start = stated["quiet"] or stated["json"], stated["from_start"]
    if is_reward_run(stated["run"]):
        if stated["writers"]:
            raise UserError("--writers is for policies; a reward model has none.", ["leave out --writers"])
        return finish(lambda: resume_reward(stated["run"], quiet=quiet, from_start=from_start), stated["json"])
    trust = may_run_code(stated["run"], stated["trust"])
    allowed = {"trust": trust, "from_start": from_start}
    return finish(lambda: resume_run(stated["run"], quiet=quiet, writers=stated["writers"], **allowed), stated["json"])


def _refuse_numbers(words: list[str]) -> None:
    """Refuses settings when resuming: a run keeps the numbers of its plan, only its output may change."""
    flags = {word.split("=")[0] for word in words}
    stated = sorted(flags & {flag_of(name) for name in FIELDS} | flags & {"--preset", "--config"})
    if stated:
        raise UserError(
            f"{stated[0]} cannot change in a run that has begun: its numbers are those of its plan.json. "
            "--quiet, --json and --writers may change.",
            [f"leave out {stated[0]}", f"batchwright train ENV {stated[0]} ... --run-dir ANOTHER"],
        )


def _add_output(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print only warnings and the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    parser.add_argument(
        "--writers", nargs="+", default=(), metavar="NAME", help="also write metrics to csv, tensorboard, wandb"
    )


def finish(work: Callable[[], Result | RewardResult], as_json: bool) -> int:
    """Runs `work`, prints its result as JSON where asked; returns the exit code."""
    from batchwright.api import keep_programs

    keep_programs()  # before the next line, which imports JAX
    from batchwright.runs.loop import DivergedError

    try:
        # Progress lines must not mix with the JSON.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            result = work()
    except DivergedError as error:
        print(f"error: training diverged and could not be rescued: {error}.", file=sys.stderr)
        fixes = error.fixes or ("fix the environment's observations and rewards", "batchwright doctor --checklist")
        print(f"  fix: {'   or   '.join(fixes)}", file=sys.stderr)
        return DIVERGED
    if as_json:
        print(json.dumps({**asdict(result), "run_dir": str(result.run_dir)}))
    return INTERRUPTED if result.interrupted else 0
