"""Predicted rewards along episodes as one self-contained HTML file: lines as SVG, frames as PNG."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 920, 190, 64, 24, 12
LARGEST_FRAME = 64
"""Pixels along the longer side of a frame."""
STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 24px; max-width: 960px; color: #222; background: #fff; }
h1 { font-size: 18px; } h2 { font-size: 14px; margin: 20px 0 4px; font-weight: 600; }
svg { display: block; width: 100%; height: auto; } text { font: 11px system-ui, sans-serif; fill: #555; }
.predicted { stroke: #1f6fb4; stroke-width: 1.8; fill: none; } .true { stroke: #d9822b; stroke-width: 1.4; fill: none; }
.axis { stroke: #bbb; stroke-width: 1; } .zero { stroke: #ddd; stroke-width: 1; }
.key span { display: inline-block; width: 22px; height: 3px; vertical-align: middle; margin: 0 6px 0 14px; }
"""


@dataclass(frozen=True)
class Strip:
    """One episode to picture."""

    name: str
    episode_return: float
    predicted: np.ndarray  # [T]
    true: np.ndarray | None = None  # [T]
    frames: list[tuple[int, np.ndarray]] = field(default_factory=list)
    """(step, image [height, width, channels] uint8)."""


def picture(strips: list[Strip], title: str) -> str:
    """The page: one chart per episode; all predicted rewards share the left axis, all recorded ones the right."""
    low, high = _range([strip.predicted for strip in strips])
    known = [strip.true for strip in strips if strip.true is not None]
    true_range = _range(known) if known else None
    key = '<span style="background:#1f6fb4"></span>predicted reward (left axis)'
    if true_range is not None:
        key += '<span style="background:#d9822b"></span>recorded reward (right axis)'
    body = "".join(_episode(strip, (low, high), true_range) for strip in strips)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Rewards along episodes of {html.escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>Rewards along episodes of {html.escape(title)}</h1><p class="key">{key}</p>{body}</body></html>'
    )


def _episode(strip: Strip, limits: tuple[float, float], true_limits: tuple[float, float] | None) -> str:
    steps = len(strip.predicted)
    total = float(np.sum(strip.predicted, dtype=np.float64))
    frames = [frame for frame in strip.frames if frame[1].ndim == 3]
    side = (WIDTH - 2 * LEFT) / max(1, len(frames)) - 2
    height = HEIGHT + (min(side, LARGEST_FRAME) + 8 if frames else 0)
    parts = [
        f"<h2>{html.escape(strip.name)}: {steps} steps, return {strip.episode_return:.4g}, predicted {total:.4g}</h2>",
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="rewards of {html.escape(strip.name)}">',
        *_axes(steps, limits, true_limits),
    ]
    if strip.true is not None and true_limits is not None:
        parts.append(_line(strip.true, true_limits, "true"))
    parts.append(_line(strip.predicted, limits, "predicted"))
    for step, image in frames:
        size = min(side, LARGEST_FRAME)
        x = min(max(_x(step, steps) - size / 2, 0), WIDTH - size)
        data = base64.b64encode(png(_small(image))).decode()
        parts.append(
            f'<image x="{x:.1f}" y="{HEIGHT + 4}" width="{size:.1f}" height="{size:.1f}" '
            f'href="data:image/png;base64,{data}"><title>step {step}</title></image>'
        )
    return "".join([*parts, "</svg>"])


def _axes(steps: int, limits: tuple[float, float], true_limits: tuple[float, float] | None) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - LEFT
    low, high = limits
    found = [
        f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{right}" y2="{bottom}"/>',
        f'<line class="axis" x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{bottom}"/>',
        f'<text x="{LEFT - 6}" y="{TOP + 8}" text-anchor="end">{high:.3g}</text>',
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">{low:.3g}</text>',
        f'<text x="{LEFT}" y="{HEIGHT - 6}">step 0</text>',
        f'<text x="{right}" y="{HEIGHT - 6}" text-anchor="end">{steps - 1}</text>',
    ]
    if low < 0 < high:
        y = _y(0.0, limits)
        found.append(f'<line class="zero" x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
    if true_limits is not None:
        found += [
            f'<text x="{right + 6}" y="{TOP + 8}">{true_limits[1]:.3g}</text>',
            f'<text x="{right + 6}" y="{bottom}">{true_limits[0]:.3g}</text>',
        ]
    return found


def _line(values: np.ndarray, limits: tuple[float, float], name: str) -> str:
    points = " ".join(f"{_x(k, len(values)):.1f},{_y(float(v), limits):.1f}" for k, v in enumerate(values))
    return f'<polyline class="{name}" points="{points}"/>'


def _x(step: int, steps: int) -> float:
    return LEFT + (WIDTH - 2 * LEFT) * (step / max(1, steps - 1))


def _y(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return TOP + (HEIGHT - BOTTOM - TOP) * (high - value) / (high - low)


def _range(arrays: list[np.ndarray]) -> tuple[float, float]:
    """Lowest and highest of all; a flat line gets a margin above and below."""
    low, high = float(min(a.min() for a in arrays)), float(max(a.max() for a in arrays))
    if high - low > 1e-12 * max(1.0, abs(low), abs(high)):
        return low, high
    margin = 0.5 * max(abs(low), 1e-3)
    return low - margin, high + margin


def _small(image: np.ndarray) -> np.ndarray:
    """Every n-th pixel, so that the page stays small; channels last."""
    if image.shape[0] <= 4 < image.shape[2]:
        image = np.moveaxis(image, 0, -1)
    stride = max(1, -(-max(image.shape[:2]) // (2 * LARGEST_FRAME)))
    return image[::stride, ::stride]


def png(image: np.ndarray) -> bytes:
    """A PNG of an image [height, width, channels] uint8; grey with fewer than three channels."""
    colour = image.shape[2] >= 3
    pixels = np.ascontiguousarray(image[..., :3] if colour else image[..., :1])
    height, width = pixels.shape[:2]
    lines = b"".join(b"\x00" + pixels[row].tobytes() for row in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if colour else 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
