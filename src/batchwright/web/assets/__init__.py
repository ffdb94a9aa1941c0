"""The files of the page and the report, as text."""

from __future__ import annotations

from functools import cache
from importlib import resources

PAGE = ("page.html", "style.css", "charts.js", "shapes.js", "view.js", "page.js")
"""What the server gives out."""


@cache
def asset(name: str) -> str:
    """The text of one file, from the package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
