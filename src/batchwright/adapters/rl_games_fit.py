"""Fits a config of rl_games to any number of environments. Needs nothing but the standard library."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from batchwright.core.errors import UserError
from batchwright.planning.split import divisors_of_product, few_minibatches, few_minibatches_reason, nearest_in_ratio

TRIED_VERSIONS = ("1.6.1", "1.6.5")
DEFAULT_SEQ_LENGTH = 4
"""What rl_games uses where the config is silent, for networks without memory too."""
USEFUL_FACTOR = 1.5
"""A number of minibatches further than this from the author's is said."""
REQUESTED = "requested"
CENTRAL = "central_value_config"

Config = MutableMapping[str, Any]


@dataclass(frozen=True)
class MinibatchFit:
    """The minibatch of one network: the main one, or the central value network."""

    batch_size: int
    minibatch_size: int
    reason: str

    @property
    def minibatches(self) -> int:
        return self.batch_size // self.minibatch_size


@dataclass(frozen=True)
class Fit:
    """What `fit` calculated and wrote into the config."""

    num_envs: int
    horizon_length: int
    num_agents: int
    mini_epochs: int | None
    seq_length: int
    main: MinibatchFit
    central: MinibatchFit | None
    notes: tuple[str, ...]

    def block(self) -> str:
        """The lines that `fit` prints."""
        rows: list[tuple[str, object]] = [("num_envs", self.num_envs), ("horizon_length", self.horizon_length)]
        rows += [("num_agents", self.num_agents)] if self.num_agents > 1 else []
        rows += [("batch_size", self.main.batch_size), ("minibatch_size", _calculated(self.main))]
        if self.central is not None:
            rows.append((f"{CENTRAL}.minibatch_size", _calculated(self.central)))
        rows += [] if self.mini_epochs is None else [("mini_epochs", self.mini_epochs)]
        lines = ["[INFO]: Batch configuration:", *(f"         {name} = {value}" for name, value in rows)]
        why = [f"minibatch_size: {self.main.reason}"]
        why += [] if self.central is None else [f"{CENTRAL}.minibatch_size: {self.central.reason}"]
        return "\n".join([*lines, *(f"         {line}" for line in (*why, *self.notes))])


def _calculated(found: MinibatchFit) -> str:
    return f"{found.minibatch_size}" if found.reason == REQUESTED else f"{found.minibatch_size} (auto-calculated)"


def fit(
    agent_cfg: Config,
    num_envs: int,
    tuned_num_envs: int | None = None,
    num_agents: int = 1,
    *,
    minibatch_size: int | None = None,
    horizon_length: int | None = None,
    mini_epochs: int | None = None,
    say: Callable[[str], None] = print,
) -> Fit:
    """Writes a minibatch size that rl_games accepts into `agent_cfg` (changed in place), and prints what it wrote.

    With `tuned_num_envs`, the number of environments that the config was made for, the author's number of minibatches
    is kept. `minibatch_size`, `horizon_length` and `mini_epochs` replace what the config says.
    """
    params, config = _sections(agent_cfg)
    _refuse_bad_numbers(
        num_envs=num_envs,
        tuned_num_envs=tuned_num_envs,
        num_agents=num_agents,
        minibatch_size=minibatch_size,
        horizon_length=horizon_length,
        mini_epochs=mini_epochs,
    )
    horizon = horizon_length or _whole(config, "horizon_length")
    central = config.get(CENTRAL)
    recurrent = _has_memory(params) or (central is not None and _has_memory(central))
    stated_seq = config.get("seq_length", DEFAULT_SEQ_LENGTH)
    seq, notes = _seq_length(stated_seq, horizon, num_envs, num_agents, recurrent, central is not None)
    legal_seq = seq if recurrent else 1
    author = _Author(config.get("horizon_length", horizon), tuned_num_envs)
    main = _minibatch(config, (num_envs, horizon, num_agents), legal_seq, author, minibatch_size)
    found = None if central is None else _minibatch(central, (num_envs, horizon), legal_seq, author, None)
    if mini_epochs is not None:
        config["mini_epochs"] = mini_epochs
    notes += [*_process_notes(config), *version_notes(installed_version())]
    passes = config.get("mini_epochs")
    result = Fit(num_envs, horizon, num_agents, passes, seq, main, found, tuple(notes))
    _write(config, result)
    if int(os.environ.get("RANK", "0") or 0) == 0:
        say(result.block())
    return result


def _write(config: Config, result: Fit) -> None:
    config["num_actors"] = result.num_envs
    config["horizon_length"] = result.horizon_length
    config["minibatch_size"] = result.main.minibatch_size
    if result.central is not None:
        config[CENTRAL]["minibatch_size"] = result.central.minibatch_size
    if result.seq_length != config.get("seq_length", DEFAULT_SEQ_LENGTH):
        config["seq_length"] = result.seq_length


def _sections(agent_cfg: Config) -> tuple[Config, Config]:
    """`params` and `params.config`, after checking that they are those of PPO."""
    try:
        params = agent_cfg["params"]
        config = params["config"]
        config.get("horizon_length")
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(
            "this is no config of rl_games: it has no section params.config.",
            ["pass the whole config, as Runner.load takes it"],
        ) from error
    algo = (params.get("algo") or {}).get("name", "a2c_continuous")
    if not str(algo).startswith("a2c"):
        raise UserError(f"the config trains {algo}, which cuts no rollout into minibatches.", ["leave fit out"])
    return params, config


def _whole(config: Config, key: str) -> int:
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(
            f"params.config.{key} is {'missing' if value is None else repr(value)}; a whole number above 0 is needed.",
            [f"{key}: 16"],
        )
    return value


def _refuse_bad_numbers(**numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise UserError(f"{name} {value!r} is no whole number above 0.", [f"{name}=16"])


def _has_memory(section: Config) -> bool:
    return "rnn" in (section.get("network") or {})


def _seq_length(
    stated: int, horizon: int, num_envs: int, num_agents: int, recurrent: bool, central: bool
) -> tuple[int, list[str]]:
    """A seq_length that rl_games accepts, and a note where it is another one than stated."""
    if isinstance(stated, bool) or not isinstance(stated, int) or stated < 1:
        raise UserError(f"params.config.seq_length is {stated!r}; a whole number above 0 is needed.", ["seq_length: 4"])
    if recurrent:
        seq = nearest_in_ratio(divisors_of_product(horizon), stated)
        changed = [f"seq_length: {stated} -> {seq}, it must divide the horizon of {horizon}"] if seq != stated else []
        return seq, changed
    batches = [horizon * num_envs * num_agents, *([horizon * num_envs] if central else [])]
    if all(batch % stated == 0 for batch in batches):
        return stated, []
    return 1, [f"seq_length: {stated} -> 1; rl_games checks it for networks without memory too, and does not use it"]


@dataclass(frozen=True)
class _Author:
    """What the config was made for."""

    horizon: int
    num_envs: int | None


def _minibatch(
    section: Config, factors: tuple[int, ...], seq_length: int, author: _Author, requested: int | None
) -> MinibatchFit:
    """The minibatch of one network: a divisor of its batch and a multiple of the sequence length.

    `factors` of the batch: environments, horizon and, for the main network, agents.
    """
    batch = math.prod(factors)
    legal = [size for size in divisors_of_product(*factors) if size % seq_length == 0]
    legal = [size for size in legal if size > 1] or legal  # one row has no spread to normalise by
    if requested is not None:
        used = nearest_in_ratio(legal, requested)
        if used == requested:
            return MinibatchFit(batch, used, REQUESTED)
        return MinibatchFit(batch, used, f"{requested} requested, {used} used: it must divide {batch}{_of(seq_length)}")
    parts = _author_minibatches(section, author, math.prod(factors[2:]))
    if parts is None:
        target = few_minibatches(batch)
        used = nearest_in_ratio(legal, target)
        return MinibatchFit(batch, used, few_minibatches_reason(batch) + _distance(used, target, batch, seq_length))
    used = nearest_in_ratio(legal, max(1, round(batch / parts)))
    reason = f"{_count(batch // used)}, the author's number is {parts:g}"
    return MinibatchFit(batch, used, reason + _distance(used, batch / parts, batch, seq_length))


def _count(minibatches: int) -> str:
    return "1 minibatch" if minibatches == 1 else f"{minibatches} minibatches"


def _of(seq_length: int) -> str:
    return f" and be a multiple of the sequence length {seq_length}" if seq_length > 1 else ""


def _distance(used: int, target: float, batch: int, seq_length: int) -> str:
    if abs(math.log(used / target)) <= math.log(USEFUL_FACTOR) + 1e-9:
        return "" if used == target else f"; the divisor of {batch} nearest to {target:g}"
    return f"; no divisor of {batch}{_of(seq_length)} is nearer to {target:g}"


def _author_minibatches(section: Config, author: _Author, num_agents: int) -> float | None:
    """Minibatches of a rollout as the author meant them, or None where they are not known."""
    size, per_env = section.get("minibatch_size"), section.get("minibatch_size_per_env")
    if size is None and isinstance(per_env, int) and per_env > 0:
        return max(1.0, author.horizon * num_agents / per_env)
    if author.num_envs is None or not isinstance(size, int) or size < 1:
        return None
    return max(1.0, author.horizon * author.num_envs * num_agents / size)


def _process_notes(config: Config) -> list[str]:
    processes = int(os.environ.get("WORLD_SIZE", "1") or 1)
    if not config.get("multi_gpu") or processes == 1:
        return []
    return [f"processes: {processes}; num_envs and batch_size are those of each"]


def version_notes(version: str | None) -> list[str]:
    """A line where this version of rl_games is not one that the rules were tried with."""
    if version is None or version in TRIED_VERSIONS:
        return []
    tried = " and ".join(TRIED_VERSIONS)
    return [f"rl_games {version} was not tried; its rules are taken for those of {tried}"]


@functools.cache
def installed_version() -> str | None:
    for name in ("rl-games", "rl_games"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return metadata.version(name)
    return None
