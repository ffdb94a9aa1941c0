"""Videos of a trained policy."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.safe_open import checked_path, explain_refusal
from batchwright.envs.failures import failure
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.policies.trained_policy import TrainedPolicy
from batchwright.policies.video_formats import FORMATS, refuse_video_format

DEFAULT_FRAMES_PER_SECOND = 30
MOST_FRAMES = 1000
ELSEWHERE = "--video FILE.gif in another folder"


class Video:
    """A video of one episode, drawn by the environment itself.

    All that can be known before is refused when it is made: format, place, and whether the environment draws.
    """

    def __init__(self, policy: TrainedPolicy, path: str | Path) -> None:
        self._policy, self.path = policy, checked_path(path)
        try:
            import PIL.Image
        except ImportError:
            raise UserError("videos need Pillow.", ['pip install "batchwright[video]"']) from None
        self._image: Any = PIL.Image
        refuse_video_format(self.path)
        _refuse_place(self.path)
        try:
            self._env, self._limit_steps = EnvSource(policy.env, None, {"render_mode": "rgb_array"}).make()
        except UserError as error:
            raise UserError(f"{policy.env} cannot be recorded: {error.message}", ["leave out --video"]) from None
        try:
            self._env.reset(seed=0)
            draws = isinstance(self._env.render(), np.ndarray)
        except Exception as error:
            self._env.close()
            raise UserError(f"{policy.env} cannot be recorded: {failure(error)}", ["leave out --video"]) from error
        if not draws:
            self._env.close()
            raise UserError(f"{policy.env} draws no pictures.", ["leave out --video"])

    def record(self, seed: int) -> Path:
        """Plays one episode of at most `MOST_FRAMES` and writes it."""
        try:
            content = self._encode([self._image.fromarray(frame) for frame in self._frames(seed)])
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{self.path} was not written: {failure(error)}") from error
        finally:
            self._env.close()
        with explain_refusal(self.path, "write", ELSEWHERE):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, content)
        return self.path

    def _frames(self, seed: int) -> list[np.ndarray]:
        env = self._env
        obs, info = env.reset(seed=seed)
        frames: list[Any] = [env.render()]
        ended, most = False, min(MOST_FRAMES, 1 + (self._limit_steps or MOST_FRAMES))
        while not ended and len(frames) < most:
            action = self._policy(obs, mask=(info or {}).get("action_mask"))
            obs, _, terminated, truncated, info = env.step(action)
            frames.append(env.render())
            ended = terminated or truncated
        return frames

    def _encode(self, frames: list[Any]) -> bytes:
        """The file's content: in memory first, so that a file is whole or not there."""
        content = io.BytesIO()
        milliseconds = 1000 // max(1, int(self._env.metadata.get("render_fps") or DEFAULT_FRAMES_PER_SECOND))
        kind = FORMATS[self.path.suffix.lower()]
        frames[0].save(content, kind, save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
        return content.getvalue()


def _refuse_place(path: Path) -> None:
    """Refuses a folder, and a place where nothing can be written, before anything is played."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"cannot write {path}.", [ELSEWHERE])
