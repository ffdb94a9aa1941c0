"""Files of other libraries: the RL Zoo, rl_games, RSL-RL, keyword arguments of Stable-Baselines3."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from batchwright.config import foreign_settings, schema
from batchwright.config.schema import FIELDS
from batchwright.config.yaml_entries import Entry, construct_plain
from batchwright.core.errors import UserError


def foreign_entries(node: Any, path: Path, env: str | None) -> list[Entry] | None:
    """The lines of another library's file; None where it is one of ours.

    | form | how it is known |
    |---|---|
    | the RL Zoo | mappings by environment with `n_timesteps` or `policy` |
    | rl_games | `params: config:` |
    | RSL-RL | `algorithm:` and `num_steps_per_env` |
    | keyword arguments of Stable-Baselines3 | its words, and none of ours for them |
    """
    top = _mapping(node)
    inner = {key: _mapping(value) for key, (_, value) in top.items()}
    entry = foreign_settings.zoo_entry(inner, env)
    if entry is not None:
        if not entry:
            named = [key for key, content in inner.items() if content]
            raise UserError(
                f"{path.name} has entries for {', '.join(named[:5])}, none for {env}.",
                [f"train {named[0]} --config ..."],
            )
        algo = path.stem.lower()
        line = top[entry][0]
        found = _plain(inner[entry], foreign_settings.SB3, path)
        return [*([Entry("algo", algo, line, foreign_settings.SB3)] if algo in schema.ALGOS else []), *found]
    if "config" in inner.get("params", {}):
        params = inner["params"]
        config = _plain(_mapping(params["config"][1]), foreign_settings.RL_GAMES, path)
        network = _mapping(_mapping(params["network"][1]).get("mlp", (0, None))[1]) if "network" in params else {}
        wanted = {key: value for key, value in network.items() if key in ("units", "activation")}
        wanted |= {"seed": params["seed"]} if "seed" in params else {}
        return _with_total([*config, *_plain(wanted, foreign_settings.RL_GAMES, path)], "max_epochs")
    if inner.get("algorithm") and "num_steps_per_env" in top:
        parts = [
            _plain(inner[name], foreign_settings.RSL_RL, path) for name in ("algorithm", "policy") if inner.get(name)
        ]
        flat = {key: value for key, value in top.items() if not inner[key]}
        return _with_total([*_plain(flat, foreign_settings.RSL_RL, path), *itertools.chain(*parts)], "max_iterations")
    marks = foreign_settings.SB3_MARKS & {key.lower() for key in top}
    sections = [key for key, content in inner.items() if content and not key.lower().endswith(_ARGUMENTS)]
    if marks and not sections and not set(top) & (set(FIELDS) - _SHARED_WORDS):
        return _plain(top, foreign_settings.SB3_KEYWORDS, path)
    return None


_SHARED_WORDS = frozenset(
    {"learning_rate", "gamma", "gae_lambda", "clip_range", "max_grad_norm", "seed", "policy", "env", "algo"}
)
"""Our names that Stable-Baselines3 has too."""
_ARGUMENTS = "_kwargs"
"""How settings end whose value is a mapping of keyword arguments, such as policy_kwargs."""
_DEEPEST_ARGUMENTS, _MOST_ARGUMENTS = 4, 16
"""Levels and entries of keyword arguments that are read; anchors that repeat each other cannot make more."""


def _mapping(node: Any) -> dict[str, tuple[int, Any]]:
    """(line, node) by key; empty for anything but a mapping with plain keys."""
    import yaml

    if not isinstance(node, yaml.MappingNode):
        return {}
    pairs = [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
    return {str(key.value): (key.start_mark.line + 1, value) for key, value in pairs}


def _plain(mapping: Mapping[str, tuple[int, Any]], form: str, path: Path) -> list[Entry]:
    """The lines of a foreign mapping; values are plain, lists of plain ones, or text that is read and never run."""
    import yaml

    found = []
    for key, (line, node) in mapping.items():
        if key == "policy" and str(getattr(node, "value", "")).endswith("Policy"):
            continue  # MlpPolicy, CnnPolicy: follows from the observations
        if key == "<<" or node.tag == "tag:yaml.org,2002:null":
            continue
        flat = isinstance(node, yaml.ScalarNode) or (
            isinstance(node, yaml.SequenceNode) and all(isinstance(part, yaml.ScalarNode) for part in node.value)
        )
        if flat and node.tag.startswith("tag:yaml.org,2002:python"):
            items = node.value if isinstance(node, yaml.SequenceNode) else [node]
            value: Any = [str(item.value) for item in items]
        else:
            value = construct_plain(node, yaml.SafeLoader(""), f"{path.name}:{line}: {key}") if flat else _text(node)
        found.append(Entry(key, value, line, form))
    return found


def _text(node: Any, depth: int = 0) -> str:
    """A nested value as the text of Python that the RL Zoo writes for it: `{net_arch: [64, 64]}`."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if depth == _DEEPEST_ARGUMENTS:
        return "..."  # also ends anchors that hold themselves
    if isinstance(node, yaml.SequenceNode):
        return "[" + ", ".join(_text(part, depth + 1) for part in node.value[:_MOST_ARGUMENTS]) + "]"
    pairs = node.value[:_MOST_ARGUMENTS]
    return "{" + ", ".join(f"{_text(key, depth + 1)}: {_text(value, depth + 1)}" for key, value in pairs) + "}"


def _with_total(entries: list[Entry], iterations: str) -> list[Entry]:
    """The lines with `total_steps` in the place of a number of iterations, where the size of one is stated too."""
    by_key = {entry.key: entry for entry in entries}
    sizes = (
        [by_key.get(name) for name in ("num_actors", "num_envs")],
        [by_key.get(name) for name in ("horizon_length", "num_steps_per_env")],
    )
    envs, steps = (next((entry for entry in found if entry is not None), None) for found in sizes)
    total = by_key.get(iterations)
    known = [entry for entry in (envs, steps, total) if entry is not None and str(entry.value).isdigit()]
    rest = [entry for entry in entries if entry.key != iterations]
    if total is None:
        return rest
    if len(known) < 3 or envs is None or steps is None:
        return [*rest, Entry(f"{iterations} (state --total-steps)", total.value, total.line, total.form)]
    product = int(envs.value) * int(steps.value) * int(total.value)
    return [*rest, replace(total, key="total_steps", value=product)]
