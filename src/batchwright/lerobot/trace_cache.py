"""Traced memory on disk: the same policy, shapes and versions are traced once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from batchwright.core.files import write_atomically
from batchwright.lerobot.lerobot_python import PACKAGE, LeRobotPython

CONFIG_FILE = "config.json"
TRACING_FILES = (
    "activation_checkpointing.py",
    "lerobot_config.py",
    "lerobot_jobs.py",
    "live_memory.py",
    "memory_trace.py",
    "smolvlm_stand_in.py",
)
"""A change of one of these makes every trace anew."""

NUMBERS = ("floor_bytes", "fixed_bytes", "sample_bytes", "input_bytes", "parameters", "trainable")


def cache_folder() -> Path:
    """Where traces and merged datasets are kept."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "batchwright" / "lerobot"


class TraceCache:
    """The answer to one question, keyed by the question, the models it names and the versions that answer it."""

    def __init__(self, question: dict[str, Any], models: tuple[str | None, ...], python: LeRobotPython) -> None:
        states = [_model_state(name) for name in models if name is not None]
        self.is_keyed = None not in states
        """Whether all that the answer depends on is known; a model that was never downloaded is not."""
        key = json.dumps([question, states, python.packages, _code_digest()], sort_keys=True)
        self.path = cache_folder() / "traces" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"

    def read(self) -> dict[str, Any] | None:
        """The stored answer; None without one, or where the file is damaged."""
        if not self.is_keyed:
            return None
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.path.read_bytes())
            return found if _is_whole(found) else None
        return None

    def write(self, answer: dict[str, Any]) -> None:
        """Keeps an answer; a home that cannot be written only costs a second trace."""
        if not self.is_keyed:
            return
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, json.dumps(answer).encode())


def _is_whole(answer: Any) -> bool:
    cases = answer.get("traced") if isinstance(answer, dict) else None
    return (
        isinstance(cases, list)
        and bool(cases)
        and all(isinstance(case, dict) and all(isinstance(case.get(name), int) for name in NUMBERS) for case in cases)
        and all(isinstance(case.get("small_batches"), list) for case in cases)
    )


def _model_state(name: str) -> str | None:
    """What tells two states of a model apart: its configuration, or its commit on the hub as it was downloaded."""
    folder = Path(name)
    if folder.is_dir():
        with contextlib.suppress(OSError):
            return hashlib.sha256((folder / CONFIG_FILE).read_bytes()).hexdigest()
        return None
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    with contextlib.suppress(OSError):
        return (hub / f"models--{name.replace('/', '--')}" / "refs" / "main").read_text().strip()
    return None


def _code_digest() -> str:
    sha = hashlib.sha256()
    for name in TRACING_FILES:
        sha.update((PACKAGE / "lerobot" / name).read_bytes())
    return sha.hexdigest()
