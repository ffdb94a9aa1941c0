"""The lists of slow and of long tests name tests that exist, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
ENTRIES = (REPOSITORY / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines()
LONG = (REPOSITORY / "tests" / "long.txt").read_text(encoding="utf-8").splitlines()


def test_every_entry_names_a_file_or_a_function_that_exists() -> None:
    gone = []
    for entry in (*ENTRIES, *LONG):
        file, _, function = entry.split("[")[0].partition("::")
        path = REPOSITORY / file
        if not path.is_file() or (function and f"def {function}(" not in path.read_text(encoding="utf-8")):
            gone.append(entry)
    assert gone == []


def test_the_list_is_sorted_and_names_nothing_twice() -> None:
    assert sorted(set(ENTRIES)) == ENTRIES
    assert sorted(set(LONG)) == LONG
    whole_files = {entry for entry in ENTRIES if "::" not in entry}
    assert not [entry for entry in ENTRIES if "::" in entry and entry.split("::")[0] in whole_files]


def test_what_is_listed_is_marked(request: pytest.FixtureRequest) -> None:
    for item in request.session.items:
        function = item.nodeid.split("[")[0]
        listed = function in ENTRIES or function.split("::")[0] in ENTRIES
        assert listed == (item.get_closest_marker("slow") is not None)


def test_what_is_left_out_without_long_has_a_neighbour_that_is_not(request: pytest.FixtureRequest) -> None:
    """Every claim stays in `make test`: only further parameters of a test are long."""
    assert not [entry for entry in LONG if "[" not in entry]
    if request.config.option.markexpr or len(request.session.items) < 1000:
        return  # not the whole suite
    kept = {item.nodeid.split("[")[0] for item in request.session.items}
    assert not [entry for entry in LONG if entry.split("[")[0] not in kept]
