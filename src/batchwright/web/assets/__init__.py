"""The files of the page and the report, as text."""

from __future__ import annotations

from functools import cache
from importlib import resources

PAGE = ("page.html", "style.css", "charts.js", "shapes.js", "view.js", "tuning_charts.js", "tuning.js", "page.js")
"""Files that the server delivers."""


@cache
def asset(name: str) -> str:
    """The text of one file of the package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
