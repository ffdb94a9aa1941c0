"""The presets hold the figures of their sources, and each makes a plan."""

import pytest

from batchwright.config.presets import preset_names, read_preset, tuned_preset
from batchwright.config.schema import FIELDS
from run_batchwright import plan, run_line

EPISODES = {  # episodes per rollout, epochs, minibatch, total episodes
    "fast": (5, 2, 32, 100),
    "balanced": (10, 4, 64, 1000),
    "high-quality": (20, 6, 128, 2000),
    "debug": (3, 1, 16, 50),
    "new-project": (10, 4, 64, None),
    "converting": (5, 2, 32, None),
    "maximum": (20, 6, 128, None),
    "debugging": (1, 1, 999999, None),
}


@pytest.mark.parametrize("name", EPISODES)
def test_the_eight_episode_settings(name: str) -> None:
    episodes, epochs, minibatch, total = EPISODES[name]
    found = plan(preset=name)
    assert (found["rollout_episodes"], found["epochs"], found["minibatch_transitions"]) == (episodes, epochs, minibatch)
    assert total is None or found["total_episodes"] == total


@pytest.mark.parametrize(("envs", "minibatch"), [(16, 128), (256, 1024), (2048, 8192)])
def test_the_isaac_settings(envs: int, minibatch: int) -> None:
    found = plan(preset=f"isaac-{envs}", trainer="rl_games")
    assert (found["num_envs"], found["rollout_steps"], found["epochs"]) == (envs, 16, 8)
    assert found["minibatch_transitions"] == minibatch


REPLAY = {  # updates per iteration, transitions, reward timesteps, subsequence, subsequences
    "libero": (64, 32, 32, 32, 1),
    "mujoco": (25, 256, 256, 64, 4),
    "rrd-official-sac": (100, 256, 256, 64, 4),
    "rrd-official-atari": (25, 32, 32, 32, 1),
}


@pytest.mark.parametrize("name", REPLAY)
def test_the_replay_settings(name: str) -> None:
    found = plan(preset=name)
    numbers = ("updates_per_iteration", "transitions_per_update", "rrd_timesteps_per_update", "subsequence_timesteps")
    assert tuple(found[n] for n in (*numbers, "subsequences_per_update")) == REPLAY[name]


def test_the_official_settings_update_once_and_a_quarter_per_step() -> None:
    assert plan(preset="rrd-official-sac")["updates_per_step"] == 1
    assert plan(preset="rrd-official-atari")["updates_per_step"] == 0.25


@pytest.mark.parametrize(
    ("name", "low", "high", "entropy"), [("discrete", 4_000, 8_200, 0.01), ("continuous", 10_000, 20_500, 0.001)]
)
def test_the_starts_for_discrete_and_continuous_actions(name: str, low: int, high: int, entropy: float) -> None:
    found = plan(preset=name)
    assert low <= found["rollout_transitions"] <= high
    assert 4 <= found["minibatches"] <= 32
    assert found.quantities["minibatches"].origin == f"preset {name}"
    assert found["epochs"] in (1, 2)
    assert 1e-4 <= found["learning_rate"] <= 3e-4
    assert 0.99 <= found["gamma"] <= 0.995
    assert (found["entropy_start"], found["entropy_end"], found["max_grad_norm"]) == (entropy, 0, 1)


DATASET = {  # policy, samples, accumulation, samples per update, workers on 32 cores, checkpointing
    "smolvla-multi": ("smolvla", 16, 1, 16, 16, True),
    "act-single": ("act", 24, 1, 24, 16, False),
    "lerobot-fallback": ("act", 12, 2, 24, 16, False),
}


@pytest.mark.parametrize("name", DATASET)
def test_the_three_recommendations_obey_the_formula_of_their_source(name: str) -> None:
    found = plan(preset=name, cores=32, gpu_memory_gb=12)
    numbers = ("samples_per_step", "accumulation", "samples_per_update", "workers", "gradient_checkpointing")
    assert (found.algo, *(found[n] for n in numbers)) == DATASET[name]
    assert found["precision"] == "bf16"
    assert found["memory_use"] < 0.9
    assert read_preset(name).corrections


@pytest.mark.parametrize(
    ("name", "words"),
    [("act-single", "20 workers"), ("lerobot-fallback", "12 workers"), ("lerobot-fallback", "by half")],
)
def test_a_correction_is_said_in_the_plan_and_in_the_preset(name: str, words: str) -> None:
    assert any(words in warning for warning in plan(preset=name, cores=32, gpu_memory_gb=12).warnings)
    assert words in run_line(f"presets show {name}").out


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_tells_its_source_uses_known_names_and_makes_a_plan(name: str) -> None:
    preset = read_preset(name)
    assert preset.source
    assert preset.summary
    assert set(preset.values) <= set(FIELDS)
    answer = run_line(f"plan --preset {name} --cores 32 --gpu-memory-gb 12")
    assert answer.code == 0
    assert f"preset {name}" in answer.out
    for number in preset.values:
        assert number in answer.out or number in ("algo", "policy", "obs_dtype")


def test_a_preset_applies_by_itself_only_with_a_measured_result() -> None:
    """Published settings for Atari were never measured here: they are named, or not used."""
    assert tuned_preset("CartPole-v1", None) == "ppo-cartpole"
    assert tuned_preset("Pong-v5", None) is tuned_preset("Pong-v5", "dqn") is None
    algos = ("ppo", "a2c", "reinforce", "sac", "td3", "dqn")
    unmeasured = [n for n in preset_names() if n.split("-")[0] in algos and not read_preset(n).result]
    assert unmeasured == []
    assert plan(preset="atari-ppo")["minibatches"] == 4
