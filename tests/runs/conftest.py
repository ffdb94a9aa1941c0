"""What the tests of training share."""

from __future__ import annotations

from pathlib import Path

import pytest

from small_runs import start


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a small run that was trained to its end without a stop."""
    return start(tmp_path_factory.mktemp("runs") / "finished").run_dir
