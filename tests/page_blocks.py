"""What the pages show under a command: blocks of `text` with lines that begin with `$ batchwright`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PAGES = sorted([REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")])
AT_ONCE = ("plan", "check", "presets", "envs", "completion")
"""Commands that answer at once: what they print is compared figure by figure."""


@dataclass(frozen=True)
class Shown:
    """A command of a page, without the word `batchwright`, and the lines that the page shows under it."""

    page: str
    command: str
    lines: tuple[str, ...]

    @property
    def answers_at_once(self) -> bool:
        return self.command.split()[0] in AT_ONCE and "--forecast" not in self.command


def text_blocks(page: Path) -> list[str]:
    """The blocks of `text` of a page."""
    return re.findall(r"^```text\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def shown_blocks() -> list[list[Shown]]:
    """The commands of every block that shows what at least one of them prints, in the order of the pages."""
    found = []
    for page in PAGES:
        for block in text_blocks(page):
            parts = [part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
            ours = [
                (line.removeprefix("batchwright "), rest) for line, *rest in parts if line.startswith("batchwright ")
            ]
            commands = [Shown(name_of(page), command, tuple(lines)) for command, lines in ours]
            found += [commands] if any(one.lines for one in commands) else []
    return found


def bare_blocks() -> list[tuple[str, str]]:
    """(page, first line) of every block of `text` without a command."""
    return [
        (name_of(page), block.splitlines()[0])
        for page in PAGES
        for block in text_blocks(page)
        if not re.search(r"^\$ ", block, re.MULTILINE)
    ]


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def without_figures(line: str) -> str:
    """A line without its numbers, which differ between machines, its plurals, and the blanks that align columns."""
    line = re.sub(r"token=\S+|[\u2800-\u28ff]+", "", line)
    line = re.sub(r"^(different: iteration \d+), .*", r"\1", line)  # in which metric is up to what was drawn
    return re.sub(
        r"\s+|-{2,}", " ", re.sub(r"[-\d.,:%]+", "#", line).replace("episodes", "episode").replace("cores", "core")
    ).strip()


def first_missing(lines: tuple[str, ...], printed: list[str]) -> str | None:
    """The first shown line that is not printed, figures aside, after those before it; None where there is none."""
    plain, at = [without_figures(line) for line in printed], 0
    for line in lines:
        wanted = without_figures(line)
        if wanted in ("", "#"):
            continue
        if wanted not in plain[at:]:
            return line
        at = plain.index(wanted, at) + 1
    return None
