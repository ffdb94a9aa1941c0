"""How the weights of networks begin; drawn on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import numpy as np

Layer = dict[str, Any]
"""Weights `w` [rows, columns] and bias `b` [columns]."""


def host_rng(key: jax.Array) -> np.random.Generator:
    """A NumPy generator that depends on the key alone: JAX would compile the first draw of every shape."""
    return np.random.Generator(np.random.PCG64(np.asarray(jax.random.key_data(key)).tolist()))


def orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> Layer:
    """Weights with orthonormal rows or columns times `gain`, and no bias: the start of actor-critics."""
    q, r = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    q = q * np.sign(np.diag(r))
    weights = gain * (q if rows >= columns else q.T)
    return {"w": weights.astype(np.float32), "b": np.zeros(columns, np.float32)}


def uniform(rng: np.random.Generator, rows: int, columns: int) -> Layer:
    """Weights and bias, uniform within 1 / sqrt(rows): the start that published SAC and DQN figures go with."""
    bound = 1.0 / math.sqrt(max(rows, 1))
    return {
        "w": rng.uniform(-bound, bound, (rows, columns)).astype(np.float32),
        "b": rng.uniform(-bound, bound, columns).astype(np.float32),
    }


def uniform_tower(rng: np.random.Generator, inputs: int, hidden: Sequence[int], outputs: int) -> list[Layer]:
    """The layers of one network of vectors."""
    return [uniform(rng, a, b) for a, b in pairwise((inputs, *hidden, outputs))]
