"""Images and videos as arrays; the one place that needs the decoders Pillow and `av`."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from batchwright.core.errors import UserError
from batchwright.store.recorded.interface import EXTRA


@dataclass(frozen=True)
class Clip:
    """One episode's part of a video file."""

    file: Path
    start_seconds: float
    frames_per_second: float


def decode_image(data: bytes) -> np.ndarray:
    """[height, width, 3] uint8 of a PNG or JPEG; raises OSError or ValueError where it is none."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError("decoding images needs Pillow, which is not installed.", [EXTRA]) from None
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def read_frames(clip: Clip, frames: int) -> np.ndarray:
    """[frames, height, width, 3] uint8 from the clip's start on; the error for a video that is too short names it."""
    try:
        import av
    except ImportError:
        raise UserError(
            f"the images of {clip.file} are a video: decoding one needs av, which is not installed.",
            ["pip install 'batchwright[recorded-video]'", "--obs-keys without it"],
        ) from None
    found: list[np.ndarray] = []
    # Half a frame of room: time stamps of a file are rounded to its time base.
    earliest = clip.start_seconds - 0.5 / (clip.frames_per_second or 30.0)
    try:
        with av.open(str(clip.file)) as container:
            stream = container.streams.video[0]
            if clip.start_seconds > 0 and stream.time_base:
                container.seek(int(clip.start_seconds / stream.time_base), stream=stream)
            for frame in container.decode(stream):
                if frame.time is None or frame.time >= earliest:
                    found.append(frame.to_ndarray(format="rgb24"))
                if len(found) == frames:
                    break
    except (OSError, ValueError, IndexError) as error:
        raise UserError(f"{clip.file} cannot be decoded: {error}.", ["download it again"]) from None
    if len(found) < frames:
        raise UserError(
            f"{clip.file} has {len(found)} frames from second {clip.start_seconds:g} on; the episode has {frames}.",
            ["download it again", "--obs-keys without it"],
        )
    return np.stack(found)
