"""Episodes end to end: what is drawn belongs together, and only to the episodes that may be drawn from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recordings import some_episodes, write_libero

from batchwright.store.recorded import choose, open_recording
from batchwright.store.recorded.bank import Bank


def make_bank(folder: Path, disk: Path | None = None) -> Bank:
    recorded = some_episodes(5, steps=3)
    recording = open_recording(write_libero(folder / "a.hdf5", recorded, with_next=True))
    returns = np.array([one.reward.sum(dtype=np.float64) for one in recorded])
    return Bank(recording, choose(recording), recording.entries, returns, disk)


def test_a_drawn_row_is_the_step_of_its_episode(tmp_path: Path) -> None:
    bank, written = make_bank(tmp_path), some_episodes(5, steps=3)
    found = bank.steps(np.array([0, 3, 4]), np.array([2, 0, 6]))
    for k, (episode, step) in enumerate([(0, 2), (3, 0), (4, 6)]):
        np.testing.assert_array_equal(found.obs["ee_pos"][k], written[episode].obs[step])
        np.testing.assert_array_equal(found.next_obs["ee_pos"][k], written[episode].obs[step + 1])
        np.testing.assert_array_equal(found.action[k], written[episode].action[step])


def test_draws_stay_within_the_episodes_that_are_learned_from(tmp_path: Path) -> None:
    bank = make_bank(tmp_path)
    drawn = bank.draw(np.random.default_rng(0), np.array([1, 3]), 50, 2, 4, whole=False)
    assert drawn.steps.obs["ee_pos"].shape == (50, 2, 4, 3)
    assert set(np.unique(drawn.episode_length)) == {4, 6}
    assert set(np.unique(drawn.episode_return)) == {bank.return_E[1], bank.return_E[3]}


def test_whole_episodes_are_padded_and_the_padding_is_masked(tmp_path: Path) -> None:
    bank = make_bank(tmp_path)
    drawn = bank.draw(np.random.default_rng(0), np.arange(5), 8, 2, 7, whole=True)
    np.testing.assert_array_equal(drawn.mask.sum(-1), drawn.episode_length)


def test_arrays_on_disk_hold_what_arrays_in_ram_hold(tmp_path: Path) -> None:
    ram, disk = make_bank(tmp_path), make_bank(tmp_path, tmp_path / "frames")
    np.testing.assert_array_equal(ram.obs["ee_pos"], disk.obs["ee_pos"])
    assert (tmp_path / "frames" / "ee_pos.npy").is_file()


def test_the_bytes_held_are_the_planned_ones(tmp_path: Path) -> None:
    # Lengths 3..7: 25 steps, 30 observations of 3 float32, 25 actions of 2 and 25 rewards.
    assert make_bank(tmp_path).held_bytes == 30 * 12 + 25 * 8 + 25 * 4


@pytest.mark.parametrize("missing", [0, 4])
def test_the_last_observation_of_an_episode_is_never_the_first_of_the_next(missing: int, tmp_path: Path) -> None:
    bank, written = make_bank(tmp_path), some_episodes(5, steps=3)
    last = int(bank.length_E[missing]) - 1
    found = bank.steps(np.array([missing]), np.array([last]))
    np.testing.assert_array_equal(found.next_obs["ee_pos"][0], written[missing].obs[-1])
