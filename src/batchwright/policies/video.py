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
from batchwright.policies.camera import Camera, make_camera
from batchwright.policies.trained_policy import TrainedPolicy
from batchwright.policies.video_formats import FORMATS, MP4, refuse_video_format

MOST_FRAMES = 1000
ELSEWHERE = "--video FILE.gif in another folder"


class Video:
    """A video of one episode, drawn by the environment itself, or its images where it draws nothing."""

    def __init__(self, policy: TrainedPolicy, path: str | Path) -> None:
        """Refuses a format, a place and an environment that cannot be filmed."""
        self.path = checked_path(path)
        refuse_video_format(self.path)
        _refuse_place(self.path)
        self._pillow, self._av = _encoders(self.path)
        self._camera: Camera = make_camera(policy)

    def record(self, seed: int) -> Path:
        """Plays one episode of at most `MOST_FRAMES` and writes it."""
        try:
            content = self._encode(self._camera.play(seed, MOST_FRAMES))
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{self.path} was not written: {failure(error)}") from error
        finally:
            self._camera.close()
        with explain_refusal(self.path, "write", ELSEWHERE):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.path, content)
        return self.path

    def _encode(self, frames: list[np.ndarray]) -> bytes:
        """The file's content: in memory first, so that a file is whole or not there."""
        content, rate = io.BytesIO(), self._camera.frames_per_second
        if self._av is not None:
            _write_mp4(self._av, content, frames, rate)
            return content.getvalue()
        first, *rest = [self._pillow.fromarray(frame) for frame in frames]
        kind = FORMATS[self.path.suffix.lower()]
        first.save(content, kind, save_all=True, append_images=rest, duration=1000 // rate, loop=0)
        return content.getvalue()


def _encoders(path: Path) -> tuple[Any, Any]:
    """(Pillow's Image, None), or (None, PyAV) for MP4; a missing package is refused by the extra that has it."""
    if path.suffix.lower() == MP4:
        try:
            import av
        except ImportError:
            fixes = ['pip install "batchwright[video]"', f"--video {path.with_suffix('.gif')}"]
            raise UserError("MP4 videos need PyAV.", fixes) from None
        return None, av
    try:
        import PIL.Image
    except ImportError:
        raise UserError("videos need Pillow.", ['pip install "batchwright[video]"']) from None
    return PIL.Image, None


def _write_mp4(av: Any, content: io.BytesIO, frames: list[np.ndarray], rate: int) -> None:
    """H.264, which browsers play; sides are made even, as it needs them."""
    with av.open(content, "w", format="mp4") as file:
        stream = file.add_stream("libx264", rate=rate)
        height, width = (side + side % 2 for side in frames[0].shape[:2])
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for frame in frames:
            padded = np.zeros((height, width, 3), np.uint8)
            padded[: frame.shape[0], : frame.shape[1]] = frame[..., :3]
            file.mux(stream.encode(av.VideoFrame.from_ndarray(padded, format="rgb24")))
        file.mux(stream.encode())


def _refuse_place(path: Path) -> None:
    """Refuses a folder, and a place where nothing can be written, before anything is played."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UserError(f"cannot write {path}.", [ELSEWHERE])
