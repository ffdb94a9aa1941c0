"""The command rl-games: the real rl_games on EnvPool or Gymnasium, into a run directory of ours."""

from __future__ import annotations

import sys
from typing import Any

from batchwright.commands.parser import Parser, whole
from batchwright.core.errors import UserError

NUMBERS = ("num_envs", "minibatch_size", "horizon_length", "mini_epochs", "max_epochs", "tuned_num_envs", "seed")
HELP = {
    "num_envs": "environments stepped side by side",
    "minibatch_size": "rows of a minibatch; one that does not divide the rollout becomes the nearest that does",
    "horizon_length": "steps of each environment in a rollout",
    "mini_epochs": "passes over a rollout",
    "max_epochs": "rollouts until the end",
    "tuned_num_envs": "environments that the config was made for; its number of minibatches is then kept",
    "seed": "seed of rl_games and of the environments",
}


def rl_games(words: list[str]) -> int:
    parser = Parser(
        prog="batchwright rl-games",
        description="Trains a config of rl_games with rl_games itself; watch, report and doctor read the run.",
        allow_abbrev=False,
    )
    parser.add_argument("config", nargs="?", help="rl_games' YAML file")
    for name in NUMBERS:
        parser.add_argument(f"--{name}", f"--{name.replace('_', '-')}", dest=name, metavar="N", help=HELP[name])
    parser.add_argument("--env", metavar="ID", help="an environment of EnvPool or Gymnasium; else the config's")
    parser.add_argument("--engine", choices=("envpool", "gymnasium"), help="EnvPool where it has the environment")
    parser.add_argument("--python", metavar="PATH", help="the interpreter that has rl_games; this one where not stated")
    parser.add_argument("--run-dir", metavar="DIR", help="where the run is written")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run of this command")
    parser.add_argument(
        "--trust", action="store_true", help="with --resume: load the checkpoint of a run that you did not make here"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing while training")
    stated = parser.read(words)
    numbers: dict[str, Any] = {
        name: whole(f"--{name}", stated[name], 0 if name == "seed" else 1)
        for name in NUMBERS
        if stated[name] is not None
    }

    from batchwright.adapters import rl_games_launch
    from batchwright.runs.recorder import OutputOptions

    options = OutputOptions(quiet=stated["quiet"])
    if stated["resume"]:
        if stated["config"] or numbers or stated["env"]:
            raise UserError(
                "a run is resumed with its own config.", [f"batchwright rl-games --resume {stated['resume']}"]
            )
        return rl_games_launch.resume(stated["resume"], stated["python"], options, stated["trust"])
    if stated["config"] is None or "num_envs" not in numbers:
        raise UserError(
            "rl-games needs a config and a number of environments.", ["batchwright rl-games CONFIG.yaml --num_envs 16"]
        )
    from batchwright.adapters.foreign_config import read_foreign_config

    python = stated["python"] or sys.executable
    config = read_foreign_config(stated["config"])
    job = rl_games_launch.prepare(
        config, numbers.pop("num_envs"), stated["env"], python, stated["engine"], numbers.pop("seed", None), **numbers
    )
    return rl_games_launch.start(job, python, stated["run_dir"], options)
