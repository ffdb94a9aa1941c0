"""The command `batchwright`. Exit codes: 0 done, 1 not equal or unexpected, 2 bad input, 3 diverged, 130 stopped."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from batchwright import __version__
from batchwright.core.errors import UserError, unknown
from batchwright.core.files import write_atomically
from batchwright.core.run_dir import locked_last
from batchwright.envs.failures import say_ignored

UNEXPECTED = 1
BAD_INPUT = 2
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a name that the terminal cannot write is shown by its code
            stream.reconfigure(errors="backslashreplace")
    sys.unraisablehook = say_ignored
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
        # The reader (head, less) has gone: nothing more to print, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted.", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        return _unexpected(error, words)


def _unexpected(error: Exception, words: list[str]) -> int:
    """One line for an error that nobody foresaw; its traceback goes to a file of the run, or a temporary one."""
    content = f"batchwright {shlex.join(words)}\n\n{''.join(traceback.format_exception(error))}"
    text = (str(error).splitlines() or [""])[0][:300]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    kept = _keep_traceback(content)
    shown = f"{message}. This is a fault of the environment or of Batchwright."
    if "--json" in words:
        print(json.dumps({"error": shown, "fixes": [], "traceback": kept}))
    print(f"error: {shown} Traceback: {kept or 'it could not be written'}", file=sys.stderr)
    return UNEXPECTED


def _keep_traceback(content: str) -> str | None:
    """Writes a traceback into the run that this process trained last, else into the folder of temporary files."""
    name = f"traceback-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    run = locked_last()
    for folder in ([run] if run is not None else []) + [Path(tempfile.gettempdir())]:
        with contextlib.suppress(OSError, UserError):
            write_atomically(folder / name, content.encode(errors="backslashreplace"))
            return str(folder / name)
    return None


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_overview())
        return 0
    if words[0] == "--version":
        print(f"batchwright {__version__}")
        return 0
    if words[0] in OTHER_WORDS:
        meant = OTHER_WORDS[words[0]]
        raise UserError(f"unknown command {words[0]!r}. Here it is {meant}.", [f"batchwright {meant}"])
    if words[0] not in COMMANDS:
        raise unknown("command", words[0], COMMANDS, "batchwright")
    module, _ = COMMANDS[words[0]]
    command = getattr(importlib.import_module(f"batchwright.commands.{module}"), words[0].replace("-", "_"))
    return int(command(words[1:]))


def _overview() -> str:
    lines = [
        "batchwright: sizes, runs and explains every batch of policy training",
        "",
        "usage: batchwright COMMAND [...]",
        "",
    ]
    lines += [f"  {name:<10} {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join([*lines, "", "batchwright COMMAND --help lists a command's flags."])


# Command -> (module of batchwright.commands, summary); imported when it is called, so that each starts at once.
COMMANDS: dict[str, tuple[str, str]] = {
    "plan": ("plan_commands", "plan every batch-like number of a run, with its reason"),
    "train": ("train_commands", "plan, train, evaluate; leaves a run directory"),
    "check": ("check_command", "say what another trainer does with a rollout and its minibatches"),
    "resume": ("train_commands", "continue a run from its last good checkpoint"),
    "tune": ("tune_command", "find better settings within a budget, judged on fresh seeds"),
    "eval": ("run_commands", "play episodes with a trained policy, exploration off"),
    "export": ("run_commands", "write a trained policy as one ONNX or NumPy file"),
    "prove": ("run_commands", "run twice in two processes and name the first difference"),
    "compare": ("run_commands", "put runs side by side, or train presets at equal data"),
    "watch": ("view_commands", "show runs live in a browser"),
    "report": ("view_commands", "write one HTML page about runs that opens offline"),
    "rrd": ("rrd_command", "train a reward model on the returns of episodes, recorded or collected"),
    "lerobot": ("lerobot_command", "plan, probe and train ACT and SmolVLA on recorded demonstrations"),
    "doctor": ("doctor_command", "report problems of a run, and flags to try"),
    "rl-games": ("rl_games_command", "train a config of rl_games with rl_games itself, into a run directory"),
    "presets": ("plan_commands", "list presets, or show one with its source"),
    "envs": ("plan_commands", "list the environments that can be trained here"),
    "completion": ("completion_command", "print a script that completes commands and flags in bash or zsh"),
}

OTHER_WORDS = {
    "play": "eval",
    "enjoy": "eval",
    "test": "eval",
    "evaluate": "eval",
    "video": "eval RUN --video",
    "run": "train",
    "learn": "train",
    "fit": "train",
    "continue": "resume",
    "finetune": "train ENV --init-from RUN",
    "dashboard": "watch",
    "monitor": "watch",
    "plot": "report",
    "optimize": "tune",
    "sweep": "tune",
    "convert": "export",
}
"""Words of other tools for our commands."""


if __name__ == "__main__":
    sys.exit(main())
