"""Engines: what steps N environments. Made by `select.make_engine`, timed by `measure.measure_engines`."""

from batchwright.envs.engines.engine import CompiledEngine, Engine, HostEngine, Step, env_seed, env_seeds
from batchwright.envs.engines.measure import Measured, measure_engines, random_actions
from batchwright.envs.engines.select import ENGINES, available_engines, evaluation_engine, make_engine

__all__ = [
    "ENGINES",
    "CompiledEngine",
    "Engine",
    "HostEngine",
    "Measured",
    "Step",
    "available_engines",
    "env_seed",
    "env_seeds",
    "evaluation_engine",
    "make_engine",
    "measure_engines",
    "random_actions",
]
