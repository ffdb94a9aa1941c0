"""Any number of environments works in rl_games: the fitted config passes the library's own checks."""

import copy
import math
import subprocess
import sys
from typing import Any

import pytest
from isaac_lab_configs import SHIPPED, Shipped

from batchwright.adapters.rl_games import fit
from batchwright.core.errors import UserError


def refused(config: dict[str, Any], num_envs: int, num_agents: int = 1) -> bool:
    """The checks of rl_games 1.6.5, in the order of its files (a2c_common.py, datasets.py, central_value.py)."""
    params = config["params"]
    main = params["config"]
    central = main.get("central_value_config")
    seq, horizon = main.get("seq_length", 4), main["horizon_length"]
    nets = [(main, horizon * num_envs * num_agents, "rnn" in params["network"])]
    if central:
        nets.append((central, horizon * num_envs, "rnn" in central.get("network", {})))
    for section, batch, memory in nets:
        size = section["minibatch_size"]
        if batch % size or batch % seq or (memory and (size % seq or horizon % seq)):
            return True
    return False


def quiet_fit(config: dict[str, Any], num_envs: int, **options: Any) -> Any:
    return fit(config, num_envs, say=lambda text: None, **options)


def small(**settings: Any) -> dict[str, Any]:
    config = {"horizon_length": 16, "minibatch_size": 32768, "mini_epochs": 8} | settings
    return {"params": {"algo": {"name": "a2c_continuous"}, "network": {}, "config": config}}


def test_shipped_configs_accept_three_per_cent_of_numbers_of_environments_unfitted() -> None:
    assert len(SHIPPED) == 37
    accepted = sum(not refused(shipped.config(), number) for shipped in SHIPPED for number in range(1, 8193))
    assert 0.025 < accepted / (37 * 8192) < 0.035
    assert sum(refused(shipped.config(), 16) for shipped in SHIPPED) == 34
    assert sum(refused(shipped.config(), 256) for shipped in SHIPPED) == 27


SOME_NUMBERS = [*range(1, 33), 97, 100, 255, 256, 257, 1000, 1009, 2048, 3000, 4096, 5003, 8191, 8192]


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda shipped: shipped.name)
def test_a_shipped_config_is_accepted_fitted_with_the_authors_number_of_minibatches(shipped: Shipped) -> None:
    for number in SOME_NUMBERS:
        config = shipped.config()
        found = quiet_fit(config, number, tuned_num_envs=shipped.tuned)
        assert not refused(config, number), (shipped.name, number)
        for part, size in ((found.main, shipped.minibatch), (found.central, shipped.central)):
            if part is not None:
                author = max(1.0, shipped.horizon * shipped.tuned / size)
                near = max(part.minibatches / author, author / part.minibatches) <= 1.5
                assert near or "no divisor" in part.reason, (shipped.name, number)


def test_where_no_divisor_is_said_to_be_near_there_is_none() -> None:
    said = 0
    for number in range(1, 40):
        found = quiet_fit(small(horizon_length=7, minibatch_size=7168), number, tuned_num_envs=4096).main
        near = [
            n for n in range(2, found.batch_size + 1) if found.batch_size % n == 0 and 2.67 <= found.batch_size / n <= 6
        ]
        assert ("no divisor" in found.reason) == (near == []), number
        said += not near
    assert said > 5


def test_a_shipped_config_at_its_own_number_keeps_its_own_minibatch() -> None:
    for shipped in SHIPPED:
        if not refused(shipped.config(), shipped.tuned):
            config = shipped.config()
            quiet_fit(config, shipped.tuned, tuned_num_envs=shipped.tuned)
            assert config["params"]["config"]["minibatch_size"] == shipped.minibatch


# num_envs -> minibatch at a horizon of 16: a quarter of a large batch, half of a medium one, all of a small one.
RULE = {2048: 8192, 1024: 4096, 256: 1024, 16: 128, 4: 64}


@pytest.mark.parametrize("num_envs", RULE)
def test_the_rule_holds_where_the_tuned_number_is_not_known(num_envs: int) -> None:
    config = small()
    quiet_fit(config, num_envs)
    assert config["params"]["config"]["minibatch_size"] == RULE[num_envs]
    assert config["params"]["config"]["num_actors"] == num_envs


def test_the_block_says_what_was_calculated() -> None:
    lines: list[str] = []
    fit(small(), 16, say=lines.append)
    assert lines[0].splitlines()[:6] == [
        "[INFO]: Batch configuration:",
        "         num_envs = 16",
        "         horizon_length = 16",
        "         batch_size = 256",
        "         minibatch_size = 128 (auto-calculated)",
        "         mini_epochs = 8",
    ]


def test_a_network_without_memory_gets_a_seq_length_that_divides() -> None:
    config = small(horizon_length=5)
    found = quiet_fit(config, 3)
    assert config["params"]["config"]["seq_length"] == 1
    assert "seq_length: 4 -> 1" in found.block()
    even = small()
    quiet_fit(even, 3)
    assert "seq_length" not in even["params"]["config"]


def test_memory_keeps_sequences_that_divide_the_horizon() -> None:
    config = small(horizon_length=6, seq_length=4)
    config["params"]["network"]["rnn"] = {"name": "lstm"}
    quiet_fit(config, 7, num_agents=2)
    # Divisors of 6: 1, 2, 3, 6. 3 is a factor of 1.33 from 4, 6 one of 1.5.
    assert config["params"]["config"]["seq_length"] == 3
    assert not refused(config, 7, 2)


def test_both_networks_are_fitted_and_agents_count_for_the_main_one_alone() -> None:
    config = small(central_value_config={"minibatch_size": 512, "mini_epochs": 4})
    found = quiet_fit(config, 100, tuned_num_envs=4096, num_agents=3)
    # The author's: 16 * 4096 * 3 / 32768 = 6 of the main network, 16 * 4096 / 512 = 128 of the central one.
    assert (found.main.batch_size, found.main.minibatches) == (4800, 6)
    assert found.central.batch_size == 1600
    # Divisors of 1600 near 1600 / 128 = 12.5: 10 (a factor of 1.25) and 16 (1.28).
    assert config["params"]["config"]["central_value_config"]["minibatch_size"] == 10


def test_rows_per_environment_keep_the_number_of_minibatches() -> None:
    config = small(minibatch_size_per_env=4)
    del config["params"]["config"]["minibatch_size"]
    found = quiet_fit(config, 1001)
    assert found.main.minibatches == 4  # 16 steps / 4 rows of each environment
    assert config["params"]["config"]["minibatch_size"] == 4004


def test_a_minibatch_that_is_asked_for_is_checked_and_the_one_used_is_said() -> None:
    config = small()
    found = quiet_fit(config, 16, minibatch_size=512)
    assert found.main.minibatch_size == 256
    assert "512 requested, 256 used" in found.block()
    exact = quiet_fit(small(), 16, minibatch_size=64)
    assert (exact.main.minibatch_size, "auto-calculated" in exact.block()) == (64, False)


def test_another_horizon_keeps_the_authors_number_of_minibatches() -> None:
    found = quiet_fit(small(minibatch_size=8192), 64, tuned_num_envs=2048, horizon_length=32, mini_epochs=3)
    assert (found.main.minibatches, found.mini_epochs) == (4, 3)  # 16 * 2048 / 8192


def test_several_processes_are_said_and_one_of_them_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    lines: list[str] = []
    found = fit(small(multi_gpu=True), 16, say=lines.append)
    assert "processes: 4" in found.block()
    assert len(lines) == 1
    monkeypatch.setenv("RANK", "1")
    fit(small(multi_gpu=True), 16, say=lines.append)
    assert len(lines) == 1


def test_an_untried_version_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from batchwright.adapters import rl_games_fit

    monkeypatch.setattr(rl_games_fit, "installed_version", lambda: "2.0.0")
    assert "rl_games 2.0.0 was not tried" in quiet_fit(small(), 16).block()
    monkeypatch.setattr(rl_games_fit, "installed_version", lambda: "1.6.5")
    assert "tried" not in quiet_fit(small(), 16).block()


@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ({}, {}, "no section params.config"),
        ({"params": {"config": None}}, {}, "no section params.config"),
        ({"params": {"config": {"minibatch_size": 8}}}, {}, "horizon_length is missing"),
        (small(horizon_length="16"), {}, "horizon_length is '16'"),
        (small(seq_length=0), {}, "seq_length is 0"),
        (small(), {"minibatch_size": 0}, "minibatch_size 0 is no whole number"),
        (small(), {"num_agents": True}, "num_agents True"),
        ({"params": {"algo": {"name": "sac"}, "config": {}}}, {}, "trains sac"),
    ],
)
def test_bad_input_is_refused_with_the_figure(config: Any, options: dict[str, Any], message: str) -> None:
    before = copy.deepcopy(config)
    with pytest.raises(UserError, match=message):
        quiet_fit(config, 16, **options)
    assert config == before


def test_a_config_without_a_minibatch_gets_one() -> None:
    config = small()
    del config["params"]["config"]["minibatch_size"]
    quiet_fit(config, 1000)
    assert config["params"]["config"]["minibatch_size"] == 4000


def test_the_adapter_needs_the_standard_library_alone() -> None:
    code = (
        "import sys; import batchwright.adapters.rl_games, batchwright.adapters.rl_games_wrapper;"
        "names = {m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names);"
        "print(sorted(names - {'batchwright', '__main__'}))"
    )
    # -S: without site-packages, so that what is imported must be ours or Python's.
    path = [entry for entry in sys.path if "site-packages" not in entry]
    found = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path[:] = {path!r}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


def test_one_row_is_no_minibatch_where_two_are_possible() -> None:
    for number in range(1, 60):
        found = quiet_fit(small(minibatch_size=1), number, tuned_num_envs=4096)
        assert math.gcd(found.main.minibatch_size, found.main.batch_size) == found.main.minibatch_size > 1
