"""Dataset plans: workers, memory as fixed + per sample, accumulation at a constant effective batch."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.core.errors import UserError
from batchwright.core.machine import GIB
from batchwright.planning.plan import Plan
from run_batchwright import plan


def act(**options: object) -> Plan:
    return plan(**{"policy": "act", "gpu_memory_gb": 12, "cores": 32, **options})


@pytest.mark.parametrize(
    ("cores", "samples", "workers"),
    [(32, 24, 16), (32, 4, 8), (32, 1, 2), (8, 24, 4), (128, 64, 16), (3, 24, 1), (2, 24, 1), (1, 24, 0)],
)
def test_workers_are_the_least_of_half_the_cores_twice_the_batch_and_16(cores: int, samples: int, workers: int) -> None:
    assert act(cores=cores, samples_per_step=samples)["workers"] == workers


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
    assert found["memory_bytes"] == 7_000_000_000
    assert found["memory_use"] == pytest.approx(7e9 / (12 * GIB), abs=1e-4)


def test_the_fixed_part_of_act_is_weights_gradients_moments_and_workspace() -> None:
    assert act()["fixed_bytes"] == 52_000_000 * 16 + GIB


def test_priors_are_called_priors_and_measured_figures_are_not() -> None:
    assert any("priors" in warning for warning in act().warnings)
    assert not any("priors" in warning for warning in act(sample_mb=60, fixed_mb=2000).warnings)


def test_two_cameras_of_half_the_side_need_a_sixth_of_the_sample_memory() -> None:
    assert act(cameras=2, image_size=112)["sample_bytes"] * 6 == pytest.approx(act()["sample_bytes"], abs=6)


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
    assert "--samples-per-step 75 --accumulation 2" in warning
    fixed = act(samples_per_step=75, accumulation=2)
    assert fixed["samples_per_update"] == 150
    assert not any("danger" in w for w in fixed.warnings)


def test_less_memory_than_the_fixed_part_is_refused_with_what_is_enough() -> None:
    with pytest.raises(UserError, match="cannot hold smolvla") as refused:
        plan(policy="smolvla", gpu_memory_gb=2)
    assert refused.value.fixes == ("--gpu-memory-gb 5",)
    assert plan(policy="smolvla", gpu_memory_gb=5)["samples_per_step"] >= 1


def test_the_effective_batch_is_kept_by_accumulation() -> None:
    found = act(samples_per_update=256, sample_mb=200, fixed_mb=2000)  # 47 fit; 32 is the largest divisor below
    assert found["samples_per_step"] == 32
    assert found["accumulation"] == 8
    assert act(samples_per_update=24, accumulation=3)["samples_per_step"] == 8


def test_an_effective_batch_that_cuts_badly_is_said_with_one_that_cuts_well() -> None:
    found = act(samples_per_update=127)
    assert (found["samples_per_step"], found["accumulation"]) == (1, 127)
    assert any("--samples-per-update 128 makes 2" in warning for warning in found.warnings)
    assert act(samples_per_update=128)["accumulation"] == 2


def test_the_ladder_after_running_out_of_memory_keeps_the_effective_batch() -> None:
    ladder = act(precision="fp32").alternatives
    assert ladder[0].startswith("--samples-per-step 12 --accumulation 2")  # the nearest divisor of 24 to 18
    assert ladder[1].startswith("--gradient-checkpointing")
    assert ladder[2].startswith("--precision bf16")
    assert not any("bf16" in step for step in act(precision="bf16").alternatives)


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
    if effective is not None:  # a whole number of what is pinned; the rest is refused elsewhere
        accumulation = None if micro else accumulation
        effective *= micro or accumulation or 1
    found = plan(
        policy=policy,
        samples_per_step=micro,
        accumulation=accumulation,
        samples_per_update=effective,
        cores=cores,
        gpu_memory_gb=gpu,
    )
    assert found["samples_per_step"] * found["accumulation"] == found["samples_per_update"]
    assert found["workers"] == min(cores // 2, 2 * found["samples_per_step"], 16)
    fits, one = found["largest_samples_per_step"], found["sample_bytes"]
    assert found["fixed_bytes"] + fits * one <= 0.9 * gpu * GIB + 1
    assert found["fixed_bytes"] + (fits + 1) * one >= 0.9 * gpu * GIB - 1
    if micro is None and accumulation is None:
        assert found["samples_per_step"] <= fits
    assert math.isclose(found["memory_bytes"], found["fixed_bytes"] + found["samples_per_step"] * one, abs_tol=2)
