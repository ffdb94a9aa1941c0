"""Quantities that a plan writes as text are read back as typed values, in one place each."""

from dataclasses import replace

import pytest

from batchwright.planning.component_plan import component_names, component_weights
from batchwright.planning.network_plan import OWN_NETWORK, hidden_sizes
from batchwright.planning.plan import Plan, plan_from_dict
from run_batchwright import plan

IMAGES = {"algo": "dqn", "obs_shape": "84,84,4", "obs_dtype": "uint8", "action_size": 6, "replay_transitions": 1000}


def with_hidden(text: str) -> Plan:
    made = plan()
    return replace(made, quantities={**made.quantities, "hidden": replace(made.quantities["hidden"], value=text)})


def test_hidden_layers_are_read_as_whole_numbers() -> None:
    assert hidden_sizes(plan()) == (64, 64)
    assert hidden_sizes(plan(hidden="32")) == (32,)
    assert hidden_sizes(plan(algo="sac", hidden="400,300,200")) == (400, 300, 200)


def test_networks_without_hidden_sizes_have_none() -> None:
    assert hidden_sizes(plan(**IMAGES)) is None
    assert hidden_sizes(with_hidden(OWN_NETWORK)) is None


def test_hidden_layers_nobody_plans_fail_loudly() -> None:
    with pytest.raises(ValueError, match="big one"):
        hidden_sizes(with_hidden("a big one"))


def test_components_are_read_in_their_order_with_their_weights() -> None:
    found = plan(components=("speed", "energy"), component_weights=("energy=0.25",))
    assert component_names(found) == ("speed", "energy")
    assert component_weights(found) == (1.0, 0.25)


@pytest.mark.parametrize("settings", [{}, {"components": ("none",)}])
def test_a_reward_of_one_number_has_no_components(settings: dict[str, tuple[str, ...]]) -> None:
    found = plan(**settings)
    assert component_names(found) == ()
    assert component_weights(found) == ()


def test_a_plan_read_back_from_its_record_gives_the_same() -> None:
    made = plan(hidden="32,16", components=("speed", "energy"))
    read = plan_from_dict(made.to_dict())
    assert hidden_sizes(read) == (32, 16)
    assert component_names(read) == ("speed", "energy")
    assert component_weights(read) == (1.0, 1.0)
