"""A picture as an array, drawn with numpy alone: rendering needs no display and no further package."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
Point = tuple[float, float]

WHITE: Colour = (250, 250, 248)
INK: Colour = (45, 52, 64)
BLUE: Colour = (46, 110, 190)
RED: Colour = (208, 74, 60)
GREEN: Colour = (70, 150, 96)
PALE_GREEN: Colour = (188, 222, 196)
GREY: Colour = (168, 174, 182)


class Canvas:
    """Shapes in the coordinates of the task: `origin` is the lower left corner, y points up."""

    def __init__(self, width: int, height: int, origin: Point, scale: float, background: Colour = WHITE) -> None:
        self.pixels = np.empty((height, width, 3), np.float32)
        self.pixels[:] = background
        self._scale = scale
        columns = origin[0] + (np.arange(width, dtype=np.float32) + 0.5) / scale
        rows = origin[1] + (height - np.arange(height, dtype=np.float32) - 0.5) / scale
        self.x, self.y = np.meshgrid(columns, rows)
        """Where the middle of each pixel lies [height, width]."""

    def disc(self, centre: Point, radius: float, colour: Colour) -> None:
        """A filled circle."""
        self._blend(radius - np.hypot(self.x - centre[0], self.y - centre[1]), colour)

    def line(self, start: Point, end: Point, width: float, colour: Colour) -> None:
        """A line with round ends."""
        along = np.asarray(end, np.float32) - np.asarray(start, np.float32)
        length_squared = max(float(along @ along), 1e-12)
        share = ((self.x - start[0]) * along[0] + (self.y - start[1]) * along[1]) / length_squared
        share = np.clip(share, 0.0, 1.0)
        gap = np.hypot(self.x - start[0] - share * along[0], self.y - start[1] - share * along[1])
        self._blend(width / 2 - gap, colour)

    def rectangle(self, corner: Point, size: Point, colour: Colour) -> None:
        """A filled rectangle from its lower left corner."""
        inside_x = np.minimum(self.x - corner[0], corner[0] + size[0] - self.x)
        inside_y = np.minimum(self.y - corner[1], corner[1] + size[1] - self.y)
        self._blend(np.minimum(inside_x, inside_y), colour)

    def polygon(self, corners: Sequence[Point], colour: Colour) -> None:
        """A filled convex polygon, corners counter-clockwise."""
        inside = np.full(self.x.shape, np.inf, np.float32)
        for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
            length = max(float(np.hypot(bx - ax, by - ay)), 1e-12)
            inside = np.minimum(inside, ((bx - ax) * (self.y - ay) - (by - ay) * (self.x - ax)) / length)
        self._blend(inside, colour)

    def shade(self, share: NDArray[np.float32], low: Colour, high: Colour) -> None:
        """The whole picture between two colours; `share` [height, width] from 0 to 1."""
        ends = np.asarray(low, np.float32), np.asarray(high, np.float32)
        self.pixels[:] = ends[0] + share[..., None] * (ends[1] - ends[0])

    def image(self) -> NDArray[np.uint8]:
        """The picture [height, width, 3]."""
        return np.clip(np.rint(self.pixels), 0, 255).astype(np.uint8)

    def _blend(self, inside: NDArray[np.float32], colour: Colour) -> None:
        """Covers each pixel by how far it lies inside a shape: edges are smooth over one pixel."""
        cover = np.clip(inside * self._scale + 0.5, 0.0, 1.0)[..., None]
        self.pixels += cover * (np.asarray(colour, np.float32) - self.pixels)
