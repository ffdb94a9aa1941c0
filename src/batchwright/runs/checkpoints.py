"""Checkpoints: named arrays with a hash, written beside and renamed; loading one runs no code.

A checkpoint is a folder `checkpoints/<iteration>/` with `state.npz` (plain arrays, no pickles) and `manifest.json` (its
SHA-256, the iteration, the versions). The last one whose hash is right is used; a damaged one is said and passed over.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import sync_folder, write_atomically

KEPT = 3
STATE, ACTIONS, STEPS = "state.npz", "actions.npy", "steps.npy"
SHARED = "shared"
"""The folder of files that several checkpoints need, such as parts of a replay buffer; unneeded ones are removed."""
FORMAT = 2


def save(
    folder: Path,
    iteration: int,
    state: Any,
    about: dict[str, Any],
    extra: dict[str, list[np.ndarray]] | None = None,
    shared: dict[str, str] | None = None,
) -> Path:
    """Writes one checkpoint whole or not at all, then removes all but the newest few; `extra` arrays lie beside it.

    `shared` are the SHA-256 of files that are already in the folder `SHARED` and that this checkpoint needs.
    """
    files = {STATE: _pack(state)} | {name: _array_bytes(arrays) for name, arrays in (extra or {}).items()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"format": FORMAT, "iteration": iteration, "sha256": hashes, "shared": shared or {}, **about}
    final = folder / f"{iteration:09d}"
    partial = folder / f".{iteration:09d}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        for name, data in files.items():
            write_atomically(partial / name, data)
        write_atomically(partial / "manifest.json", json.dumps(manifest, indent=2).encode())
        shutil.rmtree(final, ignore_errors=True)
        partial.rename(final)
        sync_folder(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    for old in _found(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    _sweep_shared(folder)
    return final


def _sweep_shared(folder: Path) -> None:
    """Removes shared files that no kept checkpoint needs; a manifest that cannot be read keeps them all."""
    try:
        manifests = [json.loads((path / "manifest.json").read_text()) for path in _found(folder)]
        needed = {name for manifest in manifests for name in manifest["shared"]}
    except (OSError, ValueError, KeyError, TypeError):
        return
    for path in (folder / SHARED).glob("*"):
        if path.name not in needed:
            path.unlink(missing_ok=True)


def load_last(
    folder: Path, template: Any, on_warning: Callable[[str], None]
) -> tuple[Any, dict[str, Any], Path] | None:
    """(state, manifest, folder) of the newest checkpoint that is whole; None where there is none."""
    found = _newest_whole(folder, on_warning)
    if found is None:
        return None
    arrays, manifest, path = found
    return _arrange(arrays, template), manifest, path


def load_named(folder: Path, on_warning: Callable[[str], None]) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """(arrays by path, manifest) of the newest whole checkpoint: for those who need the policy and not the run."""
    found = _newest_whole(folder, on_warning)
    return found and found[:2]


def _newest_whole(
    folder: Path, on_warning: Callable[[str], None]
) -> tuple[dict[str, np.ndarray], dict[str, Any], Path] | None:
    paths = _found(folder)
    while paths:
        path = paths.pop()
        try:
            manifest = json.loads((path / "manifest.json").read_text())
            whole = [(path / name, wanted) for name, wanted in manifest["sha256"].items()]
            whole += [(folder / SHARED / name, wanted) for name, wanted in manifest["shared"].items()]
            for file, wanted in whole:
                if sha256_of(file) != wanted:
                    raise ValueError(f"the hash of {file.name} is wrong")
            with np.load(path / STATE, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}, manifest, path
        except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as error:
            instead = f"using {paths[-1].name}, the one before it" if paths else "there is none before it"
            on_warning(f"checkpoint {path.name} is damaged ({error}); {instead}")
    return None


def pack_actions(actions: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """The actions [T, N, D] of several iterations step by step, and the steps T of each: they may differ."""
    return {ACTIONS: list(np.concatenate(actions)), STEPS: [np.array(len(action)) for action in actions]}


def load_actions(folder: Path) -> list[np.ndarray]:
    """The actions [T, N, D] of each iteration since the engine was started."""
    actions, steps = (np.load(folder / name, allow_pickle=False) for name in (ACTIONS, STEPS))
    return np.split(actions, np.cumsum(steps)[:-1])


def sha256_of(file: Path) -> str:
    """The SHA-256 of a file's content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _found(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("[0-9]*") if path.is_dir()) if folder.is_dir() else []


def _array_bytes(arrays: list[np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.stack(arrays) if arrays else np.zeros((0, 0, 0, 0), np.float32), allow_pickle=False)
    return buffer.getvalue()


def _pack(state: Any) -> bytes:
    named = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(state)}
    buffer = io.BytesIO()
    np.savez(buffer, **named)  # type: ignore[arg-type]
    return buffer.getvalue()


def _arrange(stored: dict[str, np.ndarray], template: Any) -> Any:
    """The arrays in the shape of the template; another shape means other settings or other code."""
    paths, structure = jax.tree_util.tree_flatten_with_path(template)
    names = [jax.tree_util.keystr(path) for path, _ in paths]
    missing, extra = sorted(set(names) - set(stored)), sorted(set(stored) - set(names))
    if missing or extra:
        raise UserError(
            f"the checkpoint was made by other settings or another version: it lacks {missing[:3]}, has {extra[:3]}.",
            ["train anew in another --run-dir"],
        )
    for name, (_, wanted) in zip(names, paths, strict=True):
        if stored[name].shape != np.shape(wanted):
            raise UserError(
                f"the checkpoint's {name} has shape {stored[name].shape}, the run needs {np.shape(wanted)}.",
                ["train anew in another --run-dir"],
            )
    return jax.tree_util.tree_unflatten(structure, [stored[name] for name in names])
