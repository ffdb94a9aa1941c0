"""Each format gives back what was written with the package that people write it with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from recordings import Recorded, read_all, some_episodes, write_lerobot, write_libero, write_minari

from batchwright.envs import spaces
from batchwright.store.recorded import open_recording

Writer = Callable[[Path, list[Recorded]], Path]
FORMATS: dict[str, tuple[Writer, str, str, bool]] = {
    # name: writer, key of the vector, key of the images, whether the last observation is recorded
    "libero": (lambda p, r: write_libero(p / "task_demo.hdf5", r).parent, "ee_pos", "agentview_rgb", False),
    "minari-hdf5": (lambda p, r: write_minari(p, r, "hdf5"), "observation/state", "observation/camera", True),
    "minari-arrow": (lambda p, r: write_minari(p, r, "arrow"), "observation/state", "observation/camera", True),
    "minari-parquet": (lambda p, r: write_minari(p, r, "parquet"), "observation/state", "observation/camera", True),
    "lerobot-2.1": (lambda p, r: write_lerobot(p, r, "v2.1"), "observation.state", "observation.images.top", False),
    "lerobot-3.0": (lambda p, r: write_lerobot(p, r, "v3.0"), "observation.state", "observation.images.top", False),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_number_and_image_comes_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    write, vector, image, has_last = FORMATS[name]
    written = some_episodes(image_side=36)
    found = read_all(write(tmp_path / "data", written))
    assert len(found) == len(written)
    for episode, one in zip(found, written, strict=True):
        np.testing.assert_array_equal(episode.obs[vector][:-1], one.obs[:-1])
        np.testing.assert_array_equal(episode.obs[image][:-1], one.images[:-1])  # type: ignore[index]
        assert episode.obs[image].dtype == np.uint8
        # Where the recording ends with the last action, its observation stands in for the one after it.
        np.testing.assert_array_equal(episode.obs[vector][-1], one.obs[-1] if has_last else one.obs[-2])
        np.testing.assert_array_equal(next(iter(episode.action.values())), one.action)
        np.testing.assert_array_equal(episode.reward, one.reward)
        assert episode.terminated.tolist() == [False] * (len(one.action) - 1) + [True]


@pytest.mark.parametrize("name", FORMATS)
def test_only_the_chosen_keys_are_read(name: str, tmp_path: Path) -> None:
    write, vector, _, _ = FORMATS[name]
    found = read_all(write(tmp_path / "data", some_episodes(image_side=36)), obs_keys=(vector,))
    assert [list(episode.obs) for episode in found] == [[vector]] * 4


def test_recorded_next_observations_of_a_demonstration_are_used(tmp_path: Path) -> None:
    written = some_episodes()
    found = read_all(write_libero(tmp_path / "a.hdf5", written, with_next=True))
    np.testing.assert_array_equal(found[0].obs["ee_pos"], written[0].obs)


def test_demonstrations_of_several_files_come_in_the_order_of_files_and_numbers(tmp_path: Path) -> None:
    write_libero(tmp_path / "b.hdf5", some_episodes(1))
    write_libero(tmp_path / "a.hdf5", some_episodes(11))
    ids = [entry.id for entry in open_recording(tmp_path).entries]
    assert ids == [*(f"a.hdf5/demo_{k}" for k in range(11)), "b.hdf5/demo_0"]


def test_a_local_minari_dataset_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_minari(tmp_path / "point/mass-v0/data", some_episodes(2))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert len(open_recording("point/mass-v0").entries) == 2


def test_discrete_actions_of_minari_count_from_zero(tmp_path: Path) -> None:
    found = read_all(write_minari(tmp_path / "d", some_episodes(2), discrete=3))
    assert found[0].action["action"].tolist() == [0, 1, 2, 0, 1, 2]
    assert open_recording(tmp_path / "d").action_columns["action"] == spaces.Discrete(3, start=1)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_frames_of_a_video_belong_to_their_episode(version: str, tmp_path: Path) -> None:
    # Each episode has one colour; a video is lossy, so that colours are compared within a tolerance.
    written = []
    for colour, one in zip((30, 120, 220), some_episodes(3, image_side=48), strict=True):
        written.append(one._replace(images=np.full_like(one.images, colour)))  # type: ignore[arg-type]
    found = read_all(write_lerobot(tmp_path / "v", written, version, video=True))
    for colour, episode in zip((30, 120, 220), found, strict=True):
        images = episode.obs["observation.images.top"]
        assert images.shape[1:] == (48, 48, 3)
        assert np.abs(images.astype(int) - colour).max() < 12


def test_success_flags_give_flags_and_no_rewards(tmp_path: Path) -> None:
    written = some_episodes(6)
    found = read_all(write_lerobot(tmp_path / "s", written, reward=False, success=True))
    assert all(episode.reward is None for episode in found)
    assert [bool(episode.success.any()) for episode in found] == [bool(one.reward[-1] > 0) for one in written]  # type: ignore[union-attr]


def test_infos_of_minari_can_be_the_success_flag(tmp_path: Path) -> None:
    written = some_episodes(6)
    found = read_all(write_minari(tmp_path / "m", written), success_key="infos/success")
    assert [bool(episode.success[-1]) for episode in found] == [bool(one.reward[-1] > 0) for one in written]  # type: ignore[index]
