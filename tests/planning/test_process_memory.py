"""The memory of a run before it starts: the sum of its parts, refused with what fits."""

import pytest

from batchwright.core.errors import UserError
from batchwright.core.machine import GIB, Gpu, Machine
from batchwright.planning.process_memory import image_network, vector_network
from run_batchwright import plan, refusal, run_line

PARTS = ("process_bytes", "env_bytes", "rollout_bytes", "update_bytes")
IMAGES = {"obs_shape": "84,84,4", "obs_dtype": "uint8", "action_kind": "discrete", "action_size": 1}
IMAGE_FLAGS = "--obs-shape 84,84,4 --obs-dtype uint8 --action-kind discrete --action-size 6"


def test_the_peak_is_the_sum_of_its_parts_and_each_has_a_reason() -> None:
    found = plan(obs_shape="4", action_size=1)
    assert found["memory_bytes"] == sum(found[part] for part in PARTS)
    assert all(found.quantities[part].reason for part in PARTS)


def test_a_rollout_holds_every_observation_at_the_type_of_the_environment() -> None:
    found = plan(num_envs=16, rollout_steps=128, **IMAGES)
    images = 84 * 84 * 4
    # 4 B action, six numbers of 4 B, three flags; and the observations to bootstrap from
    assert found["rollout_bytes"] == 16 * 128 * (images + 4 + 24 + 3) + 16 * images


def test_without_a_shape_or_a_length_nothing_is_forecast() -> None:
    assert "memory_bytes" not in plan().quantities
    assert "memory_bytes" not in plan(obs_shape="4", rollout_episodes=10).quantities
    assert "memory_bytes" in plan(obs_shape="4", rollout_episodes=10, episode_steps=500).quantities


def test_a_rollout_that_cannot_fit_is_refused_with_what_fits() -> None:
    """4,194,304 images of 28,224 B are 110 GiB: on 4 GiB no plan."""
    sizes = "--num-envs 256 --rollout-steps 16384"
    answer = refusal(f"plan {IMAGE_FLAGS} {sizes} --ram-gb 4")
    assert "a rollout of 4194304 transitions and its update take" in answer.err
    fixes = answer.err.split("fix: ")[1].strip().split("   or   ")
    assert fixes
    assert all(run_line(f"plan {IMAGE_FLAGS} {sizes} --ram-gb 4 {fix}").code == 0 for fix in fixes)


def test_the_fix_is_the_largest_rollout_that_fits() -> None:
    with pytest.raises(UserError) as refused:
        plan(num_envs=64, rollout_steps=100_000, ram_gb=4, **IMAGES)
    steps = int(refused.value.fixes[0].removeprefix("--rollout-steps "))
    plan(num_envs=64, rollout_steps=steps, ram_gb=4, **IMAGES)
    with pytest.raises(UserError):
        plan(num_envs=64, rollout_steps=steps + 1, ram_gb=4, **IMAGES)


def test_what_fits_keeps_whole_sequences_and_whole_episodes() -> None:
    with pytest.raises(UserError) as refused:
        plan(num_envs=64, rollout_steps=160_000, seq_length=16, ram_gb=4, **IMAGES)
    assert int(refused.value.fixes[0].removeprefix("--rollout-steps ")) % 16 == 0
    with pytest.raises(UserError) as refused:
        plan(num_envs=8, rollout_episodes=1000, episode_steps=10_000, ram_gb=4, **IMAGES)
    assert refused.value.fixes[0].startswith("--rollout-episodes ")


def test_with_a_gpu_the_rollout_must_fit_there() -> None:
    machine = Machine(cores=8, ram_bytes=512 * GIB, shm_bytes=GIB, gpus=(Gpu("A", 4 * GIB),))
    with pytest.raises(UserError, match="the GPU's memory"):
        plan(machine=machine, num_envs=256, rollout_steps=1024, **IMAGES)


def test_workers_are_processes_of_their_own() -> None:
    alone, workers = (plan(obs_shape="4", engine=f"gymnasium-{kind}") for kind in ("sync", "async"))
    assert workers["env_bytes"] > alone["env_bytes"] + 8 * 50 * 1024**2


def test_the_memory_of_another_trainer_is_not_ours() -> None:
    assert "memory_bytes" not in plan(obs_shape="4", action_size=1, trainer="rl_games").quantities


def test_activations_follow_the_layers() -> None:
    """Actor and critic, two layers of 64 in float32: 2 x 2 x 64 x 4 = 1,024 B of one row in one pass."""
    assert vector_network(4, (64, 64), 2).forward == 1024
    assert vector_network(4, (64, 64), 2).params == 2 * (4 * 64 + 64 + 64 * 64 + 64)
    # 20 x 20 squares of 8 x 8 x 4 pixels in float32, cut and copied
    assert image_network(84, 84, 4).forward == 2 * 4 * 20 * 20 * 256
