"""A package that is not installed is named with the extra that brings it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from recordings import read_all, some_episodes, write_lerobot, write_libero, write_minari

from batchwright.core.errors import UserError

CASES: dict[str, tuple[Callable[[Path], Path], str, str]] = {
    "h5py": (lambda p: write_libero(p / "a.hdf5", some_episodes()), "h5py", "batchwright[recorded]"),
    "minari": (
        lambda p: write_minari(p / "m", some_episodes()),
        "minari.dataset.minari_storage",
        "batchwright[recorded]",
    ),
    "pyarrow": (lambda p: write_lerobot(p / "l", some_episodes()), "pyarrow", "batchwright[recorded]"),
    "pillow": (lambda p: write_lerobot(p / "l", some_episodes(image_side=36)), "PIL", "batchwright[recorded]"),
    "av": (
        lambda p: write_lerobot(p / "l", some_episodes(image_side=48), video=True),
        "av",
        "batchwright[recorded-video]",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_extra_is_named(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, module, extra = CASES[name]
    path = write(tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError) as caught:
        read_all(path)
    assert "which is not installed" in caught.value.message
    assert extra in " ".join(caught.value.fixes)
