"""What was tried and what survived, by part; what fell, with the way to repeat it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from caller import DIED, HUNG, RAISED, TERMINATED, Answer

WELL_BEHAVED = (0, 2, 3)
LONGEST_MESSAGE = 4000
"""Characters of what a refusal may print."""
MOST_SHOWN = 40
_TRACES = re.compile(r"Traceback \(most recent|^\s+File \".*\", line \d+, in |Exception ignored in", re.MULTILINE)


@dataclass(frozen=True)
class Failure:
    """One attack that did harm or was not answered with a message."""

    part: str
    number: int
    what: str
    why: str
    shown: str = ""


@dataclass
class Tally:
    """Counts of one part of the campaign."""

    part: str
    unit: str
    tried: int = 0
    calls: int = 0
    seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter)
    by_kind: dict[str, list[int]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def count(self, kind: str, number: int, what: str, problems: list[str], shown: str = "") -> None:
        """One attack of a kind and all that was wrong with the answers; nothing wrong is a survival."""
        self.tried += 1
        row = self.by_kind.setdefault(kind, [0, 0])
        row[0] += 1
        row[1] += not problems
        if problems:
            self.failures.append(Failure(self.part, number, what, "; ".join(problems), shown))
            print(f"{self.part}:{number} fell: {what[:200]}: {problems[0][:300]}", flush=True)
        elif self.tried % 100 == 0:
            print(f"{self.part}: {self.tried:,} tried, {self.survived:,} survived", flush=True)

    @property
    def survived(self) -> int:
        return sum(row[1] for row in self.by_kind.values())

    def to_dict(self) -> dict[str, Any]:
        return vars(self) | {
            "survived": self.survived,
            "seconds": round(self.seconds, 1),
            "failures": [asdict(failure) for failure in self.failures[:MOST_SHOWN]],
        }


def problems_of(answer: Answer, codes: tuple[int, ...] = WELL_BEHAVED) -> list[str]:
    """What is wrong with an answer: no exit code, an unexpected one, a traceback, no message or a long one."""
    allowed = (*codes, 130) if answer.stopped else codes
    if answer.code == HUNG:
        return [f"no answer after {answer.seconds:.0f} s, and none to SIGTERM"]
    if answer.code == TERMINATED:
        return [f"no answer after {answer.seconds:.0f} s; SIGTERM ended it"]
    if answer.code == DIED:
        return ["the process ended without an exit code"]
    if answer.code == RAISED or _TRACES.search(answer.text):
        return [f"traceback: {last_line(answer.err) or last_line(answer.out)}"]
    if answer.code not in allowed:
        return [f"exit code {answer.code}: {last_line(answer.err)}"]
    return _problems_of_message(answer.err) if answer.code in (2, 3) else []


def _problems_of_message(text: str) -> list[str]:
    count = len(re.findall(r"^error: ", text, re.MULTILINE))
    if count != 1:
        return [f"refused with {count} messages"]
    return [f"a message of {len(text):,} characters"] if len(text) > LONGEST_MESSAGE else []


def last_line(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else ""
