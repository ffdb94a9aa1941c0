"""What lies below a run directory is opened in its place or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from batchwright.core.errors import UserError
from batchwright.core.files import remove_folder, write_atomically
from batchwright.core.safe_open import UnsafeFile, checked_path, make_folder, open_plain, read_json, read_plain


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_plain(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match="longer than 4 bytes"):
        read_plain(tmp_path / "file", 4)


@pytest.mark.parametrize("below", [1, 2, 3])
def test_links_below_are_refused_and_links_above_are_followed(tmp_path: Path, below: int) -> None:
    (tmp_path / "real" / "b" / "c").mkdir(parents=True)
    (tmp_path / "real" / "b" / "c" / "file").write_bytes(b"x")
    (tmp_path / "a").symlink_to(tmp_path / "real")
    path = tmp_path / "a" / "b" / "c" / "file"  # three parts below the link
    assert read_plain(path, below=below) == b"x"
    with pytest.raises(UnsafeFile, match="a is a symbolic link"):
        read_plain(path, below=4)
    write_atomically(path, b"new", below)
    with pytest.raises(UnsafeFile):
        write_atomically(path, b"newer", 4)
    assert path.read_bytes() == b"new"
    with pytest.raises(UnsafeFile):
        make_folder(tmp_path / "a" / "d", 2)


def test_a_link_at_the_end_is_replaced_by_a_writer_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    (tmp_path / "file").symlink_to(tmp_path / "outside")
    write_atomically(tmp_path / "file", b"new")
    assert (tmp_path / "outside").read_bytes() == b"mine"
    assert not (tmp_path / "file").is_symlink()


def test_a_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR):
        with pytest.raises(UnsafeFile, match="is a pipe"):
            open_plain(tmp_path / "pipe", flags)


@pytest.mark.parametrize("path", ["x" * 5000, "a/" * 2500, "a\0b", "~nobody-has-this-name/runs"])
def test_a_path_that_no_system_takes_is_refused_in_few_words(path: str) -> None:
    with pytest.raises(UserError) as caught:
        checked_path(path)
    assert len(str(caught.value)) < 300


def test_nesting_without_end_is_damage_of_a_json_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("[" * 200_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "file")


def test_a_pipe_in_place_of_a_folder_is_left_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "000000002")
    remove_folder(tmp_path / "000000002", 1)
    assert (tmp_path / "000000002").is_fifo()
