"""Dataset plans: workers, memory as fixed + per sample, accumulation at a constant effective batch."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.core.errors import UserError
from batchwright.core.machine import GIB
from batchwright.planning.memory import PolicyMemory
from batchwright.planning.plan import Plan
from batchwright.planning.traced_memory import WORKSPACE_BYTES, traced_memory
from run_batchwright import plan


def act(**options: object) -> Plan:
    return plan(**{"policy": "act", "gpu_memory_gb": 12, "cores": 32, **options})


@pytest.mark.parametrize(
    ("cores", "samples", "workers"),
    [(32, 24, 16), (32, 4, 8), (32, 1, 2), (8, 24, 4), (128, 64, 16), (3, 24, 1), (2, 24, 1), (1, 24, 0)],
)
def test_workers_are_the_least_of_half_the_cores_twice_the_batch_and_16(cores: int, samples: int, workers: int) -> None:
    assert act(cores=cores, samples_per_step=samples)["workers"] == workers


def test_without_a_gpu_no_workers_take_cores_from_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    found = plan(policy="act", cores=32)
    assert found["workers"] == 0
    assert not [check for check in found.checks if check.name == "workers"]
    assert plan(policy="act", cores=32, workers=4)["workers"] == 4


@pytest.mark.parametrize(
    ("workers", "band"), [(2, "too few"), (8, "good"), (16, "good"), (19, "good"), (20, "too many"), (24, "too many")]
)
def test_pinned_workers_are_judged_by_bands(workers: int, band: str) -> None:
    check = next(check for check in act(workers=workers).checks if check.name == "workers")
    assert band in check.message
    assert check.ok == (band == "good")


def test_12_gib_hold_fewer_than_12_gb_over_60_mb_since_a_part_is_fixed() -> None:
    found = act(sample_mb=60, fixed_mb=2000)
    # 0.9 x 12 GiB = 11597 MB, less 2000 MB fixed, by 60 MB each: 159 and not 200.
    assert found["largest_samples_per_step"] == 159
    assert act(sample_mb=60, fixed_mb=0)["largest_samples_per_step"] == 193


def test_memory_is_fixed_plus_samples_times_their_own() -> None:
    found = act(sample_mb=100, fixed_mb=3000, samples_per_step=40)
    assert found["fixed_bytes"] == 3_000_000_000
    assert found["sample_bytes"] == 100_000_000
    assert found["planned_memory_bytes"] == 7_000_000_000
    assert found["memory_use"] == pytest.approx(7e9 / (12 * GIB), abs=1e-4)


def test_one_sample_of_act_needs_what_the_optimiser_needs_at_least() -> None:
    found = act(precision="fp32", samples_per_step=1)
    # Traced: 990 MB in the optimiser's step, 626 + 123 MB in the backward pass; and 1 GiB for CUDA.
    assert found["planned_memory_bytes"] == found["floor_bytes"] == pytest.approx(990e6 + GIB, rel=0.001)
    many = act(precision="fp32", samples_per_step=16)
    assert many["planned_memory_bytes"] == pytest.approx(626.3e6 + 16 * 122.87e6 + GIB, rel=0.001)


@pytest.mark.parametrize(
    ("policy", "precision", "checkpointing", "cameras", "samples", "traced_mb"),
    [  # samples on the line of large batches; sums of fixed and samples in MB, traced or counted with LeRobot
        ("act", "fp32", False, 3, 16, 626 + 16 * 123),
        ("act", "fp32", True, 3, 64, 701 + 64 * 42),
        ("smolvla", "fp32", False, 3, 4, 3119),
        ("smolvla", "fp32", False, 1, 8, 3112),
        ("smolvla", "bf16", True, 3, 64, 2076 + 64 * 68.1),
        ("smolvla", "bf16", True, 1, 64, 2076 + 64 * 32.5),
    ],
)
def test_plans_without_lerobot_have_the_traced_memory(
    policy: str, precision: str, checkpointing: bool, cameras: int, samples: int, traced_mb: float
) -> None:
    found = traced_memory(policy, cameras, 224, precision, checkpointing)
    assert found.total(samples) - WORKSPACE_BYTES == pytest.approx(traced_mb * 1e6, rel=0.01)


def test_a_batch_that_waits_for_its_micro_batch_is_counted() -> None:
    whole, cut = act(samples_per_step=24), act(samples_per_update=240, samples_per_step=24)
    waiting = 216 * 3 * 224 * 224 * 3 * 4
    assert cut["planned_memory_bytes"] - whole["planned_memory_bytes"] == pytest.approx(waiting, abs=2)


def test_the_guess_about_cuda_is_called_a_guess_and_measured_figures_are_not() -> None:
    assert any("is a guess" in warning for warning in act().warnings)
    assert not any("guess" in warning for warning in act(sample_mb=60, fixed_mb=2000).warnings)


def test_smolvla_resizes_its_images_and_act_does_not() -> None:
    smolvla = [plan(policy="smolvla", gpu_memory_gb=24, image_size=side)["sample_bytes"] for side in (224, 448)]
    assert smolvla[0] == smolvla[1]
    assert act(image_size=448)["sample_bytes"] > 3 * act(image_size=224)["sample_bytes"]


@pytest.mark.parametrize(
    ("samples", "band"), [(107, "good"), (108, "good"), (109, "warn"), (113, "warn"), (115, "danger")]
)
def test_memory_bands_are_good_to_90_percent_and_danger_from_95(samples: int, band: str) -> None:
    # 12 GiB = 12885 MB: 90% is 11597 MB = 108.3 samples of 107 MB, 95% is 12241 MB = 114.4.
    found = act(sample_mb=107, fixed_mb=0, samples_per_step=samples)
    assert found.quantities["memory_use"].reason.endswith(band)
    assert any("danger" in warning for warning in found.warnings) == (band != "good")


def test_danger_names_flags_that_fit_and_keep_the_effective_batch() -> None:
    warning = next(w for w in act(samples_per_step=150).warnings if w.startswith("danger"))
    assert "--samples-per-update 150 --samples-per-step 75" in warning
    fixed = act(samples_per_step=75, samples_per_update=150)
    assert fixed["samples_per_update"] == 150
    assert not any("danger" in w for w in fixed.warnings)


def test_less_memory_than_the_fixed_part_is_refused_with_what_is_enough() -> None:
    with pytest.raises(UserError, match="cannot hold smolvla") as refused:
        plan(policy="smolvla", gpu_memory_gb=2)
    enough = int(refused.value.fixes[-1].removeprefix("--gpu-memory-gb "))
    assert plan(policy="smolvla", gpu_memory_gb=enough)["samples_per_step"] >= 1
    with pytest.raises(UserError):
        plan(policy="smolvla", gpu_memory_gb=enough - 1)


@pytest.mark.parametrize(
    ("policy", "options", "samples"),
    [
        ("act", {}, 24),
        ("act", {"datasets": 6}, 16),
        ("act", {"accumulation": 2}, 12),
        ("smolvla", {}, 20),
        ("smolvla", {"datasets": 6}, 16),
        ("smolvla", {"accumulation": 2}, 8),
    ],
)
def test_the_careful_start_depends_on_datasets_and_accumulation(policy: str, options: dict, samples: int) -> None:
    assert plan(policy=policy, gpu_memory_gb=24, cores=32, **options)["samples_per_step"] == samples


def test_the_effective_batch_is_kept_by_accumulation() -> None:
    found = act(samples_per_update=256, sample_mb=200, fixed_mb=2000)  # 47 fit: 6 micro-batches of 42 or 43
    assert (found["samples_per_step"], found["accumulation"]) == (43, 6)
    assert act(samples_per_update=24, accumulation=3)["samples_per_step"] == 8


@pytest.mark.parametrize("samples", [23, 24, 127])
def test_no_batch_is_cut_into_single_samples_for_want_of_divisors(samples: int) -> None:
    found = act(samples_per_update=samples, sample_mb=1000, fixed_mb=0)  # 11 fit
    assert found["accumulation"] == math.ceil(samples / 11)
    assert found["samples_per_step"] == math.ceil(samples / found["accumulation"])


def test_the_ladder_after_running_out_of_memory_keeps_the_effective_batch() -> None:
    rungs = act(precision="fp32").alternatives
    assert rungs[0].endswith("--samples-per-update 24 --samples-per-step 18 (18 + 6)")
    assert rungs[1].endswith("--samples-per-step 13 (13 + 11)")
    assert rungs[4].endswith("--gradient-checkpointing")
    assert rungs[5].endswith("--precision bf16")
    assert not any("bf16" in rung for rung in act(precision="bf16").alternatives)


def test_micro_batches_that_contradict_are_refused_with_both_fixes() -> None:
    with pytest.raises(UserError, match="are 4, not the 2 stated") as refused:
        act(samples_per_update=24, samples_per_step=7, accumulation=2)
    assert refused.value.fixes == ("--accumulation 4", "--samples-per-step 12")


def test_processes_share_the_samples_of_an_update() -> None:
    found = act(samples_per_update=64, processes=4, sample_mb=1000, fixed_mb=0)  # 11 fit, 16 each
    assert (found["samples_per_step"], found["accumulation"]) == (8, 2)
    assert act(samples_per_step=8, accumulation=2, processes=4)["samples_per_update"] == 64
    with pytest.raises(UserError, match="cannot be shared"):
        act(samples_per_update=3, processes=4)


def test_updates_are_optimiser_updates_whatever_the_accumulation() -> None:
    assert act(accumulation=4)["total_updates"] == act()["total_updates"]


def test_recorded_data_and_an_environment_exclude_each_other() -> None:
    with pytest.raises(UserError, match="recorded data"):
        act(env="CartPole-v1")


@given(
    micro=st.none() | st.integers(1, 10**4),
    accumulation=st.none() | st.integers(1, 10**4),
    effective=st.none() | st.integers(1, 10**5),
    cores=st.integers(1, 1024),
    gpu=st.integers(6, 1000),
    policy=st.sampled_from(["act", "smolvla"]),
)
def test_any_positive_integers_make_a_valid_dataset_plan(
    micro: int | None, accumulation: int | None, effective: int | None, cores: int, gpu: int, policy: str
) -> None:
    if effective is not None:  # contradictions are refused elsewhere
        accumulation = None
    found = plan(
        policy=policy,
        samples_per_step=micro,
        accumulation=accumulation,
        samples_per_update=effective,
        cores=cores,
        gpu_memory_gb=gpu,
    )
    step, parts, samples = (found[name] for name in ("samples_per_step", "accumulation", "samples_per_update"))
    assert (parts - 1) * step < samples <= parts * step
    assert effective in (None, samples)
    assert found["workers"] == min(cores // 2, 2 * step, 16)
    fits, one = found["largest_samples_per_step"], found["sample_bytes"]
    assert found["fixed_bytes"] + fits * one <= 0.9 * gpu * GIB + fits
    assert found["fixed_bytes"] + (fits + 1) * one >= 0.9 * gpu * GIB - fits - 2
    if micro is None and accumulation is None:
        assert step <= fits


def test_a_micro_batch_that_is_to_grow_begins_small_at_the_same_samples_per_update() -> None:
    found = act(grow=True, samples_per_update=64)
    assert (found["samples_per_step"], found["samples_per_update"]) == (12, 64)
    alone = act(grow=True)
    assert (alone["samples_per_step"], alone["samples_per_update"]) == (12, act()["samples_per_update"])
    assert act(grow=True, samples_per_step=7)["samples_per_step"] == 7


def test_micro_batches_of_a_large_update_leave_room_for_the_samples_that_wait() -> None:
    found = act(samples_per_update=4000)
    # 4000 samples of 3 x 224 x 224 x 3 x 4 B are 7.2 GB, which lie on the GPU beside the micro-batch.
    assert found["memory_use"] <= 0.9
    assert found["samples_per_step"] < found["largest_samples_per_step"] / 2


def test_small_batches_need_what_their_own_line_says() -> None:
    memory = PolicyMemory(600e6, 100e6, "", "", small_batches=((800e6, 80e6),))
    assert memory.total(4) == 1120e6  # 800 + 4 x 80, above 600 + 4 x 100
    assert memory.total(20) == 2600e6
    assert memory.largest(1199e6, share=1.0) == 4  # the other line would allow 5
    assert memory.largest(2650e6, share=1.0) == 20
    # Of 8 samples 4 wait: 800 + 4 x 80 + 4 x 10.
    assert replace(memory, input_bytes=10e6).total(4, 8) == 1160e6
    assert replace(memory, input_bytes=10e6).largest(1160e6, share=1.0, samples_per_update=8) == 4
