"""The doctor inside trainings of rl_games and RSL-RL, for `checkers.py`.

A planted learning rate of 1 must be named, a usual one must not, and RSL-RL must end with the same weights with and
without the doctor.
"""

from __future__ import annotations

import contextlib
import io
from importlib import metadata
from typing import Any

from batchwright.adapters.batch_check import Batches
from checkers import rl_games_config, train_rl_games

PLANTED, USUAL = 1.0, 3e-4
NAME = "learning-rate-too-high"
ITERATIONS = 12


def doctor_callbacks() -> dict[str, Any]:
    lines, wrong = {"rl_games": in_rl_games(PLANTED)}, []
    usual = {"rl_games": in_rl_games(USUAL)}
    for name, recurrent in (("rsl_rl", False), ("rsl_rl with memory", True)):
        lines[name] = in_rsl_rl(PLANTED, recurrent)[0]
        usual[name], beside = in_rsl_rl(USUAL, recurrent)
        if beside != in_rsl_rl(USUAL, recurrent, doctor=False)[1]:
            wrong.append(f"{name}: the doctor changed the training")
    wrong += [f"{name}: {NAME} was not said" for name, said in lines.items() if not _named(said)]
    wrong += [f"{name}: {NAME} at {USUAL}" for name, said in usual.items() if _named(said)]
    versions = {name: metadata.version(name) for name in ("rl-games", "rsl-rl-lib")}
    return {"version": versions, "lines": lines, "disagreements": wrong}


def _named(lines: list[str]) -> bool:
    return any(line.startswith(f"doctor: {NAME}") for line in lines)


def in_rl_games(learning_rate: float) -> list[str]:
    """The doctor's lines of a short training."""
    from batchwright.adapters.rl_games_observer import DoctorObserver

    config = rl_games_config(Batches(8, 16, minibatch_size=32))
    config["params"]["config"] |= {"learning_rate": learning_rate, "mini_epochs": 4}
    if learning_rate == PLANTED:
        config["params"]["config"]["grad_norm"] = 1e9
    lines: list[str] = []
    observer = DoctorObserver(lines.append)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(ValueError):  # NaN ends it
        train_rl_games(config, ITERATIONS, observer)
    observer.finish()
    return lines


def in_rsl_rl(learning_rate: float, recurrent: bool = False, doctor: bool = True) -> tuple[list[str], list[float]]:
    """The doctor's lines of a short training, and the weights at their end."""
    import torch
    from rsl_rl.runners import OnPolicyRunner

    from batchwright.adapters.rsl_rl_doctor import DoctorLogger

    torch.manual_seed(0)
    lines: list[str] = []
    with contextlib.redirect_stdout(io.StringIO()):
        runner = OnPolicyRunner(_flat_env(), rsl_rl_config(learning_rate, recurrent), log_dir=None, device="cpu")
        logger = DoctorLogger(runner, lines.append) if doctor else None
        with contextlib.suppress(ValueError, RuntimeError):  # NaN ends it
            runner.learn(ITERATIONS)
        if logger is not None:
            logger.finish()
    return lines, torch.cat([weights.detach().ravel() for weights in runner.alg.actor.parameters()]).tolist()


def rsl_rl_config(learning_rate: float, recurrent: bool) -> dict[str, Any]:
    model: dict[str, Any] = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu"}
    if recurrent:
        model |= {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 8, "rnn_num_layers": 1}
    return {
        "num_steps_per_env": 16,
        "save_interval": 10**6,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**model, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 1.0}},
        "critic": model,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 4,
            "num_mini_batches": 4,
            "learning_rate": learning_rate,
            "schedule": "fixed",
            "max_grad_norm": 1e9 if learning_rate == PLANTED else 1.0,
        },
    }


def _flat_env() -> Any:
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    class Flat(VecEnv):
        num_envs, num_actions, max_episode_length, device, cfg = 8, 2, 20, "cpu", {}

        def __init__(self) -> None:
            self.episode_length_buf = torch.zeros(8, dtype=torch.long)

        def get_observations(self) -> Any:
            return TensorDict({"policy": torch.rand(8, 3)}, batch_size=[8])

        def step(self, actions: Any) -> Any:
            dones = torch.rand(8) < 0.1
            return self.get_observations(), -actions.square().sum(-1), dones, {"time_outs": torch.zeros(8)}

    return Flat()
