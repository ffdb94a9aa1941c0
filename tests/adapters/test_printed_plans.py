"""What the page on other trainers shows for Stable-Baselines3 and rl_games is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from run_batchwright import run_line

PAGE = (Path(__file__).parents[2] / "docs" / "other-trainers.md").read_text(encoding="utf-8")
SHOWN = re.findall(
    r"^```text\n\$ batchwright (plan [^\n]*--for (?:sb3|rl_games)[^\n]*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
)


def test_the_page_shows_three_plans() -> None:
    assert len(SHOWN) == 3


@pytest.mark.parametrize(("command", "printed"), SHOWN)
def test_a_shown_plan_is_what_is_printed(command: str, printed: str) -> None:
    assert run_line(command).out.strip() == printed.strip()
