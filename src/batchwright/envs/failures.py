"""What an environment raised, and where in its own code; closing one that may raise."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Any

RAISED = (Exception, SystemExit, GeneratorExit)
"""What an environment may raise; KeyboardInterrupt is the user's."""
LONGEST_TEXT = 1000
"""Characters of an environment's own message that ours repeats."""


def failure(error: BaseException) -> str:
    """`ValueError: too low (my_env.py:42, in step)`: what was raised, and where in the environment's own code."""
    where, text = location(error), _text(error)
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{what} ({where})" if where else what


def close_env(env: Any) -> None:
    """Closes an environment, whatever that raises: what was trained or found wrong with it counts."""
    with contextlib.suppress(*RAISED):
        env.close()


def say_ignored(unraisable: Any) -> None:
    """For `sys.unraisablehook`: one line for what was raised where nobody can catch it, `__del__` above all."""
    error = unraisable.exc_value or unraisable.exc_type()
    with contextlib.suppress(Exception):  # at the very end of the process there may be no stderr
        print(f"warning: ignored: {failure(error)}", file=sys.stderr, flush=True)


def _text(error: BaseException) -> str:
    """The message of an error in one line, a long one cut short; empty where asking for it raises."""
    try:
        text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(error)).split())
    except Exception:
        return ""
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def location(error: BaseException) -> str:
    """File, line and function of the last frame in the environment's own code; empty where there is none.

    Frames of Batchwright and Gymnasium do not count, and of those of installed packages the last one only where there
    are no others.
    """
    ours = [Path(__file__).parents[1], *_package("gymnasium")]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_in(frame.filename, ours)]
    own = [frame for frame in frames if not _is_installed(frame.filename)]
    if not own and not frames:
        return ""
    last = (own or frames)[-1]
    return f"{_shown(last.filename)}:{last.lineno}, in {last.name}"


def source_line(error: BaseException) -> str:
    """The line of source that raised; empty where it cannot be read."""
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line or "") if frames else ""


def _is_in(filename: str, folders: list[Path]) -> bool:
    return any(Path(filename).is_relative_to(folder) for folder in folders)


def _is_installed(filename: str) -> bool:
    installed = filename.startswith("<") or "site-packages" in filename or "dist-packages" in filename
    return installed or _is_in(filename, [Path(sys.base_prefix) / "lib"])


def _package(name: str) -> list[Path]:
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec is not None else []


def _shown(filename: str) -> str:
    """A path as people know it: below the working directory without that."""
    path = Path(filename)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)
