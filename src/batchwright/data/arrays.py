"""Names for arrays by dtype and shape, for annotations: mypy checks that they are arrays, readers see their shape.

The letters are those of the shape suffixes: T steps of a rollout, N environments, K reward components, D numbers of one
flat action, M booleans of one action mask, B rows of any number of leading axes. Collection from the host gives NumPy
arrays, compiled collection JAX arrays.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import numpy as np

Array: TypeAlias = jax.Array
"""Any array. NumPy arrays from the host pass under this name too: every function of JAX takes them as they are."""
HostOrDevice: TypeAlias = jax.Array | np.ndarray
"""An array that a learner keeps on the host in one case and on the device in another."""
Tree: TypeAlias = Any
"""An array, or nested dicts, tuples and lists of arrays (a pytree)."""

FloatN: TypeAlias = Array  # [N] float32
IntN: TypeAlias = Array  # [N] int32
BoolN: TypeAlias = Array  # [N] bool
FloatNK: TypeAlias = Array  # [N, K] float32
FloatNS: TypeAlias = Array  # [N, S] float32, S numbers that a policy remembers
BoolNM: TypeAlias = Array  # [N, M] bool

FloatTN: TypeAlias = Array  # [T, N] float32
IntTN: TypeAlias = Array  # [T, N] int32
BoolTN: TypeAlias = Array  # [T, N] bool
FloatTNK: TypeAlias = Array  # [T, N, K] float32
FloatTNA: TypeAlias = Array  # [T, N, A] float32, A agents
FloatTND: TypeAlias = Array  # [T, N, D] float32
BoolTNM: TypeAlias = Array  # [T, N, M] bool

FloatB: TypeAlias = Array  # [B] float32
IntB: TypeAlias = Array  # [B] int32
BoolB: TypeAlias = Array  # [B] bool
FloatBD: TypeAlias = Array  # [B, D] float32
FloatBK: TypeAlias = Array  # [B, K] float32
FloatBH: TypeAlias = Array  # [B, H] float32, H heads of an action
BoolBM: TypeAlias = Array  # [B, M] bool
