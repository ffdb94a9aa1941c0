"""What is said of other trainers before they are started. benchmarks/checkers.py compares it with the libraries."""

import importlib
import re
from pathlib import Path

import pytest
import yaml

from batchwright.adapters.batch_check import ACCEPTS, DROPS, NAN, REFUSES, Batches, numbers_of_config
from batchwright.config.schema import CHECKED_TRAINERS
from run_batchwright import plan, refusal, run_line


def verdict(trainer: str, *numbers: int, **more: int | bool) -> tuple[str, int]:
    found = importlib.import_module(f"batchwright.adapters.{trainer}").check(Batches(*numbers, **more))
    return found.outcome, found.dropped_rows


def test_rsl_rl_drops_the_tail_in_silence() -> None:
    assert verdict("rsl_rl", 100, 24, minibatches=7) == (DROPS, 6)  # 2400 = 7 x 342 + 6
    assert verdict("rsl_rl", 100, 24, minibatches=8) == (ACCEPTS, 0)
    assert verdict("rsl_rl", 10, 24, minibatches=4, recurrent=True) == (DROPS, 48)  # 2 of 10 environments
    assert verdict("rsl_rl", 3, 1, minibatches=4)[0] == NAN


def test_stable_baselines_keeps_a_short_last_minibatch() -> None:
    assert verdict("sb3", 3, 11, minibatch_size=4) == (ACCEPTS, 0)
    assert verdict("sb3", 3, 11, minibatch_size=1) == (REFUSES, 0)
    assert verdict("sb3", 1, 1, minibatch_size=64) == (REFUSES, 0)


def test_skrl_drops_the_tail_and_wants_whole_sequences() -> None:
    assert verdict("skrl", 5, 5, minibatches=4) == (DROPS, 1)
    assert verdict("skrl", 5, 8, minibatches=4, seq_length=4)[0] == REFUSES  # 10 rows are no whole sequences of 4
    assert verdict("skrl", 4, 8, minibatches=4, seq_length=4) == (ACCEPTS, 0)


def test_brax_counts_unrolls() -> None:
    assert verdict("brax", 100, 10, minibatches=32, minibatch_size=64)[0] == REFUSES  # 2048 % 100 = 48
    assert verdict("brax", 128, 10, minibatches=32, minibatch_size=64) == (ACCEPTS, 0)
    assert verdict("brax", 6, 10, minibatches=2, minibatch_size=3, devices=4)[0] == REFUSES


def test_cleanrl_makes_a_minibatch_of_one_row() -> None:
    assert verdict("cleanrl", 3, 11, minibatches=4)[0] == NAN  # 33 = 4 x 8 + 1
    assert verdict("cleanrl", 3, 1, minibatches=4)[0] == REFUSES
    assert verdict("cleanrl", 6, 8, minibatches=4, recurrent=True)[0] == REFUSES
    assert verdict("cleanrl", 8, 8, minibatches=4, recurrent=True) == (ACCEPTS, 0)


def test_pufferlib_wants_whole_segments() -> None:
    assert verdict("pufferlib", 8, 64, minibatch_size=100)[0] == REFUSES
    assert verdict("pufferlib", 8, 64, minibatch_size=128) == (ACCEPTS, 0)
    assert verdict("pufferlib", 8, 64, minibatch_size=1024)[0] == REFUSES


def test_rl_games_checks_both_networks_and_the_sequence() -> None:
    assert verdict("rl_games", 3, 5, minibatch_size=15)[0] == REFUSES  # 15 % 4
    assert verdict("rl_games", 3, 5, minibatch_size=15, seq_length=1) == (ACCEPTS, 0)
    assert verdict("rl_games", 4, 4, minibatch_size=8, central_minibatch_size=6)[0] == REFUSES
    assert verdict("rl_games", 4, 6, minibatch_size=8, seq_length=4, recurrent=True)[0] == REFUSES  # 6 % 4


@pytest.mark.parametrize("trainer", CHECKED_TRAINERS)
@pytest.mark.parametrize(("envs", "steps"), [(1, 2), (7, 143), (16, 16), (100, 24), (1009, 5)])
def test_a_plan_for_a_trainer_is_accepted_by_its_checker(trainer: str, envs: int, steps: int) -> None:
    found = plan(num_envs=envs, rollout_steps=steps, trainer=trainer)
    adapter = importlib.import_module(f"batchwright.adapters.{trainer}")
    is_sb3 = trainer == "sb3"
    config = {"n_envs": envs} | adapter.arguments(found)["kwargs"] if is_sb3 else adapter.settings(found)
    numbers = {"rollout_steps": steps} | numbers_of_config(config, adapter.WORDS)
    judged = adapter.check(Batches(**numbers))
    assert judged.outcome == ACCEPTS, (numbers, judged.detail)
    if trainer != "pufferlib":  # its minibatches hold whole segments, and may differ from the plan's
        assert judged.minibatch_rows == (found["minibatch_transitions"],) * 2
    assert str(envs) in adapter.text(found)


def test_yaml_for_rsl_rl_reads_back_as_the_settings() -> None:
    from batchwright.adapters import rsl_rl

    found = plan(num_envs=100, learning_rate=1e-5, trainer="rsl_rl")
    assert yaml.safe_load(rsl_rl.text(found)) == rsl_rl.settings(found)


def test_the_command_speaks_the_trainers_words_and_leaves_with_1_where_numbers_are_unsound() -> None:
    answer = run_line("check --for rsl_rl --num_envs 100 --num_steps_per_env 24 --num_mini_batches 7")
    assert answer.code == 1
    assert "drops 6 of 2400 rows" in answer.out
    assert "sound: num_mini_batches 8" in answer.out
    sound = run_line("check --for rsl_rl --num-envs 100 --rollout-steps 24 --minibatches 8 --json")
    assert (sound.code, sound.json["outcome"], sound.json["nearest"]) == (0, ACCEPTS, [])


def test_epochs_in_the_trainers_word_count_what_is_trained_on_and_what_is_not() -> None:
    sound = run_line("check --for rl_games --num_envs 16 --horizon_length 16 --minibatch_size 128 --mini_epochs 4")
    assert (sound.code, "4 epochs: every row is trained on 4 times in an iteration." in sound.out) == (0, True)
    drops = run_line("check --for rsl_rl --num-envs 100 --rollout-steps 24 --minibatches 7 --num_learning_epochs 5")
    assert "5 epochs: 6 x 5 = 30 rows are not trained on in an iteration." in drops.out


def test_the_nearest_numbers_are_sound() -> None:
    answer = run_line("check --for rl_games --num_envs 3 --horizon_length 5 --minibatch_size 4 --json").json
    assert answer["nearest"]
    for change in answer["nearest"]:
        words = {"num_envs": 3, "horizon_length": 5, "minibatch_size": 4} | change
        words["num_envs"] = words.pop("num_actors", words["num_envs"])
        flags = " ".join(f"--{name} {value}" for name, value in words.items())
        assert run_line(f"check --for rl_games {flags}").code == 0


def test_configs_of_the_trainers_are_read(tmp_path: Path) -> None:
    rl_games = tmp_path / "agent.yaml"
    network = {"rnn": {"name": "lstm"}}
    config = {"horizon_length": 16, "minibatch_size": 32768, "central_value_config": {"minibatch_size": 512}}
    rl_games.write_text(yaml.safe_dump({"params": {"network": network, "config": config}}), encoding="utf-8")
    answer = run_line(f"check --for rl_games --config {rl_games} --num_envs 16")
    assert "'batch_size' (256) must be divisible by 'minibatch_size' (32768)" in answer.out
    isaac = tmp_path / "rsl.yaml"
    isaac.write_text("num_steps_per_env: 24\nalgorithm:\n  num_mini_batches: 4\n", encoding="utf-8")
    assert run_line(f"check --for rsl_rl --config {isaac} --num_envs 4096").code == 0
    ini = tmp_path / "puffer.ini"
    ini.write_text("[train]\nminibatch_size = 8_192\nbptt_horizon = 64\n", encoding="utf-8")
    assert run_line(f"check --for pufferlib --config {ini} --num-envs 128 --rollout-steps 64").code == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("check --num-envs 4", "name of a trainer"),
        ("check --for rslrl", "rsl_rl"),
        ("check --for sb3 --num-envs 4", "--rollout-steps is not stated"),
        ("check --for sb3 --num-envs 4 --rollout-steps 4", "size of a minibatch"),
        ("check --for sb3 --num-envs 4 --rollout-steps 4 --minibatches 3", "no multiple of 3"),
        ("check --for rsl_rl --num-envs 4 --rollout-steps 4 --minibatches 4 --minibatch-size 8", "contradict"),
        ("check --for rsl_rl --num-envs x --rollout-steps 4", "not a whole number"),
        ("check --for rsl_rl --config /nowhere.yaml", "cannot read"),
        ("check --for brax --num-envs 10 --rollout-steps 4 --minibatches 3", "does not divide 10"),
    ],
)
def test_bad_input_is_refused(line: str, message: str) -> None:
    assert message in refusal(line).err


def test_a_config_that_explodes_or_names_code_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.yaml"
    bomb.write_text("a: &a [1, 1]\nb: [*a, *a]\n", encoding="utf-8")
    assert "aliases" in refusal(f"check --for sb3 --config {bomb}").err
    code = tmp_path / "code.yaml"
    code.write_text("n_envs: !!python/object/apply:os.getcwd []\nn_steps: 8\n", encoding="utf-8")
    assert "--num-envs is not stated" in refusal(f"check --for sb3 --config {code}").err


def test_a_version_that_was_not_tried_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from batchwright.commands import check_command

    monkeypatch.setattr(check_command.metadata, "version", lambda name: "9.9")
    answer = run_line("check --for skrl --num-envs 4 --rollout-steps 4 --minibatches 2")
    assert "skrl 9.9 is installed; the rule is that of 2.1.1" in answer.out


def test_the_page_shows_what_the_command_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "other-trainers.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```text\n\$ batchwright (check .*)\n((?:.*\n)*?)```", page, re.MULTILINE)
    assert len(shown) == 2
    for line, printed in shown:
        assert run_line(line).out == printed
