"""Environments passed as Python objects: an environment, its class, a function, or a name."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from typing import Any

from batchwright.config.aliases import ALIASES
from batchwright.core.errors import UserError
from batchwright.envs.env_names import PASSED, pass_env, split_name, with_kwargs


def name_passed(env: Any, kwargs: Mapping[str, Any] | None = None) -> Any:
    """A name for what was passed: its own where it can be imported from anywhere, else one of this process."""
    env, kwargs = one_of(env), kwargs or {}
    if env is None or isinstance(env, str):
        return env if env is None else with_kwargs(env, kwargs)
    importable = _importable_name(env)
    if importable is not None:
        return with_kwargs(importable, kwargs)
    name = PASSED + _short_name(env)
    pass_env(name, factory_of(env))
    return with_kwargs(name, kwargs)


def _short_name(env: Any) -> str:
    """`MyEnv` for an environment inside of any wrappers, its class, or a function of that name; `lambda`."""
    code = env if isinstance(env, type) or hasattr(env, "__qualname__") else type(getattr(env, "unwrapped", env))
    name = code.__qualname__.rpartition("<locals>.")[2]
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in name).strip("-")


def with_num_envs(env: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with the number of environments of a vector environment where they state none."""
    states_it = any(ALIASES.get(key, key) == "num_envs" for key in settings)
    return {**({"num_envs": int(env.num_envs)} if _is_vector(env) and not states_it else {}), **settings}


def one_of(env: Any) -> Any:
    """What makes one environment of a vector environment: its functions or its id; anything else as it is."""
    if not _is_vector(env):
        return env
    functions, spec = getattr(env, "env_fns", None), getattr(env, "spec", None)
    if type(env).__name__ in _OF_FUNCTIONS and functions:
        if any(function is not functions[0] for function in functions):
            what = f"the first of the {len(functions)} functions of the {type(env).__name__}"
            print(f"note: {what} makes every environment", file=sys.stderr)
        return functions[0]
    if spec is not None and spec.vector_entry_point is not None and not hasattr(env, "env"):
        usual = {"max_episode_steps": spec.max_episode_steps}
        kwargs = {key: value for key, value in spec.kwargs.items() if key not in _OF_VECTORS}
        return with_kwargs(spec.id, {key: value for key, value in kwargs.items() if value != usual.get(key, object())})
    raise UserError(
        f"env is a {type(env).__name__} of {env.num_envs} environments; pass one, Batchwright makes the copies.",
        ["pass one gymnasium.Env, or a function that makes one", f"num_envs={env.num_envs}"],
    )


_OF_FUNCTIONS = ("SyncVectorEnv", "AsyncVectorEnv")
_OF_VECTORS = ("num_envs", "vectorization_mode")


def _is_vector(env: Any) -> bool:
    """Whether it is a vector environment of Gymnasium or of Stable-Baselines3."""
    marked = hasattr(env, "single_observation_space") or hasattr(env, "env_method")
    return marked and hasattr(env, "num_envs") and not isinstance(env, type)


def pass_for(name: str, env: Any) -> None:
    """Passes an environment again under the name that a run has for it."""
    base = split_name(name)[0]
    if not base.startswith(PASSED):
        raise UserError(f"the run makes its environment by name, {name}.", ["leave out env="])
    pass_env(base, factory_of(env))


def factory_of(env: Any) -> Callable[..., Any]:
    """A function that makes a new environment at each call."""
    env = one_of(env)
    if isinstance(env, type) or not hasattr(env, "observation_space"):
        if not callable(env) and hasattr(env, "step"):
            return lambda: env  # one in JAX: pure functions, which need no copies
        if not callable(env):
            raise UserError(f"env is {type(env).__qualname__}: no environment, class or function.", ['"CartPole-v1"'])
        made: Callable[..., Any] = env
        return made
    return _copier(env)


def _copier(env: Any) -> Callable[..., Any]:
    """Makes copies of an environment: from its registration, wrappers included, else by copying the object."""
    spec = getattr(env, "spec", None)
    # Gymnasium records the arguments of a wrapper only where its class asks for it (RecordConstructorArgs).
    if spec is not None and all(wrapper.kwargs is not None for wrapper in spec.additional_wrappers):
        import gymnasium

        return lambda **kwargs: gymnasium.make(spec, **kwargs)
    try:
        copy.deepcopy(env)
    except Exception as error:
        raise UserError(
            f"a {type(env).__qualname__} cannot be copied ({type(error).__name__}: {error}); several are stepped.",
            ["pass a function that makes one: train(lambda: MyEnv())"],
        ) from error

    def copied(**kwargs: Any) -> Any:
        if kwargs:
            raise UserError("env_kwargs go with a class or a function, not with an environment that is made already.")
        return copy.deepcopy(env)

    return copied


def _importable_name(env: Any) -> str | None:
    """`module:Name` of a class or function that every process can import; None for what only this one has."""
    module, name = getattr(env, "__module__", None), getattr(env, "__qualname__", None)
    if module in (None, "__main__") or not isinstance(name, str) or not name.isidentifier():
        return None
    return f"{module}:{name}" if getattr(sys.modules.get(str(module)), name, None) is env else None
