"""Small pieces of HTML for notebooks: every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; its cells are text. One of pairs has an empty header, which is left out."""
    titles = "".join(f"<th style='text-align:left'>{escape(str(cell))}</th>" for cell in header)
    head = f"<thead><tr>{titles}</tr></thead>" if any(header) else ""
    lines = ["".join(f"<td style='text-align:left'>{escape(str(cell))}</td>" for cell in row) for row in rows]
    return f"<table>{head}<tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def paragraphs(lines: Sequence[str]) -> str:
    """One paragraph for each line."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def preformatted(text: str) -> str:
    """Text with its line breaks and columns."""
    return f"<pre>{escape(text)}</pre>"
