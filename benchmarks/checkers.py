"""Compares what `batchwright check` says with what the libraries do, and trains fitted configs of rl_games.

Run with the interpreter of the peers' environment (README.md), with src on PYTHONPATH:

    PYTHONPATH=src .venv-peers/bin/python benchmarks/checkers.py --json benchmarks/results/checkers.json

Exits 1 where a verdict and a library disagree, or a fitted config does not train.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib
import io
import json
import os
import platform
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from batchwright.adapters.batch_check import ACCEPTS, DROPS, NAN, REFUSES, Batches

TRIPLES = 200
FIT_ENVS = (1, 2, 3, 5, 7, 16, 100, 255, 256, 1000, 2048)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--only", nargs="+", choices=[*LIBRARIES, *OTHER_PARTS], help="these parts alone")
    parser.add_argument("--triples", type=int, default=TRIPLES)
    parser.add_argument("--seed", type=int, default=20, help="of the random triples; the rules were found on 19")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before PyTorch: its idle threads spin on a busy machine
    names = args.only or [*LIBRARIES, *OTHER_PARTS]
    result: dict[str, Any] = {}
    if args.json and args.json.exists():
        result = json.loads(args.json.read_text(encoding="utf-8"))
    failed = False
    for name in names:
        start = time.perf_counter()
        part = OTHER_PARTS[name]() if name in OTHER_PARTS else compared(name, args.triples, args.seed)
        part["seconds"] = round(time.perf_counter() - start, 1)
        result[name] = part
        result["measured"] = datetime.now(UTC).isoformat(timespec="seconds")
        result["machine"] = {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()}
        failed |= bool(part["disagreements"])
        print(name, {key: value for key, value in part.items() if key != "disagreements"}, flush=True)
        for line in part["disagreements"][:5]:
            print("  disagrees:", line)
        if args.json:
            args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return int(failed)


def compared(name: str, triples: int, seed: int) -> dict[str, Any]:
    """Verdicts beside outcomes on random numbers; the same ones in every run."""
    package, draw, real = LIBRARIES[name]
    adapter = importlib.import_module(f"batchwright.adapters.{name}")
    rng = random.Random(f"{name} {seed}")
    counts: dict[str, int] = {}
    disagreements = []
    for _ in range(triples):
        batches = draw(rng)
        said = adapter.check(batches)
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome, dropped, message = real(batches)
        counts[outcome] = counts.get(outcome, 0) + 1
        refused_alike = outcome != REFUSES or agree(said.detail, message)
        if (said.outcome, said.dropped_rows if outcome == DROPS else 0) != (outcome, dropped) or not refused_alike:
            disagreements.append(f"{batches}: said {said.outcome} ({said.detail}), {outcome} {dropped} {message}")
    version = metadata.version(package) if package else None
    return {"version": version, "triples": triples, "seed": seed, "outcomes": counts, "disagreements": disagreements}


def agree(said: str, message: str) -> bool:
    """Whether the library's message is the one that was foretold; bare asserts have none."""
    if not message:
        return "assert" in said
    first = message.splitlines()[0]
    return said[:40] in first or first[:40] in said or ("index" in said and "index" in first) or "shape" in first


# ---------------------------------------------------------------- rl_games


def draw_rl_games(rng: random.Random) -> Batches:
    envs, steps, agents = rng.randint(1, 12), rng.randint(1, 12), rng.choice((1, 1, 2))
    rows = envs * steps * agents
    divides = rng.random() < 0.6
    size = rng.choice([n for n in range(1, rows + 1) if rows % n == 0]) if divides else rng.randint(1, 40)
    seq = rng.choice((None, 1, 2, 3, 4))
    return Batches(envs, steps, minibatch_size=size, num_agents=agents, seq_length=seq, recurrent=rng.random() < 0.3)


def rl_games_config(batches: Batches, central: int | None = None) -> dict[str, Any]:
    network: dict[str, Any] = {
        "name": "actor_critic",
        "separate": False,
        "space": {
            "continuous": {
                "mu_activation": "None",
                "sigma_activation": "None",
                "mu_init": {"name": "default"},
                "sigma_init": {"name": "const_initializer", "val": 0},
                "fixed_sigma": True,
            }
        },
        "mlp": {"units": [8], "activation": "elu", "initializer": {"name": "default"}},
    }
    if batches.recurrent:
        network["rnn"] = {"name": "lstm", "units": 8, "layers": 1, "before_mlp": False, "concat_input": False}
    config: dict[str, Any] = {
        "name": "checkers",
        "env_name": "checkers",
        "train_dir": tempfile.gettempdir() + "/batchwright-checkers",
        "full_experiment_name": "run",
        "ppo": True,
        "normalize_input": False,
        "normalize_value": False,
        "normalize_advantage": True,
        "reward_shaper": {"scale_value": 1.0},
        "num_actors": batches.num_envs,
        "horizon_length": batches.rollout_steps,
        "minibatch_size": batches.minibatch_size,
        "mini_epochs": 1,
        "gamma": 0.99,
        "tau": 0.95,
        "learning_rate": 3e-4,
        "lr_schedule": None,
        "kl_threshold": 0.01,
        "entropy_coef": 0.0,
        "e_clip": 0.2,
        "clip_value": False,
        "critic_coef": 1.0,
        "bounds_loss_coef": 0.0,
        "grad_norm": 1.0,
        "truncate_grads": True,
        "max_epochs": 1,
        "score_to_win": 1e9,
        "save_frequency": 0,
        "save_best_after": 10**6,
        "device": "cpu",
        "device_name": "cpu",
        "torch_compile": False,
        "mixed_precision": False,
        "print_stats": False,
        "env_config": {"agents": batches.num_agents, "state": central is not None},
    }
    if batches.seq_length is not None:
        config["seq_length"] = batches.seq_length
    if central is not None:
        config["central_value_config"] = {
            "minibatch_size": central,
            "mini_epochs": 1,
            "learning_rate": 3e-4,
            "clip_value": False,
            "normalize_input": False,
            "network": {"name": "actor_critic", "central_value": True, "mlp": copy.deepcopy(network["mlp"])},
        }
    return {
        "params": {
            "seed": 1,
            "algo": {"name": "a2c_continuous"},
            "model": {"name": "continuous_a2c_logstd"},
            "load_checkpoint": False,
            "network": network,
            "config": config,
        }
    }


def train_rl_games(config: dict[str, Any], epochs: int = 1, observer: Any = None) -> Any:
    """The real Runner on an environment of zeros and ones."""
    from rl_games.common import env_configurations, vecenv
    from rl_games.torch_runner import Runner

    if "checkers" not in vecenv.vecenv_config:
        vecenv.register("CHECKERS", lambda name, actors, **kwargs: _flat_env(actors, **kwargs))
        env_configurations.register("checkers", {"vecenv_type": "CHECKERS", "env_creator": lambda **kwargs: None})
        vecenv.vecenv_config["checkers"] = True
    config["params"]["config"]["max_epochs"] = epochs
    runner = Runner(observer)
    runner.load(config)
    agents: list[Any] = []
    create = runner.algo_factory.create
    runner.algo_factory.create = lambda *args, **kwargs: agents.append(create(*args, **kwargs)) or agents[-1]
    runner.run({"train": True, "play": False})
    return agents[-1]


def _flat_env(actors: int, agents: int = 1, state: bool = False, **_: Any) -> Any:
    import gymnasium
    import numpy as np
    from rl_games.common.ivecenv import IVecEnv

    class Flat(IVecEnv):
        rows = actors * agents

        def _obs(self) -> Any:
            obs = np.random.rand(self.rows, 3).astype(np.float32)
            return {"obs": obs, "states": np.random.rand(actors, 5).astype(np.float32)} if state else obs

        def reset(self) -> Any:
            return self._obs()

        def step(self, actions: Any) -> Any:
            done = np.random.rand(self.rows) < 0.1
            return self._obs(), np.random.rand(self.rows).astype(np.float32), done, {}

        def get_number_of_agents(self) -> int:
            return agents

        def get_env_info(self) -> dict[str, Any]:
            box = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
            found: dict[str, Any] = {
                "observation_space": box,
                "action_space": gymnasium.spaces.Box(-1, 1, (2,), np.float32),
                "agents": agents,
                "value_size": 1,
            }
            if state:
                found["state_space"] = gymnasium.spaces.Box(-1, 1, (5,), np.float32)
                found["use_global_observations"] = True
            return found

    return Flat()


def run_rl_games(batches: Batches) -> tuple[str, int, str]:
    try:
        agent = train_rl_games(rl_games_config(batches))
    except (AssertionError, ValueError, IndexError) as error:
        text = str(error)
        return (NAN, 0, text) if "nan" in text.lower() and "Expected parameter" in text else (REFUSES, 0, text)
    return (NAN if any(bool(weights.isnan().any()) for weights in agent.model.parameters()) else ACCEPTS), 0, ""


# ---------------------------------------------------------------- RSL-RL, skrl


def draw_count(rng: random.Random) -> Batches:
    envs, steps = rng.randint(1, 40), rng.randint(1, 24)
    return Batches(envs, steps, minibatches=rng.randint(1, 12), recurrent=rng.random() < 0.4)


def outcome_of(rows: int, minibatches: list[int]) -> tuple[str, int, str]:
    """What the sizes that a library cut lead to: NaN by the operations of its loss, done on numbers."""
    import torch

    advantages = torch.rand(rows)
    normalised = (advantages - advantages.mean()) / (advantages.std() + 1e-8)  # over the rollout
    if any(bool(normalised[:size].mean().isnan()) for size in minibatches):
        return NAN, 0, ""
    dropped = rows - sum(minibatches)
    return (DROPS if dropped else ACCEPTS), dropped, ""


def run_rsl_rl(batches: Batches) -> tuple[str, int, str]:
    import torch
    from rsl_rl.storage import RolloutStorage
    from tensordict import TensorDict

    envs, steps = batches.num_envs, batches.rollout_steps
    obs = TensorDict({"policy": torch.zeros(envs, 3)}, batch_size=[envs])
    storage = RolloutStorage("rl", envs, steps, obs, [2], "cpu")
    hidden = torch.zeros(1, envs, 4)
    for step in range(steps):
        transition = RolloutStorage.Transition()
        transition.observations = obs
        transition.actions = torch.zeros(envs, 2)
        transition.rewards, transition.values = torch.zeros(envs), torch.zeros(envs, 1)
        transition.dones = torch.zeros(envs)
        transition.actions_log_prob = torch.zeros(envs)
        transition.distribution_params = (torch.zeros(envs, 2), torch.ones(envs, 2))
        transition.hidden_states = (hidden, hidden) if batches.recurrent else (None, None)
        storage.add_transition(transition)
        _ = step
    cut = storage.recurrent_mini_batch_generator if batches.recurrent else storage.mini_batch_generator
    sizes = [int(batch.values.numel()) for batch in cut(int(batches.minibatches or 1), 1)]
    return outcome_of(batches.rows, sizes)


def draw_skrl(rng: random.Random) -> Batches:
    envs, steps = rng.randint(1, 40), rng.randint(1, 24)
    return Batches(envs, steps, minibatches=rng.randint(1, 12), seq_length=rng.choice((None, None, 2, 4)))


def run_skrl(batches: Batches) -> tuple[str, int, str]:
    import torch
    from skrl.memories.torch import RandomMemory

    memory = RandomMemory(memory_size=batches.rollout_steps, num_envs=batches.num_envs, device="cpu")
    memory.create_tensor("values", size=1, dtype=torch.float32)
    for _ in range(batches.rollout_steps):
        memory.add_samples(values=torch.zeros(batches.num_envs, 1))
    seq = batches.seq_length or 1
    cut = memory.sample_all(names=["values"], mini_batches=int(batches.minibatches or 1), sequence_length=seq)
    sizes = [len(part[0]) for part in cut]
    found = outcome_of(batches.rows, sizes)
    if found[0] == ACCEPTS and seq > 1:
        try:  # as the models of its documentation do
            for part in cut:
                part[0].view(-1, seq, 1)
        except RuntimeError as error:
            return REFUSES, 0, str(error)
    return found


# ---------------------------------------------------------------- SB3, CleanRL, brax


def draw_size(rng: random.Random) -> Batches:
    return Batches(rng.randint(1, 12), rng.randint(1, 24), minibatch_size=rng.randint(1, 80))


def run_sb3(batches: Batches) -> tuple[str, int, str]:
    import gymnasium
    import numpy as np
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Still(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> Any:
            return np.zeros(3, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(3, np.float32), 0.0, False, False, {}

    try:
        envs = DummyVecEnv([Still for _ in range(batches.num_envs)])
        size = int(batches.minibatch_size or 1)
        net = {"net_arch": [4]}
        model = PPO("MlpPolicy", envs, n_steps=batches.rollout_steps, batch_size=size, n_epochs=1, policy_kwargs=net)
        model.learn(batches.rows)
    except AssertionError as error:
        return REFUSES, 0, str(error)
    if any(bool(weights.isnan().any()) for weights in model.policy.parameters()):
        return NAN, 0, ""
    return outcome_of(batches.rows, [len(part.advantages) for part in model.rollout_buffer.get(size)])


def run_cleanrl(batches: Batches) -> tuple[str, int, str]:
    """The lines of ppo.py and ppo_atari_lstm.py that cut minibatches and normalise advantages."""
    import torch

    parts = int(batches.minibatches or 1)
    advantages = torch.rand(batches.rows)
    try:
        if batches.recurrent:
            assert batches.num_envs % parts == 0
            envs = batches.num_envs // parts
            flat = torch.arange(batches.rows).reshape(batches.rollout_steps, batches.num_envs)
            cuts = [flat[:, start : start + envs].ravel() for start in range(0, batches.num_envs, envs)]
        else:
            size = int(batches.rows // parts)
            order = torch.randperm(batches.rows)
            cuts = [order[start : start + size] for start in range(0, batches.rows, size)]
    except (AssertionError, ValueError) as error:
        return REFUSES, 0, f"{type(error).__name__}: {error}" if str(error) else ""
    normalised = [(advantages[cut] - advantages[cut].mean()) / (advantages[cut].std() + 1e-8) for cut in cuts]
    if any(bool(part.isnan().any()) for part in normalised):
        return NAN, 0, ""
    return outcome_of(batches.rows, [len(cut) for cut in cuts])


class _ReachedError(Exception):
    """brax got past its checks and asked for the environment."""


def draw_brax(rng: random.Random) -> Batches:
    return Batches(
        rng.randint(1, 64), rng.randint(1, 16), minibatches=rng.randint(1, 16), minibatch_size=rng.randint(1, 64)
    )


def run_brax(batches: Batches) -> tuple[str, int, str]:
    from brax.training.agents.ppo import train

    def reached(*_: Any, **__: Any) -> Any:
        raise _ReachedError

    class Env:
        def __getattr__(self, name: str) -> Any:
            raise _ReachedError

    try:
        train.train(
            Env(),
            num_timesteps=1,
            episode_length=8,
            wrap_env_fn=reached,
            num_envs=batches.num_envs,
            unroll_length=batches.rollout_steps,
            batch_size=batches.minibatch_size,
            num_minibatches=batches.minibatches,
        )
    except _ReachedError:
        return ACCEPTS, 0, ""
    except AssertionError as error:
        return REFUSES, 0, str(error)
    raise RuntimeError("brax made neither")


Real = Callable[[Batches], tuple[str, int, str]]
LIBRARIES: dict[str, tuple[str | None, Callable[[random.Random], Batches], Real]] = {
    "rl_games": ("rl-games", draw_rl_games, run_rl_games),
    "rsl_rl": ("rsl-rl-lib", draw_count, run_rsl_rl),
    "sb3": ("stable-baselines3", draw_size, run_sb3),
    "skrl": ("skrl", draw_skrl, run_skrl),
    "cleanrl": (None, draw_count, run_cleanrl),
    "brax": ("brax", draw_brax, run_brax),
}


# ---------------------------------------------------------------- fit


def fitted_configs() -> dict[str, Any]:
    """11 numbers of environments x 5 kinds of config: refused unless they divide; fitted they train."""
    from batchwright.adapters.rl_games import fit

    kinds: dict[str, tuple[dict[str, Any], int | None]] = {
        "plain": ({}, None),
        "central value": ({}, 512),
        "LSTM": ({"recurrent": True, "seq_length": 4}, None),
        "horizon 5": ({"rollout_steps": 5}, None),
        "two agents": ({"num_agents": 2}, None),
    }
    raw_refused = trained = divides = 0
    disagreements = []
    for kind, (changes, central) in kinds.items():
        for envs in FIT_ENVS:
            numbers = {"rollout_steps": 16, "minibatch_size": 1024} | changes
            batches = Batches(envs, **numbers)
            raw = rl_games_config(batches, central)
            fitted = copy.deepcopy(raw)
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    train_rl_games(raw)
                    divides += 1
                except (AssertionError, ValueError):
                    raw_refused += 1
                    if batches.rows % 1024 == 0 and (central is None or envs * 16 % 512 == 0):
                        disagreements.append(f"{kind} {envs}: refused though it divides")
                try:
                    fit(fitted, envs, tuned_num_envs=256, num_agents=batches.num_agents)
                    train_rl_games(fitted, epochs=2)
                    trained += 1
                except Exception as error:
                    disagreements.append(f"{kind} {envs}: {type(error).__name__} {error}")
    cases = len(kinds) * len(FIT_ENVS)
    return {
        "version": metadata.version("rl-games"),
        "cases": cases,
        "unfitted_trained": divides,
        "unfitted_refused": raw_refused,
        "fitted_trained_2_epochs": trained,
        "disagreements": disagreements,
    }


# ---------------------------------------------------------------- the doctor inside their runs


def doctor_callbacks() -> dict[str, Any]:
    from doctor_inside import doctor_callbacks as run

    return run()


OTHER_PARTS: dict[str, Callable[[], dict[str, Any]]] = {"fit": fitted_configs, "doctor": doctor_callbacks}


if __name__ == "__main__":
    sys.exit(main())
