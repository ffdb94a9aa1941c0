"""Ways to damage a file of a run, each drawn from a random generator."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

Damage = Callable[[Path, random.Random, Path], None]
"""(file, generator, folder outside the run) -> None; the file is changed."""

WRONG_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, -5, 1.5, 1e308, -1e308, float("nan"), float("inf"), 10**30, 2**63, "", "x", "12", "nan",
    "é\ud800", "x" * 3000, "../../outside/precious.txt", "/dev/zero", "a\0b", "<script>alert(1)</script>",
    [], {}, [[]], [None], {"x": None}, [1e400], ["x"] * 50, {"value": {"value": {}}},
)  # fmt: skip


def truncate(path: Path, draw: random.Random, outside: Path) -> None:
    os.truncate(path, draw.choice((0, draw.randrange(path.stat().st_size + 1))))


def flip_bits(path: Path, draw: random.Random, outside: Path) -> None:
    content = bytearray(path.read_bytes() or b"\0")
    for _ in range(draw.choice((1, 1, 1, 8, 100))):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def random_bytes(path: Path, draw: random.Random, outside: Path) -> None:
    path.write_bytes(draw.randbytes(draw.choice((1, 16, 1000, 100_000))))


def insert_bytes(path: Path, draw: random.Random, outside: Path) -> None:
    content = path.read_bytes()
    at = draw.randrange(len(content) + 1)
    extra = draw.choice((b"\0" * 50, b"\n\n\n", b"}", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 5000))
    path.write_bytes(content[:at] + extra + content[at:])


def repeat_part(path: Path, draw: random.Random, outside: Path) -> None:
    """A part of the file twice, as after two writers."""
    content = path.read_bytes()
    one, other = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    path.write_bytes(content[:other] + content[one:])


def shuffle_lines(path: Path, draw: random.Random, outside: Path) -> None:
    found = path.read_bytes().splitlines(keepends=True)
    draw.shuffle(found)
    path.write_bytes(b"".join(found))


def drop_lines(path: Path, draw: random.Random, outside: Path) -> None:
    found = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in found if draw.random() < 0.8))


def delete(path: Path, draw: random.Random, outside: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def to_folder(path: Path, draw: random.Random, outside: Path) -> None:
    delete(path, draw, outside)
    path.mkdir()
    if draw.random() < 0.5:
        (path / "inner").write_text("x")


def to_file(path: Path, draw: random.Random, outside: Path) -> None:
    delete(path, draw, outside)
    path.write_bytes(draw.choice((b"", b"not what was here", draw.randbytes(100))))


def to_link(path: Path, draw: random.Random, outside: Path) -> None:
    is_folder = path.is_dir()
    delete(path, draw, outside)
    files = (outside / "precious.txt", outside / "bashrc", outside / "metrics.jsonl", outside / "nobody")
    folders = (outside, outside / "photos", outside / "docs")
    odd = (Path("/dev/zero"), Path("/dev/null"), path, path.parent)
    path.symlink_to(draw.choice((folders if is_folder else files) * 2 + odd))


def to_fifo(path: Path, draw: random.Random, outside: Path) -> None:
    delete(path, draw, outside)
    os.mkfifo(path)


def wrong_permissions(path: Path, draw: random.Random, outside: Path) -> None:
    path.chmod(draw.choice((0o000, 0o200, 0o400, 0o111, 0o555 if path.is_dir() else 0o444)))


def unwritable_folder(path: Path, draw: random.Random, outside: Path) -> None:
    path.parent.chmod(draw.choice((0o555, 0o444, 0o111, 0o000)))


def huge_sparse(path: Path, draw: random.Random, outside: Path) -> None:
    """A file of many bytes on paper; on the disk it is a hole."""
    os.truncate(path, draw.choice((10**8, 3 * 10**9)))


def foreign_neighbour(path: Path, draw: random.Random, outside: Path) -> None:
    """A file or folder beside it that a user might have put there."""
    name = draw.choice(("2024-notes", f"{path.name}-best", "000000002-best", "9", ".DS_Store", "000000099", "x" * 200))
    beside = path.parent / name
    if draw.random() < 0.6:
        beside.mkdir(exist_ok=True)
        (beside / "notes.txt").write_text("mine")
    else:
        beside.write_text("mine")


def change_json(path: Path, draw: random.Random, outside: Path) -> None:
    """One value of a JSON file, or of one line of JSON, is removed, renamed, replaced or nested."""
    text = path.read_text()
    rows = path.suffix == ".jsonl"
    found = text.splitlines() if rows else [text]
    at = draw.choice((draw.randrange(len(found)), -1)) if found else 0
    value = json.loads(found[at])
    for _ in range(draw.choice((1, 1, 2, 6))):
        value = _change(value, draw)
    found[at] = json.dumps(value)
    path.write_text("\n".join(found) + "\n" if rows else found[0], errors="surrogatepass")


def _change(value: Any, draw: random.Random) -> Any:
    places = list(_places(value))
    if not places or draw.random() < 0.03:
        return draw.choice(WRONG_VALUES)
    holder, key = draw.choice(places)
    how = draw.randrange(6)
    if how == 0:
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[f"{key}_"] = holder.pop(key)
    elif how == 2:
        holder[key] = [holder[key]]
    else:
        holder[key] = draw.choice(WRONG_VALUES)
    return value


def _places(value: Any) -> Any:
    """(holder, key) of every value inside a tree; shallow ones are as likely as deep ones."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def change_yaml(path: Path, draw: random.Random, outside: Path) -> None:
    """One line of a YAML file is removed, gets another value, or a bomb or a nest follows it."""
    found = path.read_text().splitlines()
    at = draw.randrange(len(found))
    key = found[at].split(":")[0]
    values = ("", "~", "[1, 2]", "{a: 1}", "-1", "1e400", "nan", "x" * 500, "!!python/name:os.system", "*nobody")
    bomb = ["m0: &m0 {a: 1, b: 2}", *(f"m{k}: &m{k} {{<<: [{', '.join([f'*m{k - 1}'] * 9)}]}}" for k in range(1, 9))]
    how = draw.randrange(5)
    if how == 0:
        del found[at]
    elif how == 1:
        found += bomb
    elif how == 2:
        found.append("x: " + draw.choice(("[", "{a: ", "? ")) * draw.choice((50, 3000, 100_000)))
    else:
        found[at] = f"{key}: {draw.choice(values)}"
    path.write_text("\n".join(found) + "\n")


FOR_FILES: tuple[Damage, ...] = (
    truncate, truncate, flip_bits, flip_bits, random_bytes, insert_bytes, repeat_part, delete, to_folder, to_link,
    to_fifo, wrong_permissions, unwritable_folder, huge_sparse, foreign_neighbour,
)  # fmt: skip
FOR_LINES: tuple[Damage, ...] = (shuffle_lines, drop_lines, *(change_json,) * 10)
FOR_JSON: tuple[Damage, ...] = (change_json,) * 10
FOR_YAML: tuple[Damage, ...] = (change_yaml,) * 5
FOR_FOLDERS: tuple[Damage, ...] = (
    delete, to_file, to_link, to_link, to_fifo, wrong_permissions, unwritable_folder, foreign_neighbour,
)  # fmt: skip


def fitting(path: Path) -> tuple[Damage, ...]:
    """The ways to damage a file or a folder."""
    if path.is_dir():
        return FOR_FOLDERS
    extra = {".json": FOR_JSON, ".jsonl": FOR_LINES, ".yaml": FOR_YAML}.get(path.suffix, ())
    return FOR_FILES + (extra if path.stat().st_size else ())


def is_damageable(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
