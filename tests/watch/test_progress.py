"""The progress display: batch lines with true values, a live line on terminals, few lines elsewhere."""

import io
import math
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from batchwright.planning.plan import Plan
from batchwright.watch.lines import (
    batch_configuration,
    batch_header,
    batch_line,
    duration,
    evaluation_line,
    rollout_header,
)
from batchwright.watch.progress import Progress
from batchwright.watch.statistics import MovingStatistics, summarise
from run_batchwright import plan


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


def clock(step_seconds: float) -> Any:
    """A clock that moves by the same step whenever it is read."""

    def ticks() -> Iterator[float]:
        now = 0.0
        while True:
            now += step_seconds
            yield now

    return ticks().__next__


def record(iteration: int, value: float | None = 1.0, **more: Any) -> dict[str, Any]:
    values = {
        "iteration": iteration,
        "env_steps": 2048 * (iteration + 1),
        "loss": 0.0234,
        "entropy": 0.0456,
        "episodes": 10,
    }
    return values | ({} if value is None else {"episode_return": value}) | more


def steps_plan(**wishes: Any) -> Plan:
    return plan(num_envs=8, rollout_steps=256, minibatch_transitions=64, epochs=10, **wishes)


def train(progress: Progress, count: int) -> None:
    for iteration in range(count):
        progress.iteration(record(iteration, float(iteration)))


EFFORT = "100,352 steps (1,000,000 requested), 49 iterations, 0:12, 8,363 steps/s"


def test_the_header_of_episodes_names_episodes_epochs_and_minibatch() -> None:
    found = plan(rollout_episodes=10, epochs=4, minibatch_transitions=64)
    assert batch_header(found) == "Batch Training: 10 episodes per batch, 4 update epochs, 64 minibatch size"


def test_sizes_of_episode_batches_are_shown_as_far_as_they_are_known() -> None:
    """Ten episodes of at most 500 steps: the first batches of CartPole have some 230 transitions, not 5,000."""
    automatic = plan(rollout_episodes=10, episode_steps=500)
    share = "1/32 of the rollout (64 below 2,048 transitions)"
    block = batch_configuration(automatic).splitlines()
    assert "         batch_size = at most 5000" in block
    assert f"         minibatch_size = {share} (auto-calculated)" in block
    assert batch_header(automatic) == f"Batch Training: 10 episodes per batch, 10 update epochs, minibatch size {share}"
    whole = plan(rollout_episodes=1, episode_steps=500, minibatch_transitions=999_999)
    assert "minibatch_size = the whole rollout" in batch_configuration(whole)
    assert "minibatch size 1/4 of the rollout" in batch_header(plan(rollout_episodes=9, minibatches=4))


def test_the_header_of_steps_names_environments_and_steps() -> None:
    expected = "Batch Training: 8 envs x 256 steps per batch, 10 update epochs, 64 minibatch size"
    assert batch_header(steps_plan()) == expected


def test_the_batch_configuration_uses_the_names_of_rl_games() -> None:
    found = plan(num_envs=16, rollout_steps=16, epochs=8)
    assert batch_configuration(found).splitlines() == [
        "[INFO]: Batch configuration:",
        "         num_envs = 16",
        "         horizon_length = 16",
        "         batch_size = 256",
        "         minibatch_size = 128 (auto-calculated)",
        "         mini_epochs = 8",
    ]


def test_a_minibatch_the_user_stated_is_not_called_auto_calculated() -> None:
    assert "minibatch_size = 64\n" in batch_configuration(steps_plan())


@pytest.mark.parametrize(
    "wishes",
    [
        {"rollout_episodes": 10},
        {"rollout_episodes": 10, "minibatches": 4},
        {"algo": "reinforce"},
        {"algo": "a2c"},
        {"algo": "sac", "obs_shape": (3,), "action_size": 1},
        {"policy": "act"},
        {"num_agents": 2},
    ],
)
def test_every_kind_of_plan_has_a_header_without_holes(wishes: dict[str, Any]) -> None:
    found = plan(**wishes)
    text = batch_configuration(found) + "\n" + batch_header(found)
    assert "None" not in text
    Progress(found, io.StringIO()).iteration(record(0))


def test_the_batch_line_shows_return_loss_entropy_success_and_focus() -> None:
    moving = MovingStatistics()
    for value in (2.123, 1.234):
        moving.add(value)
    values = record(
        0,
        success_rate=0.6,
        **{
            "component/graph_reward/share": 0.423,
            "component/spawn_reward/share": 0.3,
            "component/spawn_reward/weight": 0.9,
        },
    )
    assert batch_line(values, moving) == (
        "Batch   0 | R:  1.234 (MA:  1.679, Best:  2.123) | Loss:  0.0234 | Entropy:  0.0456 | Episodes: 10 | "
        "Success: 0.60 | Focus: graph_reward(0.423)"
    )


def test_success_and_focus_are_left_out_where_the_task_has_none_and_nothing_is_made_up() -> None:
    line = batch_line({"iteration": 12, "env_steps": 1, "loss": math.nan}, MovingStatistics())
    assert line == "Batch  12 | R:      - (MA:      -, Best:      -) | Loss:       - | Entropy:       - | Episodes: 0"


def test_an_evaluation_fits_in_one_line() -> None:
    assert evaluation_line(summarise([10, 20])) == (
        "mean return 15.00, median 15.00, IQR 12.50 to 17.50, IQM 15.00 (95% interval 10.00 to 20.00) over 2 episodes"
    )
    assert evaluation_line(summarise([])) == "no return over 0 episodes"
    assert evaluation_line(summarise([1.0, 2.0]) | {"success_rate": 0.5}).endswith("over 2 episodes; success 50%")
    assert evaluation_line(summarise([1.0, math.nan])).endswith("over 2 episodes; 1 episode excluded (NaN or infinite)")


def test_durations_read_like_a_clock() -> None:
    assert [duration(seconds) for seconds in (0, 42, 725, 11220, 184_020)] == [
        "0:00",
        "0:42",
        "12:05",
        "3:07:00",
        "2d 03:07",
    ]


@pytest.mark.parametrize("iterations", [1, 2, 39, 40, 41, 500, 12_345])
def test_plain_output_has_the_first_and_the_last_batch_and_about_forty_lines(iterations: int) -> None:
    stream = io.StringIO()
    train(Progress(steps_plan(), stream, lines="classic", total_iterations=iterations, clock=clock(2.0)), iterations)
    text = stream.getvalue()
    assert "\r" not in text
    assert "\x1b" not in text
    batches = [int(found) for found in re.findall(r"^Batch +(\d+)", text, re.M)]
    assert batches[0] == 0
    assert batches[-1] == iterations - 1
    assert batches == sorted(set(batches))
    assert len(text.splitlines()) <= 42


def test_a_run_without_a_known_end_shows_lines_ever_more_rarely() -> None:
    stream = io.StringIO()
    bare = Plan("on-policy", "ppo", {})
    train(Progress(bare, stream, lines="classic"), 10_000)
    assert 20 <= len(re.findall(r"^Batch", stream.getvalue(), re.M)) <= 45


def test_a_run_that_ends_early_still_shows_its_last_batch() -> None:
    stream = io.StringIO()
    progress = Progress(steps_plan(), stream, total_iterations=1000)
    train(progress, 50)
    assert "iteration   50/1000" not in stream.getvalue()
    progress.finish({"outcome": "interrupted"})
    assert "iteration   50/1000" in stream.getvalue()


def test_a_terminal_gets_one_live_line_five_times_a_second_and_lines_above_it() -> None:
    stream = Terminal()
    progress = Progress(steps_plan(), stream, total_iterations=1000, clock=clock(0.01))
    train(progress, 1000)
    progress.note("saved a checkpoint")
    pieces = stream.getvalue().split("\r\x1b[2K")
    live = [piece for piece in pieces if " | ETA " in piece]
    assert 50 <= len(live) <= 140  # the clock is read twice per iteration: 20 seconds; a batch line redraws at once
    assert pieces[-1] == "saved a checkpoint\n"
    assert live[-1].startswith("━━━━━━━━━━━━━━━━━━")
    assert live[-1].endswith(" 1000/1000 (100%) | ETA 0:00 | return 994.50 | 2,048,000 steps | 102,400 steps/s")


def test_the_live_line_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream = Terminal()
    train(Progress(steps_plan(), stream, total_iterations=10, clock=clock(1.0)), 10)
    live = [piece for piece in stream.getvalue().split("\r\x1b[2K") if "/10 (" in piece]
    assert len(live) == 10
    assert all(len(piece.split("\n")[0]) <= 39 for piece in live)
    assert live[4] == "━━━━━━━━───────── 5/10 (50%) | ETA 0:10"  # 8 of 17 full, 39 columns in all


def test_a_terminal_in_plain_mode_and_a_dumb_one_get_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    for plain, terminal in ((True, "xterm"), (False, "dumb")):
        monkeypatch.setenv("TERM", terminal)
        stream = Terminal()
        train(Progress(steps_plan(), stream, plain=plain, total_iterations=100), 100)
        assert "\x1b" not in stream.getvalue()
        assert "\r" not in stream.getvalue()


def test_the_eta_of_a_run_with_a_warm_up_begins_with_its_updates() -> None:
    """Ten fast iterations without updates, then 2 s each: the fast ones say nothing about the rest."""
    stream, now = io.StringIO(), [0.0]
    planned = plan(algo="sac", obs_shape="4", action_size=1, warmup_steps=10_000, total_steps=40_000)
    progress = Progress(planned, stream, total_iterations=40, clock=lambda: now[0])
    for number in range(20):
        now[0] += 0.01 if number < 10 else 2.0
        updates = 0 if number < 10 else 4
        progress.iteration({"iteration": number, "env_steps": 1000 * (number + 1), "updates": updates})
    lines = [text for text in stream.getvalue().splitlines() if text.startswith("iteration ")]
    assert lines
    assert not any("ETA" in text for text in lines if int(text.split("/")[0].split()[1]) <= 11)
    assert lines[-1].endswith("ETA 0:40")  # 20 iterations of 2 seconds


def test_an_iteration_with_the_first_of_a_metric_says_nothing_of_the_rest() -> None:
    """2 s each, and 60 s in the eighth, which compiles what it measures."""
    stream, now = io.StringIO(), [0.0]
    progress = Progress(steps_plan(), stream, total_iterations=40, clock=lambda: now[0])
    for number in range(20):
        now[0] += 60.0 if number == 7 else 2.0
        seldom = {"policy_gradient_signal_by_env": 0.1} if number in (7, 15) else {}
        progress.iteration({"iteration": number, "env_steps": 2048 * (number + 1), "updates": 4, **seldom})
    lines = [text for text in stream.getvalue().splitlines() if text.startswith("iteration ")]
    assert lines[-1].endswith("ETA 0:40")  # 20 iterations of 2 seconds


def test_the_eta_comes_from_the_pace() -> None:
    stream = io.StringIO()
    train(Progress(steps_plan(), stream, lines="classic", total_iterations=100, clock=clock(2.0)), 50)
    # 50 of 100 iterations done, 2 seconds each
    assert "iteration 50/100 (50%) | ETA 1:40 | return 44.50 | 102,400 steps | 1,024 steps/s" in stream.getvalue()


def test_a_plain_run_of_a_moment_has_batch_lines_alone() -> None:
    stream = io.StringIO()
    train(Progress(steps_plan(), stream, lines="classic", total_iterations=20, clock=clock(0.01)), 20)
    assert [line[:5] for line in stream.getvalue().splitlines()] == ["Batch"] * 20


def test_quiet_shows_warnings_and_the_result_alone() -> None:
    stream = Terminal()
    progress = Progress(steps_plan(), stream, quiet=True, total_iterations=10)
    progress.header("runs/x", "more")
    train(progress, 10)
    progress.note("saved")
    progress.note("reward is constant", warning=True)
    progress.finish({"evaluation": summarise([7.0]), "run_dir": "runs/x"})
    assert stream.getvalue().splitlines() == [
        "warning: reward is constant",
        "evaluation: mean return 7.00, median 7.00, IQR 7.00 to 7.00, IQM 7.00 over 1 episode",
        "run directory: runs/x",
    ]


def test_the_end_shows_curve_evaluation_effort_and_where_the_run_lies() -> None:
    stream = io.StringIO()
    progress = Progress(steps_plan(), stream, total_iterations=49)
    progress.header("runs/x")
    train(progress, 49)
    progress.finish({"env_steps": 100_352, "iterations": 49, "wall_seconds": 12.0, "run_dir": "runs/x"})
    end = stream.getvalue().splitlines()[-3:]
    # A plan of 8 x 256 steps without stated steps has a budget of a million.
    expected = ["last training return 43.50, best 48.00", EFFORT]
    assert end == [*expected, "run directory: runs/x"]


def test_quiet_still_says_when_whole_iterations_make_many_more_steps_than_requested() -> None:
    stream = io.StringIO()
    asked = Progress(plan(num_envs=8, rollout_steps=1024, total_steps=100), stream, quiet=True)
    asked.header("runs/x")
    # 8 x 1024 = 8192 steps are one iteration.
    text = "100 steps requested, 8,192 will be made: iterations of 8,192 steps run whole (1 iteration)"
    assert stream.getvalue() == f"warning: {text}\n"
    asked.header("runs/x", "resumed after iteration 1")
    assert stream.getvalue().count("requested") == 1
    asked.finish({"env_steps": 8192, "iterations": 1})
    assert stream.getvalue().splitlines()[-1] == "8,192 steps (100 requested), 1 iteration"


def test_a_rounding_of_less_than_a_tenth_is_no_warning() -> None:
    stream = io.StringIO()
    Progress(steps_plan(total_steps=100_000), stream, quiet=True).header("runs/x")
    assert stream.getvalue() == ""  # 49 x 2048 = 100,352


def test_a_resumed_run_goes_on_with_moving_figures_and_curve() -> None:
    straight, resumed = io.StringIO(), io.StringIO()
    records = [record(i, float(i * i % 11)) for i in range(60)]
    whole = Progress(steps_plan(), straight, total_iterations=60, clock=clock(1.0))
    for values in records:
        whole.iteration(values)
    later = Progress(steps_plan(), resumed, total_iterations=60, past=records[:31], clock=clock(1.0))
    for values in records[31:]:
        later.iteration(values)
    for progress in (whole, later):
        progress.finish({})
    assert straight.getvalue().splitlines()[-20:] == resumed.getvalue().splitlines()[-20:]


def test_a_reader_that_goes_away_stops_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w")
    progress = Progress(steps_plan(), stream, total_iterations=10)
    progress.header("runs/x")
    train(progress, 10)
    progress.finish({})
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_a_stream_without_unicode_gets_an_ascii_curve() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    progress = Progress(steps_plan(), stream, total_iterations=30)
    train(progress, 30)
    progress.finish({})
    assert "*" in raw.getvalue().decode("ascii")


def test_one_word_and_one_count_for_an_iteration() -> None:
    """Numbered from 1, with the time that is left; "Batch 0" beside "iteration 1" confused people."""
    stream = io.StringIO()
    progress = Progress(steps_plan(total_steps=2048 * 20), stream, clock=clock(2.0))
    progress.header("runs/x")
    train(progress, 20)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "run directory: runs/x"
    assert lines[2] == (
        "iteration: rollout of 8 envs x 256 steps = 2,048 transitions, minibatches of 64, 10 epochs, 320 updates"
    )
    numbered = [line for line in lines if line.startswith("iteration ")]
    assert numbered[0].startswith(
        "iteration  1/20 | return 0.000 (mean 0.000, best 0.000) | loss 0.0234 | entropy 0.0456"
    )
    assert numbered[1].endswith(" | 10 episodes | ETA 0:36")  # 18 iterations of 2 seconds
    assert numbered[-1].startswith("iteration 20/20 | return 19.000")
    assert "Batch" not in stream.getvalue()


def test_a_terminal_says_that_it_compiles_and_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    progress = Progress(steps_plan(), stream, total_iterations=10)
    progress.header("runs/x")
    assert stream.getvalue().endswith("compiling ...")
    progress.note("reward is constant", warning=True)
    assert "\r\x1b[2K\x1b[33mwarning:\x1b[0m reward is constant\n" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    progress.note("reward is constant", warning=True)
    assert stream.getvalue().endswith("\nwarning: reward is constant\n")


def test_replay_is_described_in_our_words() -> None:
    found = plan(algo="sac", obs_shape="3", action_size=1, rollout_steps=8, updates_per_iteration=8)
    assert rollout_header(found) == "iteration: 1 env x 8 steps per iteration, 8 updates on 256 transitions"
    episodes = plan(rollout_episodes=10, epochs=4, minibatch_transitions=64)
    assert rollout_header(episodes) == "iteration: rollout of 10 episodes, minibatches of 64, 4 epochs"


def test_the_speed_after_a_resume_is_that_of_the_steps_made_since() -> None:
    """2 of 4 iterations of 2,048 steps came before: 4,096 steps in 2 s."""
    stream = io.StringIO()
    progress = Progress(steps_plan(), stream, quiet=True, past=[record(0, 1.0), record(1, 1.0)])
    progress.finish({"env_steps": 4 * 2048, "iterations": 4, "wall_seconds": 2.0})
    assert "8,192 steps (1,000,000 requested), 4 iterations, 0:02, 2,048 steps/s" in stream.getvalue()
