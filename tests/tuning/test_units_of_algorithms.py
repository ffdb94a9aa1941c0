"""Units of every algorithm and engine: the runs that train makes, tuned end to end, and accidents that stay theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import batchwright
from batchwright.core.machine import probe_machine
from batchwright.envs.catalog import describe
from batchwright.envs.task_facts import task_facts
from batchwright.runs.shared_programs import SharedPrograms
from batchwright.tuning import executors
from batchwright.tuning.executors import FINISHED, WorkerExecutor, _Worker, train_run
from batchwright.tuning.search_space import default_space
from batchwright.tuning.start_tuning import check_values
from batchwright.tuning.tuning_ledger import read_ledger
from batchwright.tuning.unit_runs import UnitPlanner
from small_runs import record

ON_POLICY = {"num_envs": 2, "rollout_steps": 16, "hidden": "8"}
REPLAY = {
    "num_envs": 2,
    "rollout_steps": 16,
    "hidden": "8",
    "updates_per_iteration": 4,
    "transitions_per_update": 16,
    "replay_transitions": 256,
    "warmup_steps": 32,
}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": {"env": "CartPole-v1", **ON_POLICY, "minibatches": 2, "epochs": 2},
    "a2c": {"env": "CartPole-v1", **ON_POLICY},
    "reinforce": {"env": "CartPole-v1", **ON_POLICY},
    "sac": {"env": "Pendulum-v1", **REPLAY},
    "dqn": {"env": "CartPole-v1", **REPLAY},
}
ENGINES = ["jax", "envpool", "envpool-host", "gymnasium-sync", "gymnasium-async", "gymnasium-vector", "gymnasium-split"]
STEPS = 128


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_unit_that_shares_programs_has_the_digests_of_train_alone(algo: str, engine: str, tmp_path: Path) -> None:
    if engine.startswith("envpool"):
        pytest.importorskip("envpool")
    if (algo, engine) == ("sac", "gymnasium-vector"):
        pytest.skip("Gymnasium has no vectorised Pendulum")
    flags = {**ALGORITHMS[algo], "algo": algo, "engine": engine, "learner_threads": 1, "eval_every": 0}
    flags |= {"eval_episodes": 1, "checkpoint_every": 100}
    planner = UnitPlanner(flags, probe_machine(), task_facts(describe(str(flags["env"]))))
    programs, setting = SharedPrograms(), {"learning_rate": 2e-3, "gamma": 0.9}
    units = [planner.prepare({}, 0, STEPS, tmp_path / "default"), planner.prepare(setting, 1, STEPS, tmp_path / "unit")]
    assert [train_run(unit, programs).status for unit in units] == [FINISHED, FINISHED]
    alone = batchwright.train(
        run_dir=tmp_path / "alone", quiet=True, preset="none", seed=1, total_steps=STEPS, **flags, **setting
    )
    assert record(tmp_path / "unit") == record(alone.run_dir)
    assert record(tmp_path / "unit")[-1]["parameters_digest"] != record(tmp_path / "default")[-1]["parameters_digest"]


SHORT = {"engine": "jax", "preset": "none", "eval_episodes": 1, **REPLAY}
REWARDS = {"redistribute": "rrd", "subsequence_timesteps": 4, "rrd_timesteps_per_update": 8}
TUNED: dict[str, dict[str, Any]] = {
    "sac": {"env": "IdentityContinuous-v0", "algo": "sac"},
    "td3": {"env": "IdentityContinuous-v0", "algo": "td3"},
    "dqn": {"env": "IdentityDiscrete-v0", "algo": "dqn"},
    "sac with rrd": {"env": "IdentityContinuous-v0", "algo": "sac", **REWARDS},
}


@pytest.mark.parametrize("name", TUNED)
def test_a_replay_algorithm_is_tuned_from_its_default_to_a_verdict(name: str, tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text("B: {learning_rate: [1e-4, 1e-2]}\nD: {gamma: [0.5]}\n")
    case = {**SHORT, **TUNED[name]}
    result = batchwright.tune(
        case.pop("env"),
        run_dir=tmp_path / "tuning",
        quiet=True,
        space=space,
        search="none",
        tune_seeds=1,
        judge_seeds=4,
        budget_steps=20 * 640,
        **case,
    )
    assert result is not None and result.verdict is not None and not result.failed_units
    lines = read_ledger(tmp_path / "tuning" / "ledger.jsonl")
    header, units = lines[0], [line for line in lines if line["kind"] == "unit"]
    assert {unit["phase"] for unit in units} >= {"default", "B", "D"}
    assert all(unit["score"] is not None and len(unit["tenths"]) == 10 for unit in units)
    last = [unit for unit in units if unit["phase"] == "D"][-1]
    settings = {**header["flags"], **last["setting"], "preset": "none"}
    alone = batchwright.train(
        run_dir=tmp_path / "alone", quiet=True, seed=last["seed"], total_steps=last["steps"], **settings
    )
    assert record(alone.run_dir)[-1]["parameters_digest"] == last["digest"]


@pytest.mark.parametrize("name", ["sac", "td3", "dqn", "sac with rrd"])
def test_every_number_of_the_default_space_can_be_tried(name: str) -> None:
    case = {"eval_every": 0, "learner_threads": 1, **{key: TUNED[name][key] for key in ("env", "algo")}}
    case |= {"engine": "jax"} | ({"redistribute": "rrd"} if "rrd" in name else {})
    planner = UnitPlanner(case, probe_machine(), task_facts(describe(case["env"])))
    plan = planner.plan({}, 0, 100_000)[1]
    space = default_space(plan)
    check_values(space, planner, plan)
    assert [phase.letter for phase in space.phases] == ["B", "C", "D", "E"]
    assert ("reward_learning_rate" in space.names) == ("rrd" in name)


def test_a_unit_that_was_being_prepared_at_a_kill_is_prepared_anew(tmp_path: Path) -> None:
    flags = {**ALGORITHMS["ppo"], "engine": "jax", "learner_threads": 1, "algo": "ppo"}
    planner = UnitPlanner(flags, probe_machine(), task_facts(describe("CartPole-v1")))
    whole = planner.prepare({}, 0, STEPS, tmp_path / "units" / "whole")
    part = tmp_path / "units" / "part"
    part.mkdir()
    (part / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    (part / ".plan.json.1.tmp").write_text("{")
    assert planner.prepare({}, 0, STEPS, part) == part
    assert (part / "plan.json").read_bytes() == (whole / "plan.json").read_bytes()
    before = (part / "plan.json").stat().st_mtime_ns
    planner.prepare({}, 0, STEPS, part)
    assert (part / "plan.json").stat().st_mtime_ns == before


def test_a_worker_that_dies_costs_its_unit_and_nothing_else(tmp_path: Path) -> None:
    env = tmp_path / "deadly.py"
    env.write_text(
        "import os\nimport gymnasium\n\n\n"
        "class Deadly(gymnasium.Wrapper):\n"
        "    def reset(self, seed=None, options=None):\n"
        "        kill = os.environ.get('DEADLY_FILE', '')\n"
        "        if kill and os.path.exists(kill):\n"
        "            os.remove(kill)\n"
        "            os._exit(9)\n"
        "        return self.env.reset(seed=seed, options=options)\n\n\n"
        "def make_env():\n    return Deadly(gymnasium.make('CartPole-v1'))\n"
    )
    flags = {**ALGORITHMS["ppo"], "env": f"{env}:make_env", "engine": "gymnasium-sync", "learner_threads": 1}
    flags |= {"eval_every": 0, "eval_episodes": 1, "algo": "ppo"}
    planner = UnitPlanner(flags, probe_machine(), task_facts(describe(flags["env"])))
    trigger = tmp_path / "kill"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DEADLY_FILE", str(trigger))
        trigger.touch()
        executor = WorkerExecutor(1, trust=True)
        runs = [planner.prepare({}, seed, STEPS, tmp_path / f"unit-{seed}") for seed in range(2)]
        outcomes = list(executor.execute(runs))
        executor.close()
    assert [outcome.status for outcome in outcomes] == ["failed", "finished"]
    assert outcomes[0].reason == "its worker process ended with exit code 9"


@pytest.mark.parametrize("kept", [True, False])
def test_the_first_run_compiles_alone_where_programs_are_kept(kept: bool, tmp_path: Path) -> None:
    flags = {**ALGORITHMS["ppo"], "env": "CartPole-v1", "engine": "jax", "learner_threads": 1, "algo": "ppo"}
    planner = UnitPlanner(flags, probe_machine(), task_facts(describe("CartPole-v1")))
    first, *others = [planner.prepare({}, seed, STEPS, tmp_path / f"unit-{seed}") for seed in range(3)]
    begun: list[bool] = []

    class Watched(_Worker):
        """Notes for every run after the first whether that had made an iteration."""

        def train(self, run: Path) -> None:
            if run != first:
                begun.append((first / "metrics.jsonl").exists())
            super().train(run)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(executors, "_Worker", Watched)
        patched.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
        if kept:
            patched.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
        executor = WorkerExecutor(2)
        outcomes = list(executor.execute([first, *others]))
        executor.close()
    assert {outcome.status for outcome in outcomes} == {FINISHED} and len(outcomes) == 3
    assert begun[0] is kept and begun[1]


def test_an_environment_that_crashes_for_some_settings_fails_those_units_with_its_reason(tmp_path: Path) -> None:
    env = tmp_path / "fragile.py"
    env.write_text(
        "import gymnasium\n\n\n"
        "class Fragile(gymnasium.Wrapper):\n"
        "    def reset(self, seed=None, options=None):\n"
        "        if seed is not None and seed % 3 == 0:\n"
        "            raise RuntimeError(f'no world for seed {seed}')\n"
        "        return self.env.reset(seed=seed, options=options)\n\n\n"
        "def make_env():\n    return Fragile(gymnasium.make('CartPole-v1'))\n"
    )
    flags = {**ALGORITHMS["ppo"], "env": f"{env}:make_env", "engine": "gymnasium-sync", "learner_threads": 1}
    flags |= {"eval_every": 0, "eval_episodes": 1, "algo": "ppo", "num_envs": 1, "minibatches": 1}
    planner = UnitPlanner(flags, probe_machine(), task_facts(describe(flags["env"])))
    runs = [planner.prepare({}, seed, 64, tmp_path / f"unit-{seed}") for seed in range(8)]
    outcomes = [train_run(run, SharedPrograms(), trust=True) for run in runs]
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    assert 0 < len(failed) < 8
    assert all("no world for seed" in outcome.reason for outcome in failed)
