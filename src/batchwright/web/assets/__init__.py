"""The files of the page and the report, as text."""

from __future__ import annotations

from functools import cache
from importlib import resources

CHARTS = ("charts.js", "downloads.js", "shapes.js", "view.js", "tuning_charts.js", "tuning.js")
"""Scripts that the page and the report share, in the order of their loading."""
PAGE = ("page.html", "style.css", *CHARTS, "run_list.js", "page.js")
"""Files that the server delivers."""


@cache
def asset(name: str) -> str:
    """The text of one file of the package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
