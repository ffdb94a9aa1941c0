"""Settings of Stable-Baselines3, the RL Zoo, CleanRL, rl_games and RSL-RL, in files, flags and Python alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from batchwright.adapters import rl_games
from batchwright.config.load import resolve
from batchwright.core.errors import UserError
from run_batchwright import plan, refusal, run_line

ZOO = """
CartPole-v1:
  n_envs: 8
  n_timesteps: !!float 1e5
  policy: 'MlpPolicy'
  n_steps: 32
  gae_lambda: 0.8
  ent_coef: 0.0
  learning_rate: lin_0.001
  clip_range: lin_0.2
HalfCheetah-v4:
  normalize: true
  policy: 'MlpPolicy'
  n_timesteps: !!float 1e6
  learning_rate: 2.0e-05
  target_kl: 0.02
  vf_coef: 0.58
  use_sde: False
  sde_sample_freq: 4
  policy_kwargs: "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU,
                    net_arch=dict(pi=[256, 256], vf=[256, 256]))"
"""
RL_GAMES = """
params:
  algo: {name: a2c_continuous}
  network:
    mlp: {units: [256, 128], activation: elu}
  config:
    name: ant
    num_actors: 64
    horizon_length: 16
    minibatch_size: 512
    mini_epochs: 4
    max_epochs: 100
    learning_rate: 3e-4
    lr_schedule: adaptive
    kl_threshold: 0.008
    tau: 0.95
    e_clip: 0.2
    critic_coef: 2
    truncate_grads: True
    grad_norm: 1.0
    normalize_input: True
    reward_shaper: {scale_value: 0.01}
"""
RSL_RL = """
num_steps_per_env: 24
max_iterations: 300
algorithm: {num_learning_epochs: 5, num_mini_batches: 4, lam: 0.95, clip_param: 0.2, desired_kl: 0.01,
            schedule: adaptive, entropy_coef: 0.01, value_loss_coef: 1.0, use_clipped_value_loss: true}
policy: {actor_hidden_dims: [128, 64], activation: elu, init_noise_std: 1.0}
"""


def read(folder: Path, text: str, name: str = "theirs.yaml", **flags: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(settings in our words, notes) of a file."""
    path = folder / name
    path.write_text(text)
    found = resolve(flags, config_file=path)
    return {key: found.config.get(key) for key in found.origins}, found.notes


def test_an_entry_of_the_zoo_is_read_for_its_environment(tmp_path: Path) -> None:
    pole, notes = read(tmp_path, ZOO, "ppo.yml", env="CartPole-v1")
    assert notes == ()
    assert pole | {} == {
        "env": "CartPole-v1",
        "algo": "ppo",
        "num_envs": 8,
        "total_steps": 100_000,
        "rollout_steps": 32,
        "gae_lambda": 0.8,
        "entropy_start": 0.0,
        "entropy_end": 0.0,
        "learning_rate": 0.001,
        "learning_rate_schedule": "linear",
        "clip_range": 0.2,
        "clip_schedule": "linear",
    }
    cheetah, notes = read(tmp_path, ZOO, "ppo.yml", env="HalfCheetah-v4")
    assert (cheetah["normalize_obs"], cheetah["normalize_rewards"], cheetah["hidden"]) == (True, True, (256, 256))
    assert (cheetah["activation"], cheetah["log_std_start"], cheetah["kl_stop"]) == ("relu", -2, pytest.approx(0.03))
    assert cheetah["learning_rate_schedule"] == "constant"  # their number is constant, whatever our default is
    assert len(notes) == 1
    assert "sde_sample_freq of Stable-Baselines3 is not carried" in notes[0]
    with pytest.raises(UserError, match="entries for CartPole-v1, HalfCheetah-v4, none for Ant-v5"):
        read(tmp_path, ZOO, "ppo.yml", env="Ant-v5")


def test_a_file_of_rl_games_is_read(tmp_path: Path) -> None:
    found, notes = read(tmp_path, RL_GAMES)
    assert found["total_steps"] == 64 * 16 * 100
    assert (found["gae_lambda"], found["clip_range"], found["max_grad_norm"]) == (0.95, 0.2, 1.0)
    assert (found["learning_rate_schedule"], found["kl_target"]) == ("kl-adaptive", 0.008)
    assert (found["value_weight"], found["normalize_obs"], found["hidden"]) == (1.0, True, (256, 128))
    assert [note.split()[1] for note in notes] == ["reward_shaper"]


def test_what_we_print_for_rl_games_is_read_back(tmp_path: Path) -> None:
    made = plan(trainer="rl_games", num_envs=48, rollout_steps=16, epochs=3, learning_rate=2e-4, total_steps=76_800)
    found, notes = read(tmp_path, rl_games.yaml_fragment(made))
    assert notes == ()
    for name in ("num_envs", "rollout_steps", "minibatch_transitions", "epochs", "learning_rate", "total_steps"):
        assert found[name] == made[name], name


def test_a_file_of_rsl_rl_is_read(tmp_path: Path) -> None:
    found, notes = read(tmp_path, RSL_RL)
    assert (found["rollout_steps"], found["epochs"], found["minibatches"], found["gae_lambda"]) == (24, 5, 4, 0.95)
    assert (found["kl_target"], found["hidden"], found["log_std_start"]) == (0.01, (128, 64), 0.0)
    assert any("max_iterations (state --total-steps)" in note for note in notes)
    assert any("use_clipped_value_loss" in note for note in notes)


def test_keyword_arguments_of_sac_are_read(tmp_path: Path) -> None:
    text = "buffer_size: 300000\nbatch_size: 256\nent_coef: auto_0.1\ntau: 0.02\ntrain_freq: 8\ngradient_steps: 8\n"
    found, notes = read(tmp_path, text + "learning_starts: 10000\n", algo="sac")
    assert notes == ()
    assert (found["learn_temperature"], found["temperature_start"], found["polyak"]) == (True, 0.1, 0.02)
    assert (found["transitions_per_update"], found["rollout_steps"], found["warmup_steps"]) == (256, 8, 10_000)


def test_words_of_other_libraries_work_as_flags_and_in_python() -> None:
    words = "--env CartPole-v1 --lr 1e-3 --n-steps 64 --ent-coef 0.01 --vf-coef 0.4 --target-kl 0.02 --n_timesteps 9000"
    answer = run_line(f"plan {words} --json")
    assert answer.code == 0
    assert "note: --lr 1e-3 is --learning-rate 1e-3 here" in answer.err
    assert "note: --ent-coef 0.01 is --entropy-start 0.01 --entropy-end 0.01 here" in answer.err
    quantities = answer.json["quantities"]
    wanted = {"learning_rate": 1e-3, "rollout_steps": 64, "entropy_end": 0.01, "value_weight": 0.4, "kl_stop": 0.02}
    assert {name: quantities[name]["value"] for name in wanted} == wanted
    assert quantities["total_steps"]["value"] == 9000
    in_python = plan(env="CartPole-v1", lr=1e-3, n_steps=64, ent_coef=0.01, vf_coef=0.4, target_kl=0.02)
    assert {name: in_python[name] for name in wanted} == wanted
    assert in_python.quantities["learning_rate"].origin == "--learning-rate (--lr)"


def test_what_has_no_place_here_is_refused_with_what_takes_it() -> None:
    assert "batchwright eval RUN --video" in refusal("plan CartPole-v1 --capture-video true").err
    with pytest.raises(UserError, match="states learning_rate again"):
        plan(lr=1e-3, learning_rate=1e-4)


@pytest.mark.parametrize(("word", "meant"), [("vf_coeff", "value_weight"), ("ent_coeff", "ent_coef")])
def test_a_mistyped_foreign_word_leads_to_ours(word: str, meant: str) -> None:
    with pytest.raises(UserError) as error:
        plan(**{word: 0.5})
    assert meant in error.value.fixes


def test_policy_kwargs_may_be_a_mapping(tmp_path: Path) -> None:
    text = (
        "n_steps: 64\nn_envs: 4\npolicy_kwargs:\n  net_arch: {pi: [32, 16], vf: [32, 16]}\n  activation_fn: nn.ReLU\n"
    )
    settings, notes = read(tmp_path, text)
    assert (settings["hidden"], settings["activation"], settings["rollout_steps"]) == ((32, 16), "relu", 64)
    assert notes == ()


def test_anchors_that_repeat_each_other_in_keyword_arguments_end(tmp_path: Path) -> None:
    rows = ["  a0: &a0 [1, 2]", *(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))]
    settings, notes = read(tmp_path, "\n".join(["n_steps: 64", "policy_kwargs:", *rows]))
    assert "hidden" not in settings
    assert "policy_kwargs" in notes[0]


def test_all_that_is_printed_for_rl_games_is_read_as_its_yaml(tmp_path: Path) -> None:
    words = "plan CartPole-v1 --num-envs 16 --gae-lambda 0.8 --epochs 3"
    file = tmp_path / "printed.yaml"
    file.write_text(run_line(f"{words} --for rl_games").out, encoding="utf-8")
    settings, _ = read(tmp_path, file.read_text(encoding="utf-8"))
    assert (settings["num_envs"], settings["gae_lambda"], settings["epochs"]) == (16, 0.8, 3)
    assert refusal(f"plan --config {file} --gae-lambda 2").err.startswith("error: --gae-lambda")


def test_mistyped_words_of_other_libraries_are_found() -> None:
    assert "--n-steps" in refusal("train CartPole-v1 --n-step 3").err
    assert "--ent-coef" in refusal("train CartPole-v1 --ent-coeff 3").err
    assert "networks follow from the observations" in refusal("train CartPole-v1 --policy MlpPolicy").err
