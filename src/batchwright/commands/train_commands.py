"""The commands train and resume."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from batchwright.commands.parser import Parser, add_env_kwargs, add_settings, env_kwargs_of, whole
from batchwright.commands.trust_question import add_trust, may_run_code
from batchwright.config.schema import FIELDS, flag_of
from batchwright.config.values import check
from batchwright.core.errors import UserError
from batchwright.core.seed_folder import is_seed_folder, seed_paths
from batchwright.runs.start_processes import (
    LOCAL,
    RAY,
    ProcessesFailed,
    ProcessPlace,
    is_worker,
    launched_place,
    refuse_place,
    run_processes,
)
from batchwright.tuning.tuning_ledger import is_tuning
from batchwright.watch.lines import LINES, PLAIN

if TYPE_CHECKING:
    from batchwright.planning.plan import Plan
    from batchwright.reward.reward_run import RewardResult
    from batchwright.runs.launch import Result
    from batchwright.tuning.seed_runs import SeedsResult

LENGTHS = ("total_steps", "total_episodes")
"""Settings that may change when a run is resumed."""
DIVERGED = 3
INTERRUPTED = 130


def train(words: list[str]) -> int:
    """`batchwright train ENV [...]`."""
    parser = Parser(prog="batchwright train", description="Plans, trains and evaluates.", allow_abbrev=False)
    add_settings(parser, leave_out=("dataset", "hardware"))
    _add_output(parser)
    add_env_kwargs(parser)
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is kept; runs/... when not stated")
    parser.add_argument("--show-plan", action="store_true", help="print the whole plan before training")
    add_device(parser)
    parser.add_argument("--seeds", metavar="N", help="train this setting over N seeds into one folder with one report")
    _add_workers(parser)
    add_launcher(parser)
    stated = parser.read(words)
    place = _launched(stated, stated["processes"])
    if place is not None and not is_worker():
        return _run_launched(["train", *words], place)
    if is_follower():
        return follow()
    env = stated.pop("env")
    if env is None:
        raise UserError("train needs an environment.", ["batchwright train CartPole-v1", "batchwright envs"])
    stated["env_kwargs"] = env_kwargs_of(stated["env_kwargs"])
    quiet, writers, as_json = (stated.pop(name) for name in ("quiet", "writers", "json"))
    run_dir, show_plan, lines = (stated.pop(name) for name in ("run_dir", "show_plan", "lines"))
    seeds, workers, device = (stated.pop(name) for name in ("seeds", "workers", "device"))
    where = {name: stated.pop(name) for name in ("on", "address")}
    refuse_place(**where)
    if lines != PLAIN and seeds is not None:
        raise UserError("--lines is for one run; of several seeds only the results are shown.", ["leave out --lines"])
    if device is not None and (stated["processes"] or "1") != "1":
        raise UserError(
            "--device is for one process; several choose theirs by JAX's variables.",
            ["JAX_PLATFORMS=cpu batchwright ...", "leave out --device"],
        )
    if workers is not None and seeds is None:
        raise UserError("--workers trains several seeds side by side.", [f"--seeds 5 --workers {workers}"])
    count, side_by_side = whole("--seeds", seeds, 1) if seeds else None, whole("--workers", workers or "1", 1)
    choose_device(device, side_by_side)

    from batchwright.api import prepare, resume_seeds, train_prepared
    from batchwright.watch.writers import check_writers

    check_writers(writers)
    show = _show_plan if show_plan and not as_json else None
    run = prepare(env, run_dir=run_dir, quiet=quiet or as_json, on_plan=show, seeds=count, **stated)
    if count is not None:
        options = {"quiet": quiet or as_json, "writers": writers, "workers": side_by_side}
        return finish_seeds(lambda: resume_seeds(run, trust=True, **options), as_json)
    return finish(lambda: train_prepared(run, quiet=quiet or as_json, writers=writers, lines=lines, **where), as_json)


def _show_plan(plan: Plan) -> None:
    print(plan.explain(), plan.diagram(), sep="\n\n", end="\n\n")


def resume(words: list[str]) -> int:
    """`batchwright resume RUN`."""
    _refuse_numbers(words)
    stated = _resume_parser().read(words)
    place = _launched(stated, stated["processes"])
    if place is not None and not is_worker():
        return _run_launched(["resume", *words], place)
    if is_follower():
        return follow()

    from batchwright.api import is_reward_run
    from batchwright.api import resume as resume_run
    from batchwright.lerobot.lerobot_run import is_dataset_run

    run, quiet = stated["run"], stated["quiet"] or stated["json"]
    if stated["device"] is not None and is_dataset_run(run):
        raise UserError("--device is for policies; LeRobot chooses by its own settings.", ["leave out --device"])
    choose_device(stated["device"], whole("--workers", stated["workers"] or "1", 1))
    refuse_place(stated["on"], stated["address"])
    if stated["on"] == RAY and (is_seed_folder(run) or is_dataset_run(run) or is_reward_run(run)):
        raise UserError(f"--on ray is for the processes of one policy's run; {run} is none.", ["leave out --on ray"])
    if is_seed_folder(run):
        return _resume_seeds(run, stated, quiet)
    if is_tuning(run):
        raise UserError(f"{run} holds a tuning.", [f"batchwright tune --resume {run}"])
    if stated["workers"] is not None:
        raise UserError("--workers trains several seeds side by side; this is one run.", ["leave out --workers"])
    if is_dataset_run(run):
        return _resume_dataset(run, stated, quiet)
    if is_reward_run(run):
        return _resume_reward(run, stated, quiet)
    allowed: dict[str, Any] = {"trust": may_run_code(run, stated["trust"]), "from_start": stated["from_start"]}
    allowed |= {**_lengths(stated), "lines": stated["lines"], "on": stated["on"], "address": stated["address"]}
    allowed["processes"] = None if stated["processes"] is None else whole("--processes", stated["processes"], 1)
    return finish(lambda: resume_run(run, quiet=quiet, writers=stated["writers"], **allowed), stated["json"])


def _resume_parser() -> Parser:
    parser = Parser(
        prog="batchwright resume", description="Continues a run to the end of its plan.", allow_abbrev=False
    )
    parser.add_argument("run", help="the run's directory, or a folder of several seeds")
    _add_output(parser)
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="start a run anew that lost its checkpoints; its record is kept beside",
    )
    add_trust(parser)
    add_device(parser)
    _add_workers(parser)
    add_launcher(parser)
    parser.add_argument(
        "--processes", metavar="N", help="processes that go on with the run; as planned when not stated"
    )
    for name in LENGTHS:
        text = "make the run longer, or shorter: its new length in all"
        parser.add_argument(flag_of(name), metavar="N", help=f"{text} {name.removeprefix('total_')}")
    return parser


def _resume_seeds(run: str, stated: dict[str, Any], quiet: bool) -> int:
    from batchwright.api import extend, resume_seeds

    if stated["lines"] != PLAIN:
        raise UserError("--lines is for one run; this is a folder of several.", ["leave out --lines"])
    if stated["from_start"]:
        raise UserError("--from-start is for one run.", [f"batchwright resume {run}/seed-0 --from-start"])
    trust = may_run_code(str(seed_paths(run)[0]), stated["trust"])
    for number, seed_run in enumerate(seed_paths(run)):
        extend(seed_run, **_lengths(stated), quiet=quiet or number > 0, trust=trust)
    workers = whole("--workers", stated["workers"] or "1", 1)
    options: dict[str, Any] = {"quiet": quiet, "writers": stated["writers"], "workers": workers}
    return finish_seeds(lambda: resume_seeds(run, trust=trust, **options), stated["json"])


def _resume_dataset(run: str, stated: dict[str, Any], quiet: bool) -> int:
    from batchwright.commands.lerobot_command import finish_dataset_run
    from batchwright.watch.writers import check_writers

    if stated["from_start"] or _lengths(stated) or stated["lines"] != PLAIN:
        raise UserError("--from-start, --lines and new lengths are not for runs on recorded data.", ["leave them out"])
    check_writers(stated["writers"])
    return finish_dataset_run(run, quiet, stated["json"], writers=tuple(stated["writers"]))


def _resume_reward(run: str, stated: dict[str, Any], quiet: bool) -> int:
    from batchwright.api import resume_reward

    if stated["lines"] != PLAIN:
        raise UserError("--lines is for policies; a reward model has its own.", ["leave out --lines"])
    if lengths := _lengths(stated):
        flag = flag_of(next(iter(lengths)))
        raise UserError(f"{flag} is for policies; {run} is the run of a reward model.", [f"leave out {flag}"])
    if stated["writers"]:
        raise UserError("--writers is for policies; a reward model has none.", ["leave out --writers"])
    return finish(lambda: resume_reward(run, quiet=quiet, from_start=stated["from_start"]), stated["json"])


def _lengths(stated: dict[str, Any]) -> dict[str, int]:
    """The new length of a run, where one is stated."""
    return {name: check(name, stated[name], flag_of(name)) for name in LENGTHS if stated[name] is not None}


def _refuse_numbers(words: list[str]) -> None:
    """Refuses settings when resuming: a run keeps the numbers of its plan, only its length and output may change."""
    flags = {word.split("=")[0] for word in words}
    settings = {flag_of(name) for name in FIELDS if name not in (*LENGTHS, "processes")}
    stated = sorted(flags & settings | flags & {"--preset", "--config"})
    if stated:
        raise UserError(
            f"{stated[0]} cannot change in a run that has begun: its numbers are those of its plan.json. "
            "--total-steps, --processes, --quiet, --json and --writers may change.",
            [f"leave out {stated[0]}", f"batchwright train ENV {stated[0]} ... --init-from RUN"],
        )


def _add_output(parser: Parser) -> None:
    parser.add_argument("--quiet", action="store_true", help="print only warnings and the result")
    parser.add_argument("--json", action="store_true", help="print the result as JSON, nothing else")
    parser.add_argument(
        "--lines",
        choices=LINES,
        default=PLAIN,
        help="how iterations are shown: in our words, or in those of rl_games and batch training (plain)",
    )
    parser.add_argument(
        "--writers", nargs="+", default=(), metavar="NAME", help="also write metrics to csv, tensorboard, wandb, mlflow"
    )


def add_launcher(parser: Parser) -> None:
    parser.add_argument("--coordinator", metavar="HOST:PORT", help="where process 0 listens; stated by a launcher")
    parser.add_argument("--process-id", metavar="K", help="number of this process, from 0; stated by a launcher")
    parser.add_argument("--on", metavar="PLACE", help="where --processes run: local, or ray for a cluster (local)")
    parser.add_argument("--address", metavar="HOST:PORT", help="of the Ray cluster; the one of this machine else")


def _launched(stated: dict[str, Any], processes: str | None) -> ProcessPlace | None:
    """The process that a launcher starts with this command; None where there is no launcher."""
    coordinator, number = (stated.pop(name) for name in ("coordinator", "process_id"))
    if stated["on"] not in (None, LOCAL) and (coordinator is not None or number is not None):
        raise UserError(
            f"--on {stated['on'][:20]} places processes itself; --coordinator, --process-id are those of a launcher.",
            ["leave out --on", "leave out --coordinator and --process-id"],
        )
    return launched_place(coordinator, number, None if processes is None else whole("--processes", processes, 1))


def _run_launched(words: list[str], place: ProcessPlace) -> int:
    """Runs a command in the one process that belongs here; returns its exit code."""
    try:
        run_processes(words, place)
    except ProcessesFailed as error:
        if error.said:
            return error.code
        raise
    return 0


def is_follower() -> bool:
    """Whether this is one of several processes that train together, and not the first."""
    if not is_worker():
        return False
    from batchwright.runs.process_group import current_group

    return not current_group().is_first


def follow() -> int:
    from batchwright.api import train_as_follower

    return train_as_follower()


def add_device(parser: Parser) -> None:
    parser.add_argument("--device", metavar="NAME", help="device to compute on: cpu, gpu, gpu:1 (JAX's first)")


def choose_device(name: str | None, processes: int = 1) -> None:
    """Takes the device that was asked for; seeds side by side are processes of their own."""
    if name is None:
        return
    if processes > 1:
        raise UserError(
            "--device is for one process; seeds side by side choose theirs by JAX's variables.",
            ["JAX_PLATFORMS=cpu batchwright ...", "leave out --workers"],
        )
    from batchwright.api import keep_programs

    keep_programs()  # before JAX is imported
    from batchwright.runs.devices import use_device

    use_device(name)


def _add_workers(parser: Parser) -> None:
    parser.add_argument("--workers", metavar="N", help="seeds trained side by side, each in a process of its own (1)")


def finish_seeds(work: Callable[[], SeedsResult], as_json: bool) -> int:
    """Trains one setting over seeds, prints the result; returns the exit code."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        result = work()
    if as_json:
        print(json.dumps({**asdict(result), "run_dir": str(result.run_dir)}))
    elif result.iqm is not None:
        low, high = result.iqm_interval or (result.iqm, result.iqm)
        count = sum(run["score"] is not None for run in result.runs)
        print(f"return of {count} seeds: IQM {result.iqm:,.1f}, 95% interval {low:,.1f} to {high:,.1f}")
    if result.interrupted:
        print(f"interrupted; go on with: batchwright resume {result.run_dir}", file=sys.stderr)
        return INTERRUPTED
    return DIVERGED if any(run["status"] != "finished" for run in result.runs) else 0


def finish(work: Callable[[], Result | RewardResult], as_json: bool) -> int:
    """Runs `work`, prints its result as JSON where asked; returns the exit code."""
    from batchwright.api import keep_programs

    keep_programs()  # before the next line, which imports JAX
    from batchwright.runs.loop import DivergedError

    try:
        # Progress lines must not mix with the JSON.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            result = work()
    except ProcessesFailed as error:
        if error.said:
            return error.code
        raise
    except DivergedError as error:
        print(f"error: training diverged and could not be rescued: {error}.", file=sys.stderr)
        fixes = error.fixes or ("fix the environment's observations and rewards", "batchwright doctor --checklist")
        print(f"  fix: {'   or   '.join(fixes)}", file=sys.stderr)
        return DIVERGED
    if as_json:
        print(json.dumps({**asdict(result), "run_dir": str(result.run_dir)}))
    return INTERRUPTED if result.interrupted else 0
