"""train, resume, eval, prove and compare as a person types them."""

from __future__ import annotations

import json
from pathlib import Path

import PIL.Image
import pytest

from batchwright.commands.run_commands import _environment_among
from run_batchwright import refusal, run_line

WALKS = str(Path(__file__).parents[1] / "faulty_envs.py")
SMALL = (
    "--num-envs 2 --rollout-steps 8 --minibatches 2 --epochs 1 --hidden 4 --total-steps 48 "
    "--eval-every 0 --eval-episodes 2"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run made by the command, and its answer beside it."""
    folder = tmp_path_factory.mktemp("commands") / "run"
    answer = run_line(f"train CartPole-v1 --engine jax {SMALL} --run-dir {folder} --json")
    assert answer.code == 0, answer.err
    folder.with_name("answer.json").write_text(answer.out)
    return folder


def test_train_json_prints_the_result_and_nothing_else(trained: Path) -> None:
    result = json.loads(trained.with_name("answer.json").read_text())
    assert result["run_dir"] == str(trained)
    assert (result["iterations"], result["env_steps"], result["interrupted"]) == (3, 48, False)
    assert result["evaluation"]["episodes"] == 2


def test_resuming_a_finished_run_is_done_at_once(trained: Path) -> None:
    answer = run_line(f"resume {trained} --json")
    assert answer.code == 0
    assert answer.json["iterations"] == 3
    assert answer.json["evaluation"]["episodes"] == 2


def test_eval_json_has_the_statistics_and_repeats(trained: Path) -> None:
    answers = [run_line(f"eval {trained} --episodes 3 --seed 4 --json") for _ in range(2)]
    assert [answer.code for answer in answers] == [0, 0]
    found = answers[0].json
    assert found.keys() == {"episodes", "mean", "median", "iqr", "iqm", "mean_interval", "iqm_interval", "returns"}
    assert found == answers[1].json
    assert found["episodes"] == len(found["returns"]) == 3
    assert found["mean"] == pytest.approx(sum(found["returns"]) / 3)


def test_eval_says_which_policy_it_played(trained: Path) -> None:
    answer = run_line(f"eval {trained} --episodes 2 --stochastic")
    assert answer.code == 0
    assert "CartPole-v1 after iteration 3" in answer.out


@pytest.mark.parametrize("name", ["episode.gif", "new/episode.webp", "episode.png"])
def test_eval_writes_a_video_in_the_formats_it_names(trained: Path, tmp_path: Path, name: str) -> None:
    answer = run_line(f"eval {trained} --episodes 1 --video {tmp_path / name}")
    assert answer.code == 0, answer.err
    with PIL.Image.open(tmp_path / name) as video:
        assert video.n_frames > 3


def test_eval_refuses_a_video_that_it_cannot_write_before_it_plays(trained: Path, tmp_path: Path) -> None:
    answer = refusal(f"eval {trained} --episodes 1 --video {tmp_path}/episode.avi")
    assert "cannot be written as '.avi'; .gif, .webp, .png, .mp4 can" in answer.err
    assert f"fix: --video {tmp_path}/episode.gif" in answer.err
    (tmp_path / "folder.gif").mkdir()
    kept = run_line(f"eval {trained} --episodes 1 --json --video {tmp_path}/folder.gif")
    assert (kept.code, kept.json["episodes"]) == (2, 1)
    assert "folder.gif." in kept.err


def test_eval_writes_mp4(trained: Path, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    answer = run_line(f"eval {trained} --episodes 1 --video {tmp_path / 'episode.mp4'}")
    assert answer.code == 0, answer.err
    with av.open(str(tmp_path / "episode.mp4")) as video:
        assert sum(1 for _ in video.decode(video=0)) > 3


@pytest.mark.parametrize("env", ["CartPole-v1", "spaced_envs.py:Everything"])
def test_envpool_and_factories_without_arguments_are_filmed(env: str, tmp_path: Path) -> None:
    """EnvPool draws by itself; an environment that draws nothing is filmed by its camera image."""
    engine = "envpool" if env == "CartPole-v1" else "gymnasium-sync"
    name = env if engine == "envpool" else str(Path(__file__).parents[1] / "policies" / env)
    short = "--num-envs 2 --rollout-steps 16 --total-steps 32 --eval-episodes 1 --preset none --quiet"
    assert run_line(f"train {name} --engine {engine} {short} --run-dir {tmp_path / 'run'}").code == 0
    answer = run_line(f"eval {tmp_path / 'run'} --episodes 1 --video")
    assert answer.code == 0, answer.err
    with PIL.Image.open(tmp_path / "run" / "episode.gif") as video:
        assert video.n_frames > 3


def test_eval_that_fails_to_write_its_video_has_printed_the_statistics(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError("the disk went away")

    monkeypatch.setattr(PIL.Image.Image, "save", fail)
    answer = run_line(f"eval {trained} --episodes 1 --json --video {tmp_path}/episode.gif")
    assert answer.code == 2 and answer.json["episodes"] == 1
    assert "episode.gif was not written: OSError: the disk went away" in answer.err


def test_compare_trains_presets_at_equal_data_and_prints_one_table(tmp_path: Path) -> None:
    words = "--presets fast debugging --seeds 2 --total-steps 150 --engine jax --hidden 4 --eval-episodes 2"
    answer = run_line(f"compare CartPole-v1 {words} --run-dir {tmp_path / 'both'} --json")
    assert answer.code == 0, answer.err
    fast, single = answer.json["presets"]
    assert (fast["preset"], single["preset"]) == ("fast", "debugging")
    for row in (fast, single):
        assert [run["seed"] for run in row["runs"]] == [0, 1]
        assert all(run["transitions"] >= 120 for run in row["runs"])
        assert row["return_low"] <= row["return"] <= row["return_high"]
    # One update per episode, and minibatches of 32 twice over five episodes.
    assert [run["updates"] for run in single["runs"]] == [run["episodes"] for run in single["runs"]]
    assert fast["updates"] > fast["episodes"] / 5
    assert run_line(f"compare {single['runs'][0]['run']} {fast['runs'][0]['run']}").code == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("compare CartPole-v1 --presets balanced", "two or more"),
        ("compare CartPole-v1 --presets balanced balansed", "balanced"),
        ("compare CartPole-v1 --presets fast debug --total-episodes 9", "equal data"),
        ("compare CartPole-v1 --presets fast debug --preset maximum", "takes the place"),
        ("compare one two --seeds 3", "belongs to --presets"),
    ],
)
def test_presets_that_cannot_be_compared_are_refused(line: str, told: str) -> None:
    assert told in refusal(line).err


def test_compare_prints_a_column_per_run(trained: Path) -> None:
    answer = run_line(f"compare {trained} {trained}")
    assert answer.code == 0
    assert answer.out.splitlines()[0].split() == ["run", "run", "run"]
    assert len(run_line(f"compare {trained} {trained} --json").json) == 2


@pytest.mark.parametrize("command", ["resume", "eval", "compare"])
def test_a_directory_that_is_no_run_is_refused(command: str, tmp_path: Path) -> None:
    assert "is not a run directory" in refusal(f"{command} {tmp_path}").err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("eval {run} --episodes none", "--episodes none is not a whole number"),
        ("eval {run} --episodes 0", "at least 1"),
        ("prove {run} --epochs 3", "a run has its plan"),
        ("resume {run} --learning-rate 1e-4", "--learning-rate cannot change in a run that has begun"),
        ("prove", "needs an environment or a run"),
        ("train", "train needs an environment"),
        ("train CartPole-v1 --run-dir {run}", "{run}"),
        (
            "train CartPole-v1 --engine jax --algo a2c --epochs 1 --minibatches 1 --learning-rate-schedule kl-adaptive",
            "KL",
        ),
    ],
)
def test_bad_input_is_told_with_a_fix(line: str, said: str, trained: Path) -> None:
    answer = refusal(line.format(run=trained))
    assert said.format(run=trained) in answer.err
    assert "fix:" in answer.err


def test_faults_that_go_on_end_with_exit_code_3(tmp_path: Path) -> None:
    answer = run_line(
        f"train {WALKS}:NanReward --engine gymnasium-sync --run-dir {tmp_path / 'run'} --quiet "
        + SMALL.replace("--total-steps 48", "--total-steps 480")
    )
    assert answer.code == 3
    assert "training diverged" in answer.err
    assert "reward" in answer.err


def test_an_environment_that_raises_in_reset_ends_with_exit_code_2(tmp_path: Path) -> None:
    said = refusal(f"train {WALKS}:RaisesInReset --engine gymnasium-sync --run-dir {tmp_path / 'run'} --quiet {SMALL}")
    assert "no display found" in said.err


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("prove runs/nope", "runs/nope is not a run directory"),
        ("compare", "compare needs runs"),
        ("compare --presets ppo-cartpole none", "batchwright compare CartPole-v1 --presets ppo-cartpole none"),
        ("train Nowhere/at-all", "batchwright envs"),
    ],
)
def test_a_mistake_is_answered_with_what_to_type(
    line: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert told in refusal(line).err


def test_the_environment_may_stand_after_the_presets() -> None:
    found = _environment_among(["ppo-cartpole", "none", "CartPole-v1"])
    assert found == (["CartPole-v1"], ["ppo-cartpole", "none"])
