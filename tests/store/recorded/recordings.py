"""Small recordings in each real format, written with the packages that people write them with, and read back."""

# E episodes, T steps, D numbers of an observation.

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage
from PIL import Image

from batchwright.store.recorded import Episode, choose, episodes, open_recording


def read_all(path: Path, **wishes: Any) -> list[Episode]:
    """Every episode of a recording, with the keys that `choose` is asked for."""
    recording = open_recording(path)
    return list(episodes(recording, choose(recording, **wishes), recording.entries))


class Recorded(NamedTuple):
    """One episode to write."""

    obs: np.ndarray  # [T + 1, D]
    action: np.ndarray  # [T, A]
    reward: np.ndarray  # [T]
    images: np.ndarray | None = None  # [T + 1, height, width, 3] uint8


def some_episodes(count: int = 4, steps: int = 6, image_side: int = 0, seed: int = 0) -> list[Recorded]:
    """Episodes of `steps`, `steps` + 1, ... steps with random numbers."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(count):
        length = steps + k
        images = rng.integers(0, 256, (length + 1, image_side, image_side, 3), np.uint8) if image_side else None
        found.append(
            Recorded(
                rng.standard_normal((length + 1, 3)).astype(np.float32),
                rng.standard_normal((length, 2)).astype(np.float32),
                rng.standard_normal(length).astype(np.float32),
                images,
            )
        )
    return found


def point_mass(count: int, steps: int, seed: int = 0) -> list[Recorded]:
    """A point in the plane pushed at random from a random start; its reward is minus the distance to the origin."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        length = int(rng.integers(steps // 2, steps + 1))
        action = rng.uniform(-1, 1, (length, 2)) + rng.uniform(-0.4, 0.4, 2)
        position = rng.uniform(-2, 2, 2) + 0.2 * np.concatenate([np.zeros((1, 2)), np.cumsum(action, 0)])
        reward = -np.linalg.norm(position[1:], axis=-1)
        found.append(Recorded(position.astype(np.float32), action.astype(np.float32), reward.astype(np.float32)))
    return found


def write_libero(
    file: Path, recorded: Sequence[Recorded], *, with_next: bool = False, rewards: Sequence[Any] | None = None
) -> Path:
    """Robomimic's layout as LIBERO has it: data/demo_k/{obs/..., actions, rewards, dones}."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(file, "w") as handle:
        data = handle.create_group("data")
        for k, one in enumerate(recorded):
            demo = data.create_group(f"demo_{k}")
            steps = len(one.action)
            demo.attrs["num_samples"] = steps
            demo["actions"] = one.action.astype(np.float64)
            demo["rewards"] = one.reward if rewards is None else rewards[k]
            demo["dones"] = (np.arange(steps) == steps - 1).astype(np.uint8)
            demo["obs/ee_pos"] = one.obs[:-1].astype(np.float64)
            if one.images is not None:
                demo["obs/agentview_rgb"] = one.images[:-1]
            if with_next:
                demo["next_obs/ee_pos"] = one.obs[1:].astype(np.float64)
    return file


def write_minari(folder: Path, recorded: Sequence[Recorded], data_format: str = "hdf5", discrete: int = 0) -> Path:
    """A Minari dataset by Minari's own storage; with images the observation is a Dict."""
    folder.mkdir(parents=True, exist_ok=True)
    vector = gymnasium.spaces.Box(-np.inf, np.inf, recorded[0].obs.shape[1:], np.float32)
    space: gymnasium.Space[Any] = vector
    if recorded[0].images is not None:
        image = gymnasium.spaces.Box(0, 255, recorded[0].images.shape[1:], np.uint8)
        space = gymnasium.spaces.Dict({"camera": image, "state": vector})
    width = recorded[0].action.shape[1:]
    action: gymnasium.Space[Any] = (
        gymnasium.spaces.Discrete(discrete, start=1)
        if discrete
        else gymnasium.spaces.Box(-np.inf, np.inf, width, np.float32)
    )
    storage = MinariStorage.new(folder, space, action, data_format=data_format, jpeg_encoding=False)
    buffers = []
    for one in recorded:
        steps = len(one.action)
        last = np.arange(steps) == steps - 1
        buffers.append(
            EpisodeBuffer(
                observations={"camera": one.images, "state": one.obs} if one.images is not None else one.obs,
                actions=np.arange(steps) % discrete + 1 if discrete else one.action,
                rewards=list(one.reward),
                terminations=list(last),
                truncations=[False] * steps,
                infos={"success": [False, *(bool(end) and bool(one.reward[-1] > 0) for end in last)]},
            )
        )
    storage.update_episodes(buffers)
    return folder


def png(image: np.ndarray) -> bytes:
    """An image as the bytes of a PNG."""
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()


def write_lerobot(
    folder: Path,
    recorded: Sequence[Recorded],
    version: str = "v3.0",
    *,
    reward: bool = True,
    success: bool = False,
    video: bool = False,
) -> Path:
    """LeRobot's layout: one file per episode in v2.1, all in one in v3.0; images in Parquet, or in videos."""
    tables = []
    for k, one in enumerate(recorded):
        steps = len(one.action)
        columns: dict[str, Any] = {
            "observation.state": pyarrow.array(list(one.obs[:-1]), pyarrow.list_(pyarrow.float32(), one.obs.shape[1])),
            "action": pyarrow.array(list(one.action), pyarrow.list_(pyarrow.float32(), one.action.shape[1])),
            "timestamp": pyarrow.array(np.arange(steps, dtype=np.float32) / 10),
            "frame_index": np.arange(steps),
            "episode_index": np.full(steps, k),
            "index": np.arange(steps),
            "task_index": np.zeros(steps, np.int64),
            "next.done": np.arange(steps) == steps - 1,
        }
        if reward:
            columns["next.reward"] = one.reward
        if success:
            columns["next.success"] = (np.arange(steps) == steps - 1) & (one.reward[-1] > 0)
        if one.images is not None and not video:
            columns["observation.images.top"] = [{"bytes": png(image), "path": None} for image in one.images[:-1]]
        tables.append(pyarrow.table(columns))
    _write_tables(folder, tables, version)
    _write_info(folder, recorded, version, reward, success, video)
    if video:
        _write_videos(folder, recorded, version)
    return folder


def _write_tables(folder: Path, tables: list[pyarrow.Table], version: str) -> None:
    data = folder / "data" / "chunk-000"
    data.mkdir(parents=True)
    if version == "v3.0":
        pyarrow.parquet.write_table(pyarrow.concat_tables(tables), data / "file-000.parquet", row_group_size=5)
        return
    for k, table in enumerate(tables):
        pyarrow.parquet.write_table(table, data / f"episode_{k:06d}.parquet")


def _write_info(
    folder: Path, recorded: Sequence[Recorded], version: str, reward: bool, success: bool, video: bool
) -> None:
    one = {"dtype": "int64", "shape": [1], "names": None}
    features: dict[str, Any] = {
        "observation.state": {"dtype": "float32", "shape": [recorded[0].obs.shape[1]], "names": None},
        "action": {"dtype": "float32", "shape": [recorded[0].action.shape[1]], "names": None},
        "timestamp": {**one, "dtype": "float32"},
        **dict.fromkeys(("frame_index", "episode_index", "index", "task_index"), one),
        "next.done": {**one, "dtype": "bool"},
    }
    features |= {"next.reward": {**one, "dtype": "float32"}} if reward else {}
    features |= {"next.success": {**one, "dtype": "bool"}} if success else {}
    if recorded[0].images is not None:
        side = recorded[0].images.shape[1]
        features["observation.images.top"] = {
            "dtype": "video" if video else "image",
            "shape": [3, side, side],
            "names": ["channels", "height", "width"],
        }
    new = version == "v3.0"
    info = {
        "codebase_version": version,
        "total_episodes": len(recorded),
        "fps": 10,
        "chunks_size": 1000,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        if new
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if new
        else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": features,
    }
    (folder / "meta").mkdir(parents=True, exist_ok=True)
    (folder / "meta/info.json").write_text(json.dumps(info))


def _write_videos(folder: Path, recorded: Sequence[Recorded], version: str) -> None:
    key = "observation.images.top"
    pictures = [one.images[:-1] for one in recorded if one.images is not None]
    if version != "v3.0":
        for k, images in enumerate(pictures):
            write_video(folder / f"videos/chunk-000/{key}/episode_{k:06d}.mp4", images)
        return
    write_video(folder / f"videos/{key}/chunk-000/file-000.mp4", np.concatenate(pictures))
    starts = np.cumsum([0, *(len(images) for images in pictures)])[:-1] / 10
    episodes = pyarrow.table(
        {
            "episode_index": np.arange(len(pictures)),
            f"videos/{key}/chunk_index": np.zeros(len(pictures), np.int64),
            f"videos/{key}/file_index": np.zeros(len(pictures), np.int64),
            f"videos/{key}/from_timestamp": starts,
        }
    )
    file = folder / "meta/episodes/chunk-000/file-000.parquet"
    file.parent.mkdir(parents=True)
    pyarrow.parquet.write_table(episodes, file)


def write_video(file: Path, images: np.ndarray, frames_per_second: int = 10) -> None:
    """An MP4 file."""
    import av

    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w") as container:
        stream = container.add_stream("mpeg4", rate=frames_per_second)
        stream.height, stream.width, stream.pix_fmt = images.shape[1], images.shape[2], "yuv420p"
        for image in images:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode())
