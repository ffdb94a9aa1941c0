"""Checkpoints: named arrays with a hash, written beside and renamed; loading one runs no code.

A checkpoint is a folder `checkpoints/<iteration>/` with `state.npz` (plain arrays, no pickles) and `manifest.json` (its
SHA-256, the iteration, the versions). The last one whose hash is right is used; a damaged one is said and passed over.
Other folders beside them are the user's: they are neither counted nor removed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from batchwright.core.errors import UserError
from batchwright.core.files import remove_folder, write_atomically
from batchwright.core.safe_open import explain_refusal, make_folder, names_in, open_folder, open_plain, read_json
from batchwright.data.plain_arrays import read_npy, read_npz

KEPT = 3
STATE, ACTIONS, STEPS = "state.npz", "actions.npy", "steps.npy"
SHARED = "shared"
"""The folder of files that several checkpoints need, such as parts of a replay buffer; unneeded ones are removed."""
FORMAT = 2
MANIFEST = "manifest.json"
_NAME = re.compile(r"[0-9]{9}|[1-9][0-9]{9,}")
_SHARED_NAME = re.compile(r"[0-9]{12,}-[0-9]{12,}\.npz")
_IN_CHECKPOINTS, _IN_CHECKPOINT = 2, 3  # parts below the run directory: checkpoints/NAME, checkpoints/NAME/FILE


def save(
    folder: Path,
    iteration: int,
    state: Any,
    about: dict[str, Any],
    extra: dict[str, list[np.ndarray]] | None = None,
    shared: dict[str, str] | None = None,
    kept: int = KEPT,
) -> Path:
    """Writes one checkpoint whole or not at all, then removes all but the newest `kept`; `extra` lies beside it.

    `shared` are the SHA-256 of files that are already in the folder `SHARED` and that this checkpoint needs.
    """
    files = {STATE: _pack(state)} | {name: _array_bytes(arrays) for name, arrays in (extra or {}).items()}
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    manifest = {"format": FORMAT, "iteration": iteration, "sha256": hashes, "shared": shared or {}, **about}
    final = folder / f"{iteration:09d}"
    partial = folder / f".{iteration:09d}.partial"
    remove_folder(partial, _IN_CHECKPOINTS)
    make_folder(partial, _IN_CHECKPOINTS)
    try:
        for name, data in files.items():
            write_atomically(partial / name, data, _IN_CHECKPOINT)
        write_atomically(partial / MANIFEST, json.dumps(manifest, indent=2).encode(), _IN_CHECKPOINT)
        remove_folder(final, _IN_CHECKPOINTS)
        with open_folder(folder, 1) as handle:
            os.rename(partial.name, final.name, src_dir_fd=handle, dst_dir_fd=handle)
            os.fsync(handle)
    except BaseException:
        remove_folder(partial, _IN_CHECKPOINTS)
        raise
    others = [path for path in _found(folder) if path != final]
    for old in others[: max(0, len(others) - kept + 1)]:
        remove_folder(old, _IN_CHECKPOINTS)
    _sweep_shared(folder)
    return final


def _sweep_shared(folder: Path) -> None:
    """Removes shared files that no kept checkpoint needs; a manifest that cannot be read keeps them all."""
    try:
        manifests = [read_json(path / MANIFEST, _IN_CHECKPOINT) for path in _found(folder)]
        needed = {name for manifest in manifests for name in manifest["shared"]}
    except (OSError, ValueError, KeyError, TypeError):
        return
    unneeded = [name for name in names_in(folder / SHARED, 2) if _SHARED_NAME.fullmatch(name) and name not in needed]
    if unneeded:
        with open_folder(folder / SHARED, 2) as handle:
            for name in unneeded:
                os.unlink(name, dir_fd=handle)


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


def load_iteration(folder: Path, iteration: int) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """(arrays by path, manifest) of the checkpoint after so many iterations; None where it is not kept or damaged."""
    path = folder / f"{iteration:09d}"
    if path not in _found(folder):
        return None
    try:
        return _read_whole(folder, path)
    except (OSError, ValueError):
        return None


def kept_iterations(folder: Path) -> list[int]:
    """After how many iterations each checkpoint was made, the oldest first; damaged ones are counted too."""
    return [int(path.name) for path in _found(folder)]


def _read_whole(folder: Path, path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the manifest of one checkpoint; OSError or ValueError where it is damaged."""
    manifest = _read_manifest(path)
    _check_hashes(folder, path, manifest)
    arrays = read_npz(path / STATE, _IN_CHECKPOINT)
    _check_counters(arrays, manifest)
    return arrays, manifest


def _newest_whole(
    folder: Path, on_warning: Callable[[str], None]
) -> tuple[dict[str, np.ndarray], dict[str, Any], Path] | None:
    paths = _found(folder)
    while paths:
        path = paths.pop()
        try:
            return *_read_whole(folder, path), path
        except (OSError, ValueError) as error:
            instead = f"using {paths[-1].name}, the one before it" if paths else "there is none before it"
            on_warning(f"checkpoint {path.name} is damaged ({_reason(error)}); {instead}")
    return None


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint with every field that is used; ValueError where one is missing or wrong."""
    manifest = read_json(path / MANIFEST, _IN_CHECKPOINT)
    if not isinstance(manifest, dict):
        raise ValueError("its manifest is no mapping")
    written = manifest.get("format")
    if type(written) is int and written > FORMAT:
        raise UserError(
            f"{path} has format {written}; this version of Batchwright reads format {FORMAT}.",
            ["pip install --upgrade batchwright", f"move {path} away to use the one before it"],
        )
    if written != FORMAT:
        raise ValueError(f"its format is {written!r}, not {FORMAT}")
    if type(manifest.get("iteration")) is not int or manifest["iteration"] != int(path.name):
        raise ValueError("its manifest states another iteration")
    for name in ("sha256", "shared", "versions"):
        entries = manifest.get(name)
        if not isinstance(entries, dict) or not all(isinstance(value, str) for value in entries.values()):
            raise ValueError(f"its manifest has no {name}")
    names = (*manifest["sha256"], *manifest["shared"])
    if STATE not in names or any(Path(name).name != name or "\0" in name for name in names):
        raise ValueError("its manifest names no files of a checkpoint")
    return manifest


def _check_hashes(folder: Path, path: Path, manifest: dict[str, Any]) -> None:
    whole = [(path / name, wanted) for name, wanted in manifest["sha256"].items()]
    whole += [(folder / SHARED / name, wanted) for name, wanted in manifest["shared"].items()]
    for file, wanted in whole:
        if sha256_of(file, _IN_CHECKPOINT) != wanted:
            raise ValueError(f"the hash of {file.name} is wrong")


def _check_counters(arrays: dict[str, np.ndarray], manifest: dict[str, Any]) -> None:
    """Counters are whole, not negative, and agree with the manifest; ValueError otherwise."""
    for name, array in arrays.items():
        if name.startswith(".counters.") and (array.shape != () or array.dtype.kind != "i" or array < 0):
            raise ValueError(f"{name} is {str(array)[:40]}, not a count")
    iteration = arrays.get(".counters.iteration")
    if iteration is not None and int(iteration) != manifest["iteration"]:
        raise ValueError("its arrays are of another iteration than its manifest")


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        name = Path(str(error.filename)).name if error.filename else ""
        text = f"{name[:100]}: {error.strerror}" if name else error.strerror
    return text[:200] or type(error).__name__


def pack_actions(actions: list[np.ndarray]) -> dict[str, list[np.ndarray]]:
    """The actions [T, N, D] of several iterations step by step, and the steps T of each: they may differ."""
    return {ACTIONS: list(np.concatenate(actions)), STEPS: [np.array(len(action)) for action in actions]}


def load_actions(folder: Path) -> list[np.ndarray]:
    """The actions [T, N, D] of each iteration since the engine was started."""
    actions, steps = (read_npy(folder / name, _IN_CHECKPOINT) for name in (ACTIONS, STEPS))
    return np.split(actions, np.cumsum(steps)[:-1])


def sha256_of(file: Path, below: int) -> str:
    """The SHA-256 of a file's content."""
    with os.fdopen(open_plain(file, below=below), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def has_any(folder: Path) -> bool:
    """Whether there is a checkpoint, whole or damaged."""
    return bool(_found(folder))


def _found(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first; a link in place of one is refused when it is opened."""
    with explain_refusal(folder, "read", f"make {folder} readable"):
        names = [name for name in names_in(folder, 1) if _NAME.fullmatch(name)]
    return [folder / name for name in sorted(names, key=int)]


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
        kind = wanted.dtype if hasattr(wanted, "dtype") else np.asarray(wanted).dtype
        if stored[name].dtype.kind != kind.kind:
            raise UserError(
                f"the checkpoint's {name} holds {stored[name].dtype}, the run needs {kind}.",
                ["train anew in another --run-dir"],
            )
    return jax.tree_util.tree_unflatten(structure, [stored[name] for name in names])
