"""Hypothesis draws the same examples every time, so that CI is repeatable; HYPOTHESIS_PROFILE=long draws more of them,
HYPOTHESIS_PROFILE=search other ones."""

import atexit
import gc
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from batchwright.api import set_up_jax

# Before any test imports JAX: compiled programs are kept between runs, as users have it. Small programs are kept too,
# because many tests and both workers compile the same ones.
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
# Most of a cold run is XLA's optimiser and its fusion emitters at work on programs that then run for milliseconds:
# without them an update compiles four times as fast. The files in `OPTIMISED` train as users do, in processes that they
# start; BATCHWRIGHT_TEST_OPTIMISED=1 makes all do so.
COMPILE_FAST = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false"}
if not os.environ.get("BATCHWRIGHT_TEST_OPTIMISED"):
    os.environ.update(COMPILE_FAST)
# What the tests make is not remembered among the runs of the user who runs them.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="batchwright-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
set_up_jax()

settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=50)
settings.register_profile("long", derandomize=True, deadline=None, database=None, max_examples=300)
settings.register_profile(
    "search",
    deadline=None,
    max_examples=3000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").split())
"""Tests that take more than about a second, by file or by function: `make quick` leaves them out."""
LONG = frozenset(Path(__file__).with_name("long.txt").read_text(encoding="utf-8").splitlines())
"""Tests, with their parameters, that repeat a claim for one more engine, algorithm or format: for `make long`."""
LONGEST_FIRST = ("tests/test_readme.py", "tests/runs/test_kills.py", "tests/test_examples.py")
"""Files whose single tests take longest: begun last, one of them would keep one worker busy while the other waits."""
OPTIMISED = (
    "tests/test_readme.py",
    "tests/test_examples.py",
    "tests/runs/test_golden_curves.py",
    "tests/replay/test_replay_layouts.py",
)
"""Tests whose processes compile as users do: what users are told to run, and bits of different programs."""
HAS_BROWSER = shutil.which("chromium") is not None and importlib.util.find_spec("playwright") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests of tests/long.txt too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks slow tests, puts the longest first, and leaves the tests in a browser out where there is none."""
    for item in items:
        function = item.nodeid.split("[")[0]
        if SLOW & {function, function.split("::")[0]}:
            item.add_marker("slow")
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST_FIRST))
    asked = config.getoption("--long") or any("::" in word for word in config.args)
    left_out = [
        item
        for item in items
        if (not HAS_BROWSER and item.get_closest_marker("browser")) or (not asked and item.nodeid in LONG)
    ]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Traced programs fill the heap, and Python would look through all of it every few seconds: a tenth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


@pytest.fixture(autouse=True, scope="module")
def compile_as_users_do(request: pytest.FixtureRequest) -> Iterator[None]:
    """XLA's optimiser for the processes that the files in `OPTIMISED` start."""
    taken = COMPILE_FAST if request.node.nodeid.startswith(OPTIMISED) else {}
    kept = {name: os.environ.pop(name) for name in taken if name in os.environ}
    yield
    os.environ.update(kept)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not HAS_BROWSER:
        terminalreporter.write_line("tests in a browser were left out: chromium or playwright is missing")
    skipped = terminalreporter.stats.get("skipped", [])
    if any("make lerobot" in str(report.longrepr) for report in skipped):
        terminalreporter.write_line("tests of LeRobot were left out: make lerobot installs it")
