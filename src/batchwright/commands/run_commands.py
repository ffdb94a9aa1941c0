"""The commands eval, export, prove and compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from batchwright.commands.parser import Parser, add_settings, whole
from batchwright.commands.train_commands import add_device, choose_device
from batchwright.commands.trust_question import add_trust, may_run_code
from batchwright.core.errors import UserError
from batchwright.core.run_dir import RUNS, RunDir
from batchwright.policies.video_formats import refuse_video_format

BAD_INPUT = 2


def eval(words: list[str]) -> int:
    """`batchwright eval RUN`."""
    parser = Parser(prog="batchwright eval", description="Plays episodes with a trained policy.", allow_abbrev=False)
    parser.add_argument("run", help="the run's directory")
    parser.add_argument("--episodes", default="20", metavar="N", help="episodes to play (20)")
    parser.add_argument("--seed", default="0", metavar="N", help="seed of the environments (0)")
    parser.add_argument("--stochastic", action="store_true", help="sample actions instead of taking the most likely")
    parser.add_argument(
        "--video",
        metavar="FILE",
        nargs="?",
        const="",
        help="also record a video of one episode (.mp4, .gif, .webp, .png; in the run directory when no file is named)",
    )
    parser.add_argument(
        "--checkpoint",
        default="last",
        metavar="NAME",
        help="last, best (by the evaluations of the run) or the number of an iteration (last)",
    )
    parser.add_argument("--json", action="store_true", help="print the statistics as JSON")
    add_trust(parser)
    add_device(parser)
    stated = parser.read(words)
    choose_device(stated["device"])
    if stated["video"]:
        refuse_video_format(stated["video"])
    episodes, seed = whole("--episodes", stated["episodes"], 1), whole("--seed", stated["seed"], 0)

    from batchwright.api import load
    from batchwright.watch.lines import evaluation_line

    trust = may_run_code(stated["run"], stated["trust"])
    policy = load(
        stated["run"],
        trust=trust,
        on_warning=lambda text: print(f"warning: {text}", file=sys.stderr),
        checkpoint=stated["checkpoint"],
    )
    found = policy.evaluate(episodes, seed, deterministic=not stated["stochastic"])
    print(
        json.dumps(found)
        if stated["json"]
        else f"{policy.env} after iteration {policy.iteration}: {evaluation_line(found)}",
        flush=True,
    )
    if stated["video"] is not None:
        from batchwright.policies.video import Video

        try:  # after the statistics, which it must not cost
            video = Video(policy, stated["video"] or f"{stated['run']}/episode.gif")
            print(f"video: {video.record(seed)}", file=sys.stderr)
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return BAD_INPUT
    return 0


def export(words: list[str]) -> int:
    """`batchwright export RUN --to onnx|numpy`."""
    parser = Parser(
        prog="batchwright export",
        description="Writes a trained policy as one file that runs without Batchwright.",
        allow_abbrev=False,
    )
    parser.add_argument("run", help="the run's directory")
    parser.add_argument("--to", default="onnx", metavar="{onnx,numpy}", help="kind of file (onnx)")
    parser.add_argument("--out", metavar="FILE", help="where to write; policy.onnx or policy.npz in the run directory")
    parser.add_argument(
        "--checkpoint", default="last", metavar="NAME", help="last, best or the number of an iteration (last)"
    )
    add_trust(parser)
    stated = parser.read(words)

    from batchwright.api import export as export_run

    trust = may_run_code(stated["run"], stated["trust"])
    files = export_run(stated["run"], stated["to"], stated["out"], checkpoint=stated["checkpoint"], trust=trust)
    print("\n".join(map(str, files)))
    return 0


def prove(words: list[str]) -> int:
    """`batchwright prove ENV [...]` or `batchwright prove RUN`."""
    parser = Parser(
        prog="batchwright prove",
        description="Runs twice in two processes; compares all logged values and the parameters of every iteration.",
        allow_abbrev=False,
    )
    add_settings(parser, leave_out=("dataset", "hardware"))
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    add_trust(parser)
    stated = parser.read(words)
    target, as_json, trust = (stated.pop(name) for name in ("env", "json", "trust"))
    if target is None:
        raise UserError("prove needs an environment or a run.", ["batchwright prove CartPole-v1 --total-steps 20000"])

    from batchwright.prove.determinism import is_run, prove_env, prove_run

    if not is_run(target) and _names_a_place(target):
        RunDir.open(target)  # a path of a run that is not there: refused with the nearest runs
    if is_run(target):
        given = [name for name, value in stated.items() if value is not None]
        if given:
            raise UserError(
                f"a run has its plan: --{given[0].replace('_', '-')} cannot change it.", [f"batchwright prove {target}"]
            )
        outcome = prove_run(target, may_run_code(target, trust))
    else:
        outcome = prove_env(target, **stated)
    print(json.dumps(outcome.to_dict()) if as_json else str(outcome))
    return 0 if outcome.identical else 1


def _names_a_place(target: str) -> bool:
    """Whether this is the path of a run that is not there, and no environment such as ALE/Pong-v5."""
    path = Path(target)
    return ":" not in target and len(path.parts) > 1 and (path.parent.is_dir() or path.parts[0] == str(RUNS))


def compare(words: list[str]) -> int:
    """`batchwright compare RUN RUN ...` or `batchwright compare ENV --presets NAME NAME ...`."""
    parser = Parser(
        prog="batchwright compare",
        description="Puts runs side by side, or trains presets at equal data and puts them side by side.",
        allow_abbrev=False,
    )
    parser.add_argument("targets", nargs="*", metavar="RUN", help="run directories; with --presets an environment")
    parser.add_argument("--presets", nargs="+", metavar="NAME", help="presets to train at equal data")
    parser.add_argument("--seeds", default=None, metavar="N", help="runs of each preset, with --presets (3)")
    parser.add_argument("--run-dir", metavar="DIR", help="where the runs of --presets are kept")
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_settings(parser, leave_out=("dataset", "hardware", "replay"), subject_is_a_word=False)
    stated = parser.read(words)
    targets, presets, as_json = (stated.pop(name) for name in ("targets", "presets", "json"))
    if presets is not None and not targets:
        targets, presets = _environment_among(presets)
    if not targets:
        raise UserError("compare needs runs.", ["batchwright compare RUN RUN", "batchwright compare ENV --presets A B"])
    if presets is None:
        return _compare_runs(targets, stated, as_json)
    if len(targets) != 1:
        raise UserError(
            f"--presets trains one environment, got {len(targets)}.", [f"batchwright compare {targets[0]} ..."]
        )
    if stated.pop("preset") or stated.pop("config"):
        raise UserError("--presets takes the place of --preset and --config.", [f"--presets {' '.join(presets)}"])

    from batchwright.prove import presets_compared

    seeds = whole("--seeds", stated.pop("seeds") or "3", 1)
    on_message = (lambda text: None) if as_json else print
    report = presets_compared.compare_presets(targets[0], presets, seeds, stated.pop("run_dir"), on_message, **stated)
    print(json.dumps(report, indent=2) if as_json else "\n" + presets_compared.to_text(report))
    return 0


def _environment_among(words: list[str]) -> tuple[list[str], list[str]]:
    """([environment], presets) of `--presets A B ENV`: the last word, where it is no preset."""
    from batchwright.config.presets import NO_PRESET, preset_names

    if len(words) > 2 and words[-1] not in (*preset_names(), NO_PRESET):
        return words[-1:], words[:-1]
    raise UserError(
        "--presets trains an environment: name it.", [f"batchwright compare CartPole-v1 --presets {' '.join(words)}"]
    )


def _compare_runs(runs: list[str], others: dict[str, Any], as_json: bool) -> int:
    given = [name for name, value in others.items() if value is not None]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        fix = f"batchwright compare {runs[0]} --presets balanced debugging {flag} ..."
        raise UserError(f"{flag} belongs to --presets; runs are compared as they are.", [fix])

    from batchwright.prove.side_by_side import side_by_side, to_text

    table = side_by_side(runs)
    print(json.dumps(table, indent=2) if as_json else to_text(table))
    return 0
