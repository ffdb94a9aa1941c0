"""What environments do wrong is said once, with the figures, the place in their own code, and the fix."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import drive

from batchwright.core.errors import UserError
from batchwright.envs import catalog, watchdog
from batchwright.envs.engines import gymnasium_async
from batchwright.envs.gymnasium_source import EnvSource

NASTY = str(Path(__file__).with_name("nasty_envs.py"))
FORMS = pytest.mark.parametrize("engine", ["gymnasium-sync", "gymnasium-async"])
Make = Any


def zeros(obs: Any) -> Any:
    return np.zeros(len(obs), np.int32)


def refusal(make: Make, factory: str, engine: str = "gymnasium-sync", **wishes: Any) -> UserError:
    """The error with which twenty steps end."""
    with pytest.raises(UserError) as caught:
        drive(make(f"{NASTY}:{factory}", 1, engine, **wishes), zeros, 20)
    return caught.value


def test_info_that_is_none_counts_as_empty(make: Make) -> None:
    assert drive(make(f"{NASTY}:InfoIsNone", 1, "gymnasium-sync"), zeros, 10).truncated[9, 0]


@pytest.mark.parametrize("shape", [(1,), (1, 1), ()])
def test_a_reward_with_one_entry_is_a_number_whatever_its_shape(make: Make, shape: Any) -> None:
    made = make(f"{NASTY}:RewardOfShape", 1, "gymnasium-sync", env_kwargs={"shape": shape})
    assert drive(made, zeros, 3).reward[:, 0].tolist() == [1, 1, 1]


def test_a_reward_of_several_numbers_is_named_with_the_two_ways_out(make: Make) -> None:
    error = refusal(make, "RewardOfShape", env_kwargs={"shape": (2,)})
    assert "environment 0: step returned a reward of shape (2,)" in error.message
    assert "reward_space" in error.fixes[0] and "sum" in error.fixes[1]


def test_a_reward_that_is_no_number_at_all_is_refused_at_once(make: Make) -> None:
    assert "step returned None of type NoneType as the reward" in refusal(make, "RewardIsNone").message


@FORMS
def test_a_choice_out_of_its_range_is_refused_with_the_figures(make: Make, engine: str) -> None:
    error = refusal(make, "OutOfRange", engine)
    assert "observation is 5; its Discrete space has 5 values, 0 to 4" in error.message


def test_steps_of_the_old_gym_interface_are_recognised(make: Make) -> None:
    error = refusal(make, "OldGym")
    assert "step returned 4 values: (observation, reward, done, info) is the old Gym interface" in error.message
    assert "reset returned one ndarray" in refusal(make, "OldReset").message


def test_a_reset_that_needs_options_is_shown_with_its_line_and_what_to_do(make: Make) -> None:
    error = refusal(make, "NeedsOptions")
    line = Path(NASTY).read_text().splitlines().index('        self.level = options["level"]') + 1
    assert f"nasty_envs.py:{line}, in reset)" in error.message
    assert "without options" in error.fixes[0]


def test_an_action_space_that_changes_at_reset_is_said(make: Make) -> None:
    message = refusal(make, "OtherActions").message
    assert "reset changed the action space from Discrete(n=2, start=0) to Discrete(n=3, start=0)" in message


@FORMS
def test_sys_exit_in_an_environment_does_not_end_the_trainer(make: Make, engine: str) -> None:
    message = refusal(make, "Leaves", engine).message
    assert "raised 4 times" in message and "SystemExit: 0" in message and "nasty_envs.py" in message


def test_advice_on_dying_workers_names_no_engine_that_is_less_safe(make: Make) -> None:
    error = refusal(make, "EndsItsProcess", "gymnasium-async")
    assert "died 4 times" in error.message and "exit code 0" in error.message
    assert not any("--engine" in fix for fix in error.fixes)


def test_a_worker_that_hangs_is_replaced_and_the_environment_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium_async, "TICK_SECONDS", 0.05)
    monkeypatch.setattr(gymnasium_async, "SILENT_SECONDS", 0.1)
    events: list[dict[str, Any]] = []
    options = {"num_threads": 1, "env_kwargs": {"which": 2}, "step_timeout": 0.4, "on_event": events.append}
    made = make(f"{NASTY}:Sleeps", 2, "gymnasium-async", **options)
    run = drive(made, zeros, 3)  # the third step of environment 1 hangs, as it will in the next process
    said = [event["error"] for event in events if event["event"] == "no_answer" and event["environment"] == 1]
    assert said and "environment 1, has not answered for 0 s" in said[0]
    (restart,) = (event for event in events if event["event"] == "worker_restarted")
    assert restart["error"] == "environment 1 did not answer for 0.4 s (--step-timeout)"
    assert run.truncated[2].all()


def test_an_environment_that_hangs_in_this_process_is_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, Any]] = []
    watch = watchdog.Watch("Maze-v0", events.append, at := [0])
    monkeypatch.setattr(watchdog, "SILENT_SECONDS", 60.0)
    with watch:
        watch.look(100.0)
        at[0] = 3  # it moved on: the clock begins anew
        watch.look(150.0)
        watch.look(209.0)
        assert not events
        watch.look(211.0)
        watch.look(212.0)
    assert [event["error"] for event in events] == ["Maze-v0, environment 3, has not answered for 61 s"]
    watch.look(1000.0)
    assert len(events) == 1, "nothing runs any more"


def test_the_thread_looks_at_engines_of_this_process(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "SILENT_SECONDS", 0.0)
    events: list[dict[str, Any]] = []
    made = make(f"{NASTY}:Plain", 1, "gymnasium-sync", on_event=events.append)
    deadline = time.monotonic() + 10
    with made._watch:
        while not events and time.monotonic() < deadline:
            time.sleep(0.05)
    assert events and events[0]["event"] == "no_answer"


def test_too_few_open_files_for_the_workers_are_said_with_the_limit() -> None:
    code = f"""
import resource
from batchwright.envs.engines import make_engine
if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    make_engine({NASTY + ":Plain"!r}, 16, "gymnasium-async", num_threads=16)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "UserError: 16 worker processes need more open files than the limit of 16 (ulimit -n)" in done.stderr


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        ("NoNumbers", r"observation has shape \(0,\): it holds no number"),
        ("several", r"gave a SyncVectorEnv of 3 environments; a factory gives one"),
        ("SeveralAgents", r"gave a SeveralAgents, whose agents take turns"),
        ("gives_a_class", r"gave the class Plain, not an environment"),
        ("no_parts", r"observation space has no parts"),
        ("many_actions", r"action is one of 1,000,000,000 values, .*; at most 1,000,000"),
    ],
)
def test_what_is_no_single_environment_is_refused_before_training(factory: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        catalog.describe(f"{NASTY}:{factory}")


@FORMS
@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("generator", "GeneratorExit"),
        ("long", "ValueError: long"),
        ("lines", "ValueError: one two error: [31mthree ("),
        ("textless", "Textless ("),
    ],
)
def test_whatever_an_environment_raises_is_named_in_a_short_message(
    make: Make, kind: str, named: str, engine: str
) -> None:
    error = refusal(make, "RaisesStrangely", engine, env_kwargs={"kind": kind})
    assert named in error.message
    assert "nasty_envs.py:" in error.message
    assert len(error.message) < 2000
    assert "\n" not in error.message


@FORMS
def test_an_environment_that_raises_when_closed_is_stepped_and_closed(make: Make, engine: str) -> None:
    made = make(f"{NASTY}:NotClosed", 2, engine)
    made.start(0)
    made.close()


def test_what_nobody_can_catch_is_said_in_one_line() -> None:
    code = f"""
import sys
from batchwright.cli import main
main(["--version"])
sys.path.insert(0, {str(Path(NASTY).parent)!r})
import nasty_envs
nasty_envs.NotDeleted()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    last = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"warning: ignored: RuntimeError: not deleted \(.*nasty_envs\.py:\d+, in __del__\)", last)
    assert "Traceback" not in done.stderr


def test_an_id_that_only_its_package_registers_is_found_by_its_name() -> None:
    with pytest.raises(UserError, match="mo_gymnasium") as caught:
        catalog.describe("deep-sea-treasure-v0")
    assert "mo_gymnasium:deep-sea-treasure-v0" in caught.value.fixes


def test_a_factory_that_raises_is_shown_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make():\n    raise KeyError('level')\n")
    with pytest.raises(UserError, match=r"KeyError: 'level' \(.*mine\.py:2, in make\)"):
        EnvSource(f"{tmp_path}/mine.py:make").make()


def test_envpools_bounds_are_not_remarked_upon(make: Make) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("CartPole-v1", 2, "envpool").start(0)
