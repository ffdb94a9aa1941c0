"""Whatever is stated is in the plan, decides it, or is refused: nothing is lost in silence."""

import pytest

from batchwright.config.schema import DATASET, FIELDS, ON_POLICY, REPLAY
from batchwright.config.values import kind_of
from batchwright.core.errors import UserError
from run_batchwright import plan

REGIME = {ON_POLICY: {}, REPLAY: {"algo": "sac", "redistribute": "rrd"}, DATASET: {"policy": "act"}}
SAMPLES = {int: 16, float: 0.25, bool: True, str: "x", tuple: (16, 16)}
# These state the task, the machine or the method: they decide other numbers and have no row of their own.
FACTS = {"env", "algo", "policy", "obs_shape", "obs_dtype", "action_size", "action_kind", "episode_steps", "dataset"}
FACTS |= {"data", "cores", "ram_gb", "gpu_memory_gb", "sample_mb", "fixed_mb", "hold", "scale_learning_rate"}


@pytest.mark.parametrize("regime", REGIME)
@pytest.mark.parametrize("name", sorted(set(FIELDS) - FACTS))
def test_a_stated_number_has_its_row_with_its_place_or_is_refused(regime: str, name: str) -> None:
    value = (FIELDS[name].metadata["choices"] or [SAMPLES[kind_of(name)]])[0]
    try:
        found = plan(**{**REGIME[regime], name: value})
    except UserError as refused:
        flag = "--" + name.replace("_", "-")
        assert flag in refused.message or flag in " ".join(refused.fixes)
        return
    assert found.regime in FIELDS[name].metadata["regimes"]
    assert found.quantities[name].source == "pinned"
    assert found.quantities[name].origin == "--" + name.replace("_", "-")
    assert f"pinned --{name.replace('_', '-')}" in found.explain()


@pytest.mark.parametrize("regime", REGIME)
@pytest.mark.parametrize("name", sorted(FIELDS))
def test_a_number_of_another_regime_is_refused(regime: str, name: str) -> None:
    if regime in FIELDS[name].metadata["regimes"] or name in ("policy", "algo", "env", "redistribute"):
        return
    value = (FIELDS[name].metadata["choices"] or [SAMPLES[kind_of(name)]])[0]
    with pytest.raises(UserError):
        plan(**{**REGIME[regime], name: value})
