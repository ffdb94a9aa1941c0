"""Videos of a trained policy."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.safe_open import checked_path, explain_refusal
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.policies.trained_policy import TrainedPolicy

DEFAULT_FRAMES_PER_SECOND = 30
MOST_FRAMES = 1000


def record_video(policy: TrainedPolicy, path: str | Path, seed: int) -> Path:
    """A GIF of one episode, drawn by the environment itself."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError("videos need Pillow.", ['pip install "batchwright[video]"']) from None
    drawn, frames_per_second = _frames(policy, seed)
    frames = [Image.fromarray(frame) for frame in drawn]
    content = io.BytesIO()
    duration = 1000 // frames_per_second
    frames[0].save(content, "GIF", save_all=True, append_images=frames[1:], duration=duration, loop=0)
    target = checked_path(path)
    with explain_refusal(target, "write", "--video FILE.gif in another folder"):
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, content.getvalue())
    return target


def _frames(policy: TrainedPolicy, seed: int) -> tuple[list[np.ndarray], int]:
    """The pictures of an episode, and how many of them the environment shows in a second."""
    try:
        env, limit_steps = EnvSource(policy.env, None, {"render_mode": "rgb_array"}).make()
    except UserError as error:
        raise UserError(f"{policy.env} cannot be recorded: {error.message}", ["leave out --video"]) from None
    try:
        obs, info = env.reset(seed=seed)
        frames: list[Any] = [env.render()]
        ended, most = False, min(MOST_FRAMES, 1 + (limit_steps or MOST_FRAMES))
        while not ended and len(frames) < most:
            action = policy(obs, mask=info.get("action_mask"))
            obs, _, terminated, truncated, info = env.step(action)
            frames.append(env.render())
            ended = terminated or truncated
    finally:
        env.close()
    if not isinstance(frames[0], np.ndarray):
        raise UserError(f"{policy.env} draws no pictures.", ["leave out --video"])
    return frames, int(env.metadata.get("render_fps") or DEFAULT_FRAMES_PER_SECOND)
