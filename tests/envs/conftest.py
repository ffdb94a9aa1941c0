"""What the engine tests share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from batchwright.envs.engines import Engine, make_engine


@pytest.fixture
def make() -> Iterator[Callable[..., Any]]:
    """`make_engine`, with everything made closed at the end of the test."""
    made: list[Engine] = []

    def make_and_remember(*args: Any, **kwargs: Any) -> Engine:
        made.append(make_engine(*args, **kwargs))
        return made[-1]

    yield make_and_remember
    for engine in made:
        engine.close()
