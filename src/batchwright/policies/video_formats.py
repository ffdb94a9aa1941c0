"""The files in which a video can be written; imports nothing heavy, so that others are refused at once."""

from __future__ import annotations

from pathlib import Path

from batchwright.core.errors import UserError, quoted

MP4 = ".mp4"
FORMATS = {".gif": "GIF", ".webp": "WEBP", ".png": "PNG", MP4: "H.264"}
"""Pillow's name of each moving picture that it writes, by suffix, and MP4; `.png` is an animated PNG."""


def refuse_video_format(path: str | Path) -> None:
    """Refuses a name whose suffix says a format that cannot be written."""
    if Path(path).suffix.lower() in FORMATS:
        return
    text = str(path)[:200]
    raise UserError(
        f"a video cannot be written as {quoted(Path(path).suffix or text)}; {', '.join(FORMATS)} can.",
        [f"--video {text.removesuffix(Path(text).suffix)}.gif"],
    )
