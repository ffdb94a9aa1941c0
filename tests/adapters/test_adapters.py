"""What other trainers are given: their own names, the plan's own numbers, and text that parses."""

import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright.adapters import brax, cleanrl, lerobot, pufferlib, rl_games, rsl_rl, sb3, skrl
from batchwright.config import schema
from batchwright.core.errors import UserError
from run_batchwright import plan, refusal, run, run_line


def for_rl_games(**options):
    return plan(trainer="rl_games", **options)


def test_rl_games_gets_its_own_names() -> None:
    config = rl_games.settings(for_rl_games(num_envs=1000, rollout_steps=24, epochs=8, total_steps=240_000))
    assert config["num_actors"] == 1000
    assert config["horizon_length"] == 24
    assert config["minibatch_size"] == 6000
    assert config["mini_epochs"] == 8
    assert config["max_epochs"] == 10


def test_rl_games_clips_gradients_only_when_told_to() -> None:
    config = rl_games.settings(for_rl_games(max_grad_norm=1))
    assert (config["grad_norm"], config["truncate_grads"]) == (1, True)


def test_the_yaml_fragment_reads_back_as_the_settings() -> None:
    found = for_rl_games(learning_rate=1e-5, gamma=0.999, entropy_start=1e-7, seq_length=4)
    read = yaml.safe_load(rl_games.yaml_fragment(found))["params"]
    assert read == {"seed": 0, "network": {"mlp": rl_games.network(found)}, "config": rl_games.settings(found)}
    assert isinstance(yaml.safe_load(rl_games.yaml_fragment(found))["params"]["config"]["learning_rate"], float)


@settings(max_examples=60)
@given(rate=st.floats(1e-12, 10.0), gamma=st.floats(0, 1), bonus=st.floats(0, 100))
def test_floats_stay_floats_in_yaml(rate: float, gamma: float, bonus: float) -> None:
    found = for_rl_games(learning_rate=rate, gamma=gamma, entropy_start=bonus)
    config = yaml.safe_load(rl_games.yaml_fragment(found))["params"]["config"]
    for name, value in (("learning_rate", rate), ("gamma", gamma), ("entropy_coef", bonus)):
        assert isinstance(config[name], float)
        assert math.isclose(config[name], value, rel_tol=1e-12)


def test_hydra_overrides_put_the_number_of_environments_into_the_scene() -> None:
    words = rl_games.overrides(for_rl_games(preset="isaac-2048"))
    assert words[0] == "env.scene.num_envs=2048"
    assert "agent.params.config.minibatch_size=8192" in words
    assert not any("num_actors" in word for word in words)
    assert not any(" " in word for word in words)


def test_the_block_says_what_was_calculated() -> None:
    block = rl_games.batch_block(for_rl_games(num_envs=16, rollout_steps=16, num_agents=2))
    for line in ("batch_size = 512", "minibatch_size = 256 (auto-calculated)", "num_agents = 2", "mini_epochs = 10"):
        assert line in block
    stated = rl_games.batch_block(for_rl_games(num_envs=16, rollout_steps=16, minibatch_transitions=64))
    assert "minibatch_size = 64\n" in stated


def test_an_anneal_that_the_trainer_does_not_make_is_said() -> None:
    assert rl_games.limits(for_rl_games(entropy_start=0.01, adam_eps=1e-8)) == [
        "rl_games keeps entropy_coef at 0.01; the plan anneals it to 0.0."
    ]
    assert rl_games.limits(plan()) == ["adam_eps is 1e-08 there, 1e-05 in the plan."]


def test_rl_games_gets_every_number_it_can_carry() -> None:
    """GAE's lambda, the clip range and the value coefficient were once dropped in silence."""
    wishes = {"gae_lambda": 0.8, "clip_range": 0.1, "value_weight": 0.7, "normalize_obs": True, "popart": True}
    found = for_rl_games(
        learning_rate_schedule="kl-adaptive", kl_target=0.02, hidden="32,16", activation="elu", **wishes
    )
    config = rl_games.settings(found)
    assert (config["tau"], config["e_clip"], config["critic_coef"]) == (0.8, 0.1, 1.4)  # rl_games halves critic_coef
    assert (config["lr_schedule"], config["kl_threshold"]) == ("adaptive", 0.02)
    assert config["normalize_input"] and config["normalize_value"]
    assert rl_games.network(found) == {"units": [32, 16], "activation": "elu"}
    assert "agent.params.network.mlp.units=[32,16]" in rl_games.overrides(found)


def test_what_is_printed_for_rl_games_is_read_back_as_the_same_plan(tmp_path) -> None:
    numbers = {"gae_lambda": 0.8, "clip_range": 0.1, "value_weight": 0.7, "seed": 3, "hidden": "32,16", "epochs": 3}
    first = for_rl_games(num_envs=8, rollout_steps=32, total_steps=2560, learning_rate_schedule="linear", **numbers)
    file = tmp_path / "agent.yaml"
    file.write_text(rl_games.yaml_fragment(first), encoding="utf-8")
    second = for_rl_games(config=file)
    same = ("num_envs", "rollout_steps", "minibatch_transitions", "epochs", "iterations", "learning_rate",
            "learning_rate_schedule", "gamma", "gae_lambda", "clip_range", "value_weight", "advantage_norm", "hidden",
            "activation", "seed", "max_grad_norm", "popart", "normalize_obs")  # fmt: skip
    assert {name: first[name] for name in same} == {name: second[name] for name in same}


@pytest.mark.parametrize("adapter", [rl_games, rsl_rl, skrl, brax, cleanrl, pufferlib, sb3], ids=lambda m: m.TITLE)
def test_no_trainer_drops_a_schedule_or_a_stop_in_silence(adapter) -> None:
    """Each is in what is printed, or in a note."""
    plain, changed = plan(adam_eps=1e-8), {"clip_schedule": "linear", "learning_rate_schedule": "linear"}
    changed |= {"kl_stop": 0.03, "normalize_rewards": True, "normalize_obs": True, "warmup_updates": 7}
    for name, value in changed.items():
        assert adapter.text(plan(adam_eps=1e-8, **{name: value})) != adapter.text(plain), name


def test_halved_value_losses_get_twice_the_coefficient() -> None:
    found = plan(value_weight=0.5)
    assert cleanrl.settings(found)["vf_coef"] == brax.settings(found)["vf_loss_coefficient"] == 1.0
    assert rsl_rl.settings(found)["algorithm"]["value_loss_coef"] == 0.5


def test_what_stable_baselines_does_otherwise_is_listed() -> None:
    assert sb3.limits(plan(algo="a2c", entropy_start=0.01)) == ["ent_coef stays at 0.01; the plan anneals it to 0.0."]
    assert sb3.limits(plan(advantage_norm="minibatch")) == []
    found = sb3.limits(plan(popart=True, learning_rate_schedule="kl-adaptive", kl_target=0.01))
    assert sorted(line.split()[0] for line in found) == ["advantages", "learning_rate", "popart"]


def test_stable_baselines_gets_every_number_it_can_carry() -> None:
    """The linear schedule of the learning rate, GAE's lambda and the clip range were once dropped in silence."""
    wishes = {"gae_lambda": 0.8, "clip_range": 0.1, "learning_rate_schedule": "linear", "kl_stop": 0.03, "seed": 5}
    kwargs = sb3.arguments(plan(trainer="sb3", value_weight=0.7, hidden="32,16", activation="relu", **wishes))["kwargs"]
    assert (kwargs["gae_lambda"], kwargs["clip_range"], kwargs["vf_coef"], kwargs["seed"]) == (0.8, 0.1, 0.7, 5)
    assert eval(kwargs["learning_rate"])(0.5) == pytest.approx(0.0003 / 2)
    assert kwargs["target_kl"] == pytest.approx(0.02)  # it stops at 1.5 times that
    assert kwargs["policy_kwargs"]["net_arch"] == [32, 16]
    assert kwargs["policy_kwargs"]["activation_fn"] == "nn.ReLU"
    normalised = sb3.arguments(plan(normalize_obs=True, normalize_rewards=True, gamma=0.9))
    assert normalised["normalize"] == {"norm_obs": True, "norm_reward": True, "gamma": 0.9}
    sac = sb3.arguments(plan(algo="sac", obs_shape="3", action_size=2, polyak=0.02, target_entropy=-0.5))["kwargs"]
    assert (sac["tau"], sac["target_entropy"], sac["ent_coef"]) == (0.02, -1.0, "auto_1")
    dqn = sb3.arguments(plan(algo="dqn", updates_per_target=100, rollout_steps=4, updates_per_iteration=1))["kwargs"]
    assert dqn["target_update_interval"] == 400
    assert (dqn["exploration_initial_eps"], dqn["tau"]) == (1.0, 1.0)


def test_the_text_for_stable_baselines_compiles_and_calls_with_the_plan() -> None:
    calls = {}

    class Model:
        def __init__(self, policy, env, **arguments):
            calls.update(arguments, policy=policy, env=env)

        def learn(self, total_timesteps):
            calls["total_timesteps"] = total_timesteps

    text = sb3.text(plan(trainer="sb3", num_envs=4, rollout_steps=512))
    body = "\n".join(line for line in text.splitlines() if not line.startswith("from "))
    torch_nn = type("nn", (), {"Tanh": object})
    exec(body, {"PPO": Model, "nn": torch_nn, "make_vec_env": lambda name, n_envs: (name, n_envs)})
    assert calls["env"] == ("YourEnv-v0", 4)
    assert (calls["n_steps"], calls["batch_size"], calls["n_epochs"]) == (512, 64, 10)
    assert calls["total_timesteps"] == 1_000_000


@pytest.mark.parametrize("algo", ["ppo", "a2c", "sac", "dqn"])
def test_every_algorithm_of_stable_baselines_gives_text_that_compiles(algo: str) -> None:
    text = sb3.text(plan(algo=algo, trainer="sb3"))
    compile(text, algo, "exec")
    assert f"{algo.upper()}(" in text


def test_replay_numbers_in_the_words_of_stable_baselines() -> None:
    found = sb3.arguments(plan(algo="dqn", rollout_steps=4, updates_per_iteration=1, transitions_per_update=32))
    kwargs = found["kwargs"]
    assert (kwargs["train_freq"], kwargs["gradient_steps"], kwargs["batch_size"]) == (4, 1, 32)
    assert kwargs["buffer_size"] == 200_000
    assert kwargs["learning_starts"] == 10_000
    assert sb3.arguments(plan(algo="dqn", max_grad_norm=7))["kwargs"]["max_grad_norm"] == 7


def test_the_learning_rate_of_a2c_goes_with_adam() -> None:
    assert sb3.arguments(plan(algo="a2c"))["kwargs"]["use_rms_prop"] is False


def test_an_automatic_minibatch_leaves_stable_baselines_no_remainder() -> None:
    for envs, steps in ((7, 300), (12, 250), (5, 1000)):
        found = plan(trainer="sb3", num_envs=envs, rollout_steps=steps)
        assert (envs * steps) % found["minibatch_transitions"] == 0


@pytest.mark.parametrize(
    "line",
    [
        "plan --for sb3 --algo reinforce",
        "plan --for sb3 --rollout-episodes 4",
        "plan --for sb3 --algo sac --redistribute rrd",
        "plan --for sb3 --algo sac --max-grad-norm 1",
        "plan --for sb3 --num-agents 3",
        "plan --for sb3 --seq-length 4",
        "plan --for sb3 --algo a2c --epochs 3",
        "plan --for sb3 --policy act",
        "plan --for rl_games --algo a2c",
        "plan --for rl_games --algo sac",
        "plan --for rl_games --rollout-episodes 4",
        "plan --for rl_games --policy act",
        "plan --for lerobot",
        "plan --for lerobot --algo sac",
    ],
)
def test_what_a_trainer_cannot_do_is_refused(line: str) -> None:
    assert "fix:" in refusal(line).err


def test_lerobot_gets_one_word_per_argument() -> None:
    found = plan(policy="act", cores=32, gpu_memory_gb=12, dataset="me/pick", total_updates=5000, learning_rate=1e-5)
    words = lerobot.command(found)
    assert words[:3] == ["accelerate", "launch", "--mixed_precision=bf16"]
    for word in (
        "--dataset.repo_id=me/pick",
        "--policy.type=act",
        "--batch_size=24",
        "--num_workers=16",
        "--steps=5000",
        "--policy.optimizer_lr=1e-05",
        "--policy.push_to_hub=false",
    ):
        assert word in words


def test_full_precision_is_said_to_the_launcher() -> None:
    assert "--mixed_precision=no" in lerobot.command(plan(policy="act", precision="fp32"))


def test_what_lerobot_cannot_do_is_said() -> None:
    limits = " ".join(lerobot.limits(plan(preset="lerobot-fallback", gpu_memory_gb=12)))
    assert "does not accumulate" in limits
    multi = " ".join(lerobot.limits(plan(preset="smolvla-multi", gpu_memory_gb=12, max_grad_norm=3)))
    assert "several datasets" in multi
    assert "gradient checkpointing" in multi
    assert "clipping" in multi
    assert "--steps=200000" in lerobot.command(plan(policy="act", accumulation=2))


def test_a_name_from_the_user_never_reaches_the_shell_unquoted() -> None:
    text = lerobot.text(plan(policy="act", dataset="x; rm -rf $(pwd)"))
    assert "'--dataset.repo_id=x; rm -rf $(pwd)'" in text


@pytest.mark.parametrize("trainer", ["rl_games", "sb3"])
def test_json_has_the_words_of_the_trainer_beside_the_plan(trainer: str) -> None:
    found = run_line(f"plan --for {trainer} --json").json
    assert found["for"]["trainer"] == trainer
    assert found["quantities"]["num_envs"]["value"] == 8


def test_an_unknown_trainer_is_refused_in_python_too() -> None:
    with pytest.raises(UserError, match="unknown trainer"):
        plan(trainer="rlgames")


@pytest.mark.parametrize("algo", ["sac", "td3", "dqn", "reinforce"])
@pytest.mark.parametrize("trainer", [name for name in schema.TRAINERS if name not in ("sb3", "lerobot")])
def test_a_plan_that_a_trainer_does_not_train_is_refused_with_one_that_it_does(trainer: str, algo: str) -> None:
    env = "CartPole-v1" if algo == "dqn" else "Pendulum-v1"
    for words in ([], ["--json"]):
        answer = run("plan", env, "--algo", algo, "--for", trainer, *words)
        assert answer.code == 2
        assert "--algo ppo" in answer.err, answer.err
        assert "damaged" not in answer.err
