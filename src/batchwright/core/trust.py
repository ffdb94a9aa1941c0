"""Whether the code that a run names may be run: asked once for runs that were not made here by this user.

`config.yaml` may name a file or a module as its environment, and resuming or playing the run imports it. What this user
made or agreed to is remembered outside of run directories, in `$XDG_STATE_HOME/batchwright/trusted-runs`: one line for
each, a hash of the settings, the plan, and where the code lies. A moved or copied run is known again; one whose
settings were changed, or whose name now leads to another file, is not.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.machinery
import json
import os
import sys
import sysconfig
from pathlib import Path

from batchwright.core.errors import UserError, quoted
from batchwright.core.run_dir import RunDir
from batchwright.core.safe_open import open_plain, read_plain

_OWN_MODULE = "batchwright.envs.registration"
"""`batchwright.envs.registration:Moving-v0` names our own code."""
_PASSED = "python"
"""`python:Name` is an object that the caller passes; nothing is imported for it."""
_LARGEST_LIST_BYTES = 1 << 26


def named_code(env: str | None) -> str | None:
    """The file or module that an environment's name makes us import; None for a registered name."""
    location, colon, _ = (env or "").partition("?")[0].rpartition(":")
    if not colon or not location or location in (_OWN_MODULE, _PASSED):
        return None
    return location


def check_trust(run: RunDir, env: str | None, trust: bool) -> None:
    """Refuses to import code for a run that nobody here made or agreed to; an agreement is remembered."""
    if named_code(env) is None or is_trusted(run, env):
        return
    if trust:
        remember(run, env)
        return
    raise UserError(
        f"{run} names code of its own, {quoted(str(env))}, and was not made here by you: importing it would run "
        "whatever its author wrote.",
        ["--trust (in Python: trust=True), if you trust its author", f"batchwright report {run}"],
    )


def is_trusted(run: RunDir, env: str | None) -> bool:
    """Whether a run names no code, or was made here or agreed to by this user."""
    if named_code(env) is None:
        return True
    try:
        known = read_plain(_list_path(), _LARGEST_LIST_BYTES).decode(errors="replace").split()
    except (OSError, ValueError, UserError):
        return False
    return _fingerprint(run, str(env)) in known


def remember(run: RunDir, env: str | None) -> None:
    """Adds a run to those of this user. Best effort: where it cannot be written, later commands ask."""
    if named_code(env) is None:
        return
    with contextlib.suppress(OSError, ValueError, UserError):
        path = _list_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = open_plain(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.fchmod(handle, 0o600)
            os.write(handle, f"{_fingerprint(run, str(env))}\n".encode())
        finally:
            os.close(handle)


def _fingerprint(run: RunDir, env: str) -> str:
    files = [hashlib.sha256(read_plain(path)).hexdigest() for path in (run.config_path, run.plan_path)]
    return hashlib.sha256(json.dumps([env, _place_of(env), *files]).encode()).hexdigest()


def _place_of(env: str) -> str:
    """Where the named code lies, found without importing it: a path, or `installed` for an installed module."""
    location = str(named_code(env))
    if location.endswith(".py"):
        return str(Path(location).expanduser().resolve())
    searched = [*sys.path, str(Path.cwd())]
    spec = importlib.machinery.PathFinder.find_spec(location.split(".", maxsplit=1)[0], searched)
    if spec is None:
        return "built in"
    origin = Path(spec.origin or next(iter(spec.submodule_search_locations or [""]))).resolve()
    installed = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "purelib", "platlib")]
    return "installed" if any(origin.is_relative_to(folder) for folder in installed) else str(origin)


def _list_path() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "batchwright" / "trusted-runs"
