"""Runs a policy that `batchwright export RUN --to numpy` wrote, with NumPy alone: Policy("policy.npz")(observation)."""

import functools
import json
import operator

import numpy as np

ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
}


def conv(x, w, b, side, stride):
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), (1, 2))[:, ::stride, ::stride]
    return np.maximum(windows.transpose(0, 1, 2, 4, 5, 3).reshape(*windows.shape[:3], -1) @ w + b, 0)


OPS = {
    "flat": lambda x: x.reshape(len(x), -1).astype(np.float32),
    "one_hot": lambda x, first, n: (x.reshape(len(x), 1) == np.arange(first, first + n)).astype(np.float32),
    "columns": lambda x, start, stop: x[:, start:stop],
    "concat": lambda *parts: np.concatenate(parts, -1),
    "normalise": lambda x, mean, std, limit: np.clip((x - mean) / std, -limit, limit),
    "image": lambda x, channels_first: (np.moveaxis(x, 1, -1) if channels_first else x) / np.float32(255),
    "conv": conv,
    "dense": lambda x, w, b: x @ w + b,
    "activate": lambda x, name: ACTIVATIONS[name](x),
    "plus": lambda x, y: x + y,
    "minus": lambda x, y: x - y,
    "times": lambda x, y: x * y,
    "allow": lambda x, mask: np.where(mask, x, np.float32(-1e30)),
    "argmax": lambda x, start: x.argmax(-1)[:, None] + start,
    "bits": lambda x: (x > 0).astype(np.int64),
    "force": lambda x, zero, one: np.where(zero & one, x, one.astype(np.int64)),
    "scale": lambda x, mid, half, low, high, use: np.where(use, np.clip(mid + half * np.clip(x, -1, 1), low, high), x),
    "shape": lambda x, shape: x.reshape(len(x), *shape),
}


def _build(tree, found):
    if isinstance(tree, dict):
        return {name: _build(part, found) for name, part in tree.items()}
    return found[tree][0] if isinstance(tree, str) else tuple(_build(part, found) for part in tree)


class Policy:
    """Call it with one observation, and with `mask` (one row of booleans) where the environment masks actions.

    A policy with memory remembers the observations of its calls: call `reset` before every episode.
    """

    def __init__(self, path):
        with np.load(path, allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.program = json.loads(str(self.arrays.pop("program")))
        self.reset()

    def reset(self):
        self.memory = np.zeros((1, (self.program["memory"] or [0])[0]), np.float32)

    def __call__(self, obs, mask=None):
        found = {**self.arrays, "mask": np.ones((1, self.program["mask"]), bool) if mask is None else mask[None]}
        found["memory"] = self.memory
        for name, dtype, _, path in self.program["inputs"]:
            found[name] = np.asarray(functools.reduce(operator.getitem, path, obs), dtype)[None]
        for op, out, inputs, options in self.program["steps"]:
            found[out] = OPS[op](*(found[name] for name in inputs), **options)
        if self.program["memory"]:
            self.memory = found[self.program["memory"][1]]
        return _build(self.program["action"], found)
