"""Bad recordings are refused with one message that names the file, and what is there instead."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from recordings import read_all, some_episodes, write_lerobot, write_libero, write_minari

from batchwright.core.errors import UserError
from batchwright.store.recorded import open_recording


def refusal(path: Path, **wishes: object) -> str:
    with pytest.raises(UserError) as caught:
        read_all(path, **wishes)
    return str(caught.value)


def test_a_corrupt_demonstration_file_is_named(tmp_path: Path) -> None:
    write_libero(tmp_path / "good.hdf5", some_episodes())
    (tmp_path / "torn.hdf5").write_bytes((tmp_path / "good.hdf5").read_bytes()[:900])
    assert "torn.hdf5 cannot be read as HDF5" in refusal(tmp_path)


def test_an_empty_demonstration_file_is_named(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "empty.hdf5", "w") as handle:
        handle.create_group("data")
    assert "empty.hdf5 has no demonstrations" in refusal(tmp_path)
    with h5py.File(tmp_path / "empty.hdf5", "w"):
        pass
    assert "empty.hdf5 has no group 'data'" in refusal(tmp_path)


def test_demonstrations_of_other_shapes_are_named_with_both_shapes(tmp_path: Path) -> None:
    write_libero(tmp_path / "a.hdf5", some_episodes(2))
    wide = [one._replace(obs=np.tile(one.obs, 2)) for one in some_episodes(1)]
    write_libero(tmp_path / "b.hdf5", wide)
    said = refusal(tmp_path)
    assert "b.hdf5, demo_0: ee_pos has shape (6,)" in said
    assert "a.hdf5, demo_0 it has (3,)" in said


def test_observations_fewer_than_actions_are_named(tmp_path: Path) -> None:
    short = [one._replace(obs=one.obs[:-2]) for one in some_episodes(1)]
    assert "demo_0: ee_pos has shape (5, 3), where (7, 3) is expected" in refusal(
        write_libero(tmp_path / "a.hdf5", short)
    )


@pytest.mark.parametrize("name", ["libero", "minari", "lerobot"])
def test_a_value_that_is_not_a_number_is_named_by_file_episode_and_step(name: str, tmp_path: Path) -> None:
    recorded = some_episodes(3)
    recorded[1].obs[4, 2] = np.nan
    path, file, episode = {
        "libero": lambda: (write_libero(tmp_path / "a.hdf5", recorded), "a.hdf5", "a.hdf5/demo_1"),
        "minari": lambda: (write_minari(tmp_path / "m", recorded), "main_data.hdf5", "1"),
        "lerobot": lambda: (write_lerobot(tmp_path / "l", recorded), "file-000.parquet", "1"),
    }[name]()
    assert f"{file}, episode {episode}, step 4" in refusal(path)


def test_a_reward_that_is_not_a_number_is_named(tmp_path: Path) -> None:
    recorded = some_episodes(2)
    recorded[0].reward[3] = np.inf
    assert "demo_0, step 3: rewards is inf" in refusal(write_libero(tmp_path / "a.hdf5", recorded))


def test_missing_keys_are_told_with_those_that_exist(tmp_path: Path) -> None:
    path = write_libero(tmp_path / "a.hdf5", some_episodes(image_side=36))
    assert "there are agentview_rgb, ee_pos" in refusal(path, obs_keys=("agentview",))
    assert "--obs-keys agentview_rgb" in refusal(path, obs_keys=("agentview",))
    assert "there are dones, rewards" in refusal(path, reward_key="return")
    assert "there are actions" in refusal(path, action_key="act")


def test_a_recording_without_rewards_says_how_to_give_returns(tmp_path: Path) -> None:
    said = refusal(write_lerobot(tmp_path / "l", some_episodes(), reward=False))
    assert "has no 'next.reward'" in said
    assert "next.done" in said
    assert "--returns FILE" in said


def test_a_corrupt_minari_dataset_is_named(tmp_path: Path) -> None:
    path = write_minari(tmp_path / "m", some_episodes())
    (path / "main_data.hdf5").write_bytes(b"not HDF5")
    assert f"{path} cannot be read as a Minari dataset" in refusal(path)
    (path / "metadata.json").write_text("{")
    assert "metadata.json cannot be read" in refusal(path)


def test_a_minari_dataset_without_its_spaces_makes_no_environment(tmp_path: Path) -> None:
    path = write_minari(tmp_path / "m", some_episodes())
    about = json.loads((path / "metadata.json").read_text())
    del about["observation_space"]
    (path / "metadata.json").write_text(json.dumps(about))
    assert "metadata.json has no observation_space" in refusal(path)


def test_a_minari_dataset_without_episodes_is_refused(tmp_path: Path) -> None:
    path = write_minari(tmp_path / "m", some_episodes())
    about = json.loads((path / "metadata.json").read_text())
    (path / "metadata.json").write_text(json.dumps(about | {"total_episodes": 0}))
    assert "holds no episodes" in refusal(path)


def test_corrupt_and_empty_files_of_lerobot_are_named(tmp_path: Path) -> None:
    path = write_lerobot(tmp_path / "l", some_episodes(), "v2.1")
    file = path / "data/chunk-000/episode_000002.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:100])
    assert "episode_000002.parquet cannot be read as Parquet" in refusal(path)
    pyarrow.parquet.write_table(pyarrow.table({"episode_index": pyarrow.array([], pyarrow.int64())}), file)
    assert "episode_000002.parquet has no rows" in refusal(path)
    file.unlink()
    assert "tells of 4 episodes, the data files hold 3" in refusal(path)
    file.write_bytes(whole)
    (path / "meta/info.json").write_text("[]")
    assert "info.json cannot be read" in refusal(path)


def test_an_image_of_lerobot_that_is_torn_is_named_by_episode_and_step(tmp_path: Path) -> None:
    path = write_lerobot(tmp_path / "l", some_episodes(2, image_side=36), "v2.1")
    file = path / "data/chunk-000/episode_000001.parquet"
    table = pyarrow.parquet.read_table(file)
    images = table["observation.images.top"].to_pylist()
    images[3]["bytes"] = images[3]["bytes"][:20]
    index = table.column_names.index("observation.images.top")
    pyarrow.parquet.write_table(table.set_column(index, "observation.images.top", pyarrow.array(images)), file)
    assert "episode_000001.parquet, episode 1, step 3: an image cannot be decoded" in refusal(path)


def test_a_video_that_is_missing_or_too_short_is_named(tmp_path: Path) -> None:
    path = write_lerobot(tmp_path / "l", some_episodes(2, image_side=48), "v2.1", video=True)
    folder = path / "videos/chunk-000/observation.images.top"
    (folder / "episode_000001.mp4").write_bytes((folder / "episode_000000.mp4").read_bytes())
    assert "episode_000001.mp4 has 6 frames from second 0 on; the episode has 7" in refusal(path)
    (folder / "episode_000000.mp4").unlink()
    assert "episode_000000.mp4 cannot be decoded" in refusal(path)


def test_an_older_layout_of_lerobot_is_refused(tmp_path: Path) -> None:
    path = write_lerobot(tmp_path / "l", some_episodes())
    info = json.loads((path / "meta/info.json").read_text())
    (path / "meta/info.json").write_text(json.dumps(info | {"codebase_version": "v1.6"}))
    assert "layout v1.6 is not read" in refusal(path)


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    assert "holds no recorded episodes" in refusal(tmp_path)
    with pytest.raises(UserError, match="does not exist, and no local Minari dataset has that id"):
        open_recording(tmp_path / "nowhere")
