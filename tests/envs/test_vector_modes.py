"""Claims about third-party vector environments: each autoreset mode gives the true last observation."""

# T time, N envs

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from driving import SAMPLES, drive

from batchwright.core.errors import UserError
from batchwright.envs.gymnasium_source import load_user_file

Make = Any


@pytest.fixture(autouse=True)
def _register() -> None:
    """The sample file registers Counter-<mode>-v0; environment i ends after 3 + i steps."""
    load_user_file(SAMPLES)


def zeros(obs: Any) -> Any:
    return np.zeros(len(obs), np.int32)


def test_next_step_shows_the_last_observation_and_then_the_reset(make: Make) -> None:
    made = make("Counter-next_step-v0", 2, "gymnasium-vector", info_keys=("twice",))
    run = drive(made, zeros, 8)
    assert made.autoreset == "next" and run.final_obs is None
    assert run.obs[:, 0, 1].tolist() == [1, 2, 3, 0, 1, 2, 3, 0]
    assert run.obs[:, 1, 1].tolist() == [1, 2, 3, 4, 0, 1, 2, 3]
    assert run.reward[:, 0].tolist() == [1, 2, 3, 0, 1, 2, 3, 0]
    assert np.flatnonzero(run.terminated[:, 1]).tolist() == [3]
    np.testing.assert_array_equal(run.extras["twice"][:, 0], [2, 4, 6, np.nan, 2, 4, 6, np.nan])


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_same_step_and_disabled_hand_the_last_observation_over_apart(make: Make, mode: str) -> None:
    made = make(f"Counter-{mode}-v0", 2, "gymnasium-vector", info_keys=("twice",))
    run = drive(made, zeros, 7)
    assert made.autoreset == "same"
    # The observation after an end is already the next episode's first; no row is lost.
    assert run.obs[:, 0, 1].tolist() == [1, 2, 0, 1, 2, 0, 1]
    assert run.reward[:, 0].tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert np.flatnonzero(run.terminated[:, 0]).tolist() == [2, 5]
    assert run.final_obs[[2, 5], 0, 1].tolist() == [3, 3] and run.final_obs[3, 1, 1] == 4
    # The last observation still shows the number drawn for the old episode.
    assert run.final_obs[2, 0, 0] == run.first[0, 0] != run.obs[2, 0, 0]
    np.testing.assert_array_equal(run.extras["twice"][:, 0], [2, 4, 6, 2, 4, 6, 2])


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_where_both_flags_are_set_terminated_wins(make: Make, mode: str) -> None:
    made = make(f"Counter-{mode}-v0", 2, "gymnasium-vector", env_kwargs={"truncated": True})
    run = drive(made, zeros, 4)
    assert run.terminated.any() and not run.truncated.any()


@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_a_truncation_alone_stays_one(make: Make, mode: str) -> None:
    kwargs = {"terminated": False, "truncated": True}
    run = drive(make(f"Counter-{mode}-v0", 2, "gymnasium-vector", env_kwargs=kwargs), zeros, 4)
    assert run.truncated.any() and not run.terminated.any()


def test_raising_in_step_is_said_with_the_environments_words(make: Make) -> None:
    made = make("Counter-next_step-v0", 1, "gymnasium-vector")
    made.start(0)
    with pytest.raises(UserError, match=r"raised in step: AssertionError: .*99.* is not in"):
        made.step(np.array([94], np.int32))


def test_an_undeclared_mode_is_refused(make: Make) -> None:
    with pytest.raises(UserError, match=r"autoreset_mode 'None'.*NextStep") as refused:
        make("Counter-undeclared-v0", 2, "gymnasium-vector")
    assert refused.value.fixes == ("--engine gymnasium-sync",)
