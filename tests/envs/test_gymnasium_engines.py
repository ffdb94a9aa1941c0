"""Claims about environments a user brings: crashes, wrong observations, nested spaces, worker processes."""

# T time, N envs

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import SAMPLES, drive, same

from batchwright.core.errors import UserError
from batchwright.envs import catalog
from batchwright.envs.engines import available_engines, gymnasium_async, random_actions

FORMS = pytest.mark.parametrize("engine", ["gymnasium-sync", "gymnasium-async", "gymnasium-split"])
SPECIAL = str(Path(__file__).with_name("special_envs.py"))
Make = Any


def zeros(obs: Any) -> Any:
    return np.zeros(len(obs), np.int32)


def allowed(engine: Any) -> Any:
    """A policy that looks at every number of an observation, and obeys masks."""

    def act(obs: Any) -> Any:
        if engine.mask is not None:
            return engine.mask.argmax(1).astype(np.int32)
        return (np.abs(obs).sum(1) * 1000).astype(np.int32) % engine.action.n

    return act


@FORMS
def test_ends_last_observations_and_reset_rows_by_hand(make: Make, engine: str) -> None:
    made = make(f"{SAMPLES}:Counter", 2, engine, env_kwargs={"length": 3})
    run = drive(made, zeros, 8)
    # Steps 1, 2, 3 (the end), reset, and again.
    assert run.obs[:, 0, 1].tolist() == [1, 2, 3, 0, 1, 2, 3, 0]
    assert run.reward[:, 0].tolist() == [1, 2, 3, 0, 1, 2, 3, 0]
    assert np.flatnonzero(run.terminated[:, 1]).tolist() == [2, 6] and not run.truncated.any()
    # The drawn number belongs to the episode: the reset row shows the new one.
    drawn = run.obs[:, 0, 0]
    assert (drawn[:3] == run.first[0, 0]).all() and (drawn[3:7] == drawn[3]).all() and drawn[3] != drawn[2]


@FORMS
@pytest.mark.parametrize(
    ("flags", "expected"),
    [((True, False), (True, False)), ((False, True), (False, True)), ((True, True), (True, False))],
)
def test_end_flags_are_passed_on_and_terminated_wins(make: Make, engine: str, flags: Any, expected: Any) -> None:
    kwargs = {"length": 2, "terminated": flags[0], "truncated": flags[1]}
    run = drive(make(f"{SAMPLES}:Counter", 1, engine, env_kwargs=kwargs), zeros, 2)
    assert (bool(run.terminated[1, 0]), bool(run.truncated[1, 0])) == expected


def test_sync_and_async_give_the_same_trajectory_for_any_number_of_workers(make: Make) -> None:
    name = f"{SAMPLES}:Counter"
    runs = [drive(make(name, 5, "gymnasium-sync", info_keys=("twice",)), zeros, 11, seed=4)]
    for workers in (1, 2):
        made = make(name, 5, "gymnasium-async", num_threads=workers, info_keys=("twice",))
        runs.append(drive(made, zeros, 11, seed=4))
    for run in runs[1:]:
        assert np.array_equal(run.obs, runs[0].obs) and np.array_equal(run.reward, runs[0].reward)
        assert np.array_equal(run.extras["twice"], runs[0].extras["twice"], equal_nan=True)


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("name", ["LunarLander-v3", f"{SAMPLES}:Counter", f"{SPECIAL}:Masked"])
def test_split_steps_equal_sync_steps_to_the_bit(make: Make, name: str, processes: int) -> None:
    alone, split = make(name, 5, "gymnasium-sync"), make(name, 5, "gymnasium-split", num_threads=processes)
    assert split.reward_names == alone.reward_names and len(split._workers) == processes - 1
    for seed in (4, 5):  # the second start is in mid-episode
        assert same(drive(alone, allowed(alone), 90, seed), drive(split, allowed(split), 90, seed))


def test_split_environments_stand_still_after_their_shares_as_sync_ones_do(make: Make) -> None:
    runs = []
    for engine in ("gymnasium-sync", "gymnasium-split"):
        made = make(f"{SPECIAL}:Masked", 3, engine, num_threads=2)
        first, stands_still = made.start_share(1, (1, 1, 2))
        assert stands_still
        rows = [np.concatenate([first.copy(), made.mask], 1)]
        for _ in range(12):
            step = made.step(made.mask.argmax(1).astype(np.int32))
            rows.append(np.concatenate([step.obs, step.mask, step.reward[:, None], step.truncated[:, None]], 1))
        runs.append(rows)
    assert same(*runs)


@FORMS
def test_chosen_info_comes_back_and_a_reset_row_has_none(make: Make, engine: str) -> None:
    made = make(f"{SAMPLES}:Counter", 1, engine, env_kwargs={"length": 2}, info_keys=("twice", "absent"))
    run = drive(made, zeros, 4)
    np.testing.assert_array_equal(run.extras["twice"][:, 0], [2, 4, np.nan, 2])
    assert np.isnan(run.extras["absent"]).all()


@FORMS
def test_nested_actions_reach_the_environment_in_its_own_numbers(make: Make, engine: str) -> None:
    made = make(f"{SAMPLES}:Echo", 2, engine)
    action = {
        "choice": np.array([0, 3], np.int32),
        "parts": (np.array([[0.5, -1], [1, 0]], np.float32), np.array([[1, 0, 1], [0, 0, 1]], np.int32)),
        "levels": np.array([[200, 1], [7, 0]], np.int32),
    }
    made.start(0)
    obs = made.step(action).obs
    # Choices count from zero on our side and from -1 in the environment, on the way there and back.
    assert obs["choice"].tolist() == [0, 3] and obs["choice"].dtype == np.int32
    assert obs["parts"][0].tolist() == [[0.5, -1], [1, 0]] and obs["parts"][0].dtype == np.float32
    assert obs["parts"][1].tolist() == [[1, 0, 1], [0, 0, 1]] and obs["parts"][1].dtype == np.int32
    assert obs["picture"][:, 0, 0, 0].tolist() == [200, 7] and obs["picture"].dtype == np.uint8


def test_random_actions_of_any_space_are_accepted(make: Make) -> None:
    made = make(f"{SAMPLES}:Echo", 3, "gymnasium-sync")
    made.start(0)
    actions_T = random_actions(made.action, 5, 3)
    for t in range(5):
        levels, choice, (numbers, bits) = (actions_T[k] for k in ("levels", "choice", "parts"))
        made.step({"levels": levels[t], "choice": choice[t], "parts": (numbers[t], bits[t])})


@FORMS
def test_an_environment_that_raises_is_restarted_and_its_episode_truncated(
    make: Make, engine: str, tmp_path: Path
) -> None:
    events: list[dict[str, Any]] = []
    kwargs = {"at": 3, "once": str(tmp_path / "raised")}
    made = make(f"{SAMPLES}:Raises", 1, engine, env_kwargs=kwargs, on_event=events.append)
    run = drive(made, zeros, 6)
    # Two good steps, the cut on the last good observation, the reset, and on it goes.
    assert run.obs[:, 0, 1].tolist() == [1, 2, 2, 0, 1, 2]
    assert run.reward[:, 0].tolist() == [1, 2, 0, 0, 1, 2]
    assert np.flatnonzero(run.truncated[:, 0]).tolist() == [2] and not run.terminated.any()
    [event] = events
    assert event["event"] == "environment_restarted" and event["environment"] == 0 and event["restarts"] == 1
    assert "lost its licence" in event["error"] and "sample_envs.py" in event["traceback"]


@FORMS
def test_an_environment_that_keeps_raising_stops_the_run_with_its_own_words(make: Make, engine: str) -> None:
    events: list[dict[str, Any]] = []
    made = make(f"{SAMPLES}:Raises", 1, engine, env_kwargs={"at": 1}, on_event=events.append)
    with pytest.raises(UserError, match=r"environment 0, raised 4 times.*lost its licence"):
        drive(made, zeros, 20)
    assert [event["restarts"] for event in events] == [1, 2, 3]


def test_a_worker_that_dies_is_replaced_and_its_episodes_truncated(make: Make, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    kwargs = {"at": 3, "once": str(tmp_path / "died"), "how": "exit"}
    made = make(f"{SAMPLES}:Raises", 4, "gymnasium-async", num_threads=2, env_kwargs=kwargs, on_event=events.append)
    run = drive(made, zeros, 6)
    [event] = events
    assert event["event"] == "worker_restarted" and "exit code 7" in event["error"]
    # Either worker may be the first to reach the third step; the other never notices.
    died, lived = (slice(0, 2), slice(2, 4)) if event["environments"] == [0, 1] else (slice(2, 4), slice(0, 2))
    for row in run.obs[:, died, 1].T:
        assert row.tolist() == [1, 2, 2, 0, 1, 2]
    for row in run.obs[:, lived, 1].T:
        assert row.tolist() == [1, 2, 3, 4, 5, 0]
    assert run.truncated[2, died].all() and run.truncated.sum() == 2


def test_a_split_worker_that_dies_is_replaced_and_the_trainers_own_share_goes_on(make: Make, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    kwargs = {"at": 3, "once": str(tmp_path / "died"), "how": "exit"}
    name = f"{SAMPLES}:DiesInWorker"
    made = make(name, 4, "gymnasium-split", num_threads=2, env_kwargs=kwargs, on_event=events.append)
    run = drive(made, zeros, 6)
    assert [(event["event"], event["environments"]) for event in events] == [("worker_restarted", [2, 3])]
    assert run.obs[:, :, 1].T.tolist() == [[1, 2, 3, 4, 5, 0]] * 2 + [[1, 2, 2, 0, 1, 2]] * 2
    assert run.truncated[2].tolist() == [False, False, True, True] and run.truncated.sum() == 2


def test_with_one_core_split_has_no_workers_and_is_not_offered(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium_async, "usable_cores", lambda: 1)
    monkeypatch.setattr(catalog, "usable_cores", lambda: 1)
    made = make(f"{SAMPLES}:Counter", 2, "gymnasium-split")
    assert made._workers == [] and drive(made, zeros, 3).obs[:, 1, 1].tolist() == [1, 2, 3]
    assert available_engines(f"{SAMPLES}:Counter") == ("gymnasium-sync", "gymnasium-async")


def test_a_worker_that_dies_in_its_first_reset_is_replaced_while_the_other_has_answered(
    make: Make, tmp_path: Path
) -> None:
    events: list[dict[str, Any]] = []
    kwargs = {"at": 99, "once": str(tmp_path / "died")}
    made = make(
        f"{SAMPLES}:DiesInReset", 4, "gymnasium-async", num_threads=2, env_kwargs=kwargs, on_event=events.append
    )
    run = drive(made, zeros, 2)
    assert [event["event"] for event in events] == ["worker_restarted"]
    assert run.obs[:, :, 1].tolist() == [[1] * 4, [2] * 4]


def test_workers_that_keep_dying_stop_the_run(make: Make) -> None:
    kwargs = {"at": 1, "how": "exit"}
    made = make(f"{SAMPLES}:Raises", 1, "gymnasium-async", env_kwargs=kwargs)
    with pytest.raises(UserError, match=r"died 4 times.*exit code 7"):
        drive(made, zeros, 20)


@FORMS
def test_raising_in_the_first_reset_is_said_with_the_environments_words(make: Make, engine: str) -> None:
    made = make(f"{SAMPLES}:RaisesInReset", 2, engine)
    with pytest.raises(UserError, match=r"environment [01], raised in reset: RuntimeError: no display found"):
        made.start(0)


@FORMS
@pytest.mark.parametrize("at", [0, 2])
def test_an_observation_of_the_wrong_shape_is_refused_by_name(make: Make, engine: str, at: int) -> None:
    made = make(f"{SAMPLES}:WrongShape", 1, engine, env_kwargs={"at": at})
    with pytest.raises(UserError, match=r"environment 0: observation is float32 \(3,\).*says float32 \(2,\)"):
        drive(made, zeros, 3)


def test_floats_where_the_space_says_bytes_are_refused(make: Make) -> None:
    with pytest.raises(UserError, match=r"float32 \(2,\), its space says uint8 \(2,\)"):
        make(f"{SAMPLES}:FloatsForBytes", 1, "gymnasium-sync").start(0)


def test_a_registered_limit_and_the_wrappers_of_gymnasium_make_agree_with_ours(make: Make) -> None:
    import gymnasium

    theirs = gymnasium.make("FrozenLake-v1", is_slippery=False)
    made = make("FrozenLake-v1", 1, "gymnasium-sync", env_kwargs={"is_slippery": False})
    assert made.max_episode_steps == 100
    made.start(0)
    theirs.reset(seed=0)
    for _ in range(100):
        ours = made.step(np.array([0], np.int32))
        observation, reward, terminated, truncated, _ = theirs.step(0)
        given = (ours.obs[0], ours.reward[0], ours.terminated[0], ours.truncated[0])
        assert given == (observation, reward, terminated, truncated)
    assert ours.truncated[0]


def test_closing_ends_a_worker_that_hangs(make: Make) -> None:
    made = make(f"{SAMPLES}:Hangs", 1, "gymnasium-async")
    made.start(0)
    made.step(np.zeros(1, np.int32))
    [worker] = made._workers
    gymnasium_async.send(worker, ("step", None))
    begin = time.monotonic()
    made.close()
    assert time.monotonic() - begin < 8 and not worker.process.is_alive()
    made.close()


@pytest.mark.parametrize("engine", ["gymnasium-async", "gymnasium-split"])
def test_a_program_that_forgets_to_close_its_engine_ends(engine: str) -> None:
    code = f"""
import numpy as np
from batchwright.envs.engines import make_engine
if __name__ == "__main__":
    made = make_engine({SAMPLES + ":Counter"!r}, 3, {engine!r}, num_threads=3)
    made.start(0)
    made.step(np.zeros(3, np.int32))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("engine", ["gymnasium-async", "gymnasium-split"])
def test_workers_leave_when_their_parent_is_killed(engine: str) -> None:
    code = f"""
import time, numpy as np
from batchwright.envs.engines import make_engine
if __name__ == "__main__":
    made = make_engine({SAMPLES + ":Counter"!r}, 3, {engine!r}, num_threads=3)
    made.start(0)
    print(*[worker.process.pid for worker in made._workers], flush=True)
    while True:
        made.step(np.zeros(3, np.int32))
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(word) for word in parent.stdout.readline().split()]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert len(workers) == {"gymnasium-async": 3, "gymnasium-split": 2}[engine]
    deadline = time.monotonic() + 10
    while any(_is_running(pid) for pid in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    """Whether the process is there and not a zombie that waits to be reaped."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
