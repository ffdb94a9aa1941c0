"""A trained policy as a list of steps over named arrays: what an exported file holds, in ONNX and in NumPy alike.

A step is (operation, name of its result, names of its inputs, options); `numpy_policy.OPS` says what each computes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.masks import mask_size
from batchwright.envs.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from batchwright.nets.heads import Head
from batchwright.nets.policy import Policy, action_bounds
from batchwright.nets.replay_nets import SquashedHeads
from batchwright.planning.network_plan import OWN_NETWORK, conv_layers_for, has_channels_first
from batchwright.policies.trained_policy import TrainedPolicy

LARGEST_FLOAT = float(np.finfo(np.float32).max)
Step = tuple[str, str, list[str], dict[str, Any]]


@dataclass(frozen=True)
class Port:
    """An input or an output: one leaf of the observation or of the action."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: tuple[str | int, ...]

    def to_json(self) -> list[Any]:
        return [self.name, self.dtype, list(self.shape), list(self.path)]


@dataclass
class PolicyProgram:
    """The steps from one batch of observations to the environment's own actions, exploration off."""

    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    mask: int = 0
    """Booleans of one mask; 0 where the environment masks nothing."""
    memory: tuple[int, str] | None = None
    """(numbers that are remembered, name of what is remembered after the step); None where nothing is."""
    action: Any = None
    """The tree of the action with names of outputs in the place of its leaves."""
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def add(self, op: str, inputs: list[str], **options: Any) -> str:
        """Appends a step; returns the name of its result."""
        name = f"x{len(self.steps)}"
        self.steps.append((op, name, inputs, options))
        return name

    def constant(self, value: Any) -> str:
        """Keeps an array; returns its name."""
        name = f"c{len(self.arrays)}"
        self.arrays[name] = np.asarray(value)
        return name

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [port.to_json() for port in self.inputs],
            "outputs": [port.to_json() for port in self.outputs],
            "mask": self.mask,
            "memory": None if self.memory is None else list(self.memory),
            "action": self.action,
            "steps": [list(step) for step in self.steps],
        }


def make_program(trained: TrainedPolicy, masked: bool) -> PolicyProgram:
    """The program of a trained policy; `masked` where its environment gives masks."""
    if trained.plan.get("hidden") == OWN_NETWORK:
        raise UserError(
            f"{trained.env} was trained with a network of your own, whose layers are not known here.",
            ["export policy.params with the tools of your network", "batchwright.load(run, network=...) runs it"],
        )
    policy, program = trained.policy, PolicyProgram()
    program.mask = mask_size(policy.heads.spec) if masked else 0
    vector, images = _inputs(program, policy, trained)
    tree = policy.unravel(trained.params)["net"]
    raw = _network(program, tree, vector, images, policy, str(trained.plan.get("activation") or "tanh"))
    _actions(program, raw, policy)
    return program


def _inputs(program: PolicyProgram, policy: Policy, trained: TrainedPolicy) -> tuple[str | None, list[str]]:
    """(all numbers of an observation, normalised; its images), by name."""
    numbers, images = [], []
    for path, leaf in spaces.leaves(policy.inputs.spec):
        name = "/".join(("obs", *map(str, path)))
        program.inputs.append(Port(name, str(spaces.stored_dtype(leaf)), spaces.leaf_shape(leaf), path))
        if spaces.is_image(leaf):
            images.append(program.add("image", [name], channels_first=has_channels_first(leaf.shape)))
        else:
            numbers += _encoded(program, name, leaf)
    if not numbers:
        return None, images
    joined = numbers[0] if len(numbers) == 1 else program.add("concat", numbers)
    mean, std, limit = (np.asarray(part, np.float32) for part in trained.stats)
    if not np.isfinite(limit) and not mean.any() and (std == 1).all():
        return joined, images
    bound = float(limit) if np.isfinite(limit) else LARGEST_FLOAT
    return program.add("normalise", [joined, program.constant(mean), program.constant(std)], limit=bound), images


def _encoded(program: PolicyProgram, name: str, leaf: spaces.Leaf) -> list[str]:
    if isinstance(leaf, Discrete):
        return [program.add("one_hot", [name], first=leaf.start, n=leaf.n)]
    if isinstance(leaf, MultiDiscrete):
        starts = leaf.start or (0,) * len(leaf.nvec)
        columns = [program.add("columns", [name], start=k, stop=k + 1) for k in range(len(leaf.nvec))]
        ranges = zip(columns, starts, leaf.nvec, strict=True)
        return [program.add("one_hot", [column], first=int(first), n=int(n)) for column, first, n in ranges]
    return [program.add("flat", [name])]


def _network(
    program: PolicyProgram, tree: Any, vector: str | None, images: list[str], policy: Policy, activation: str
) -> str:
    """The raw outputs of the actor: of a built-in network, on-policy or replay, of vectors or images."""
    parts = []
    for layers, image, (height, width, _) in zip(tree.get("conv", []), images, policy.inputs.image_shapes, strict=True):
        planned, x = conv_layers_for(height, width) or (), image
        for layer, (_, side, stride) in zip(layers, planned, strict=True):
            weights = [program.constant(layer["w"]), program.constant(layer["b"])]
            x = program.add("conv", [x, *weights], side=side, stride=stride)
        parts.append(program.add("flat", [x]))
    parts += [] if vector is None else [vector]
    x = parts[0] if len(parts) == 1 else program.add("concat", parts)
    if "first" in tree:
        width = np.shape(tree["first"]["w"])[-1] // 2
        first = {"w": tree["first"]["w"][:, :width], "b": tree["first"]["b"][:width]}
        return _tower(program, x, [first, *tree["actor"]], activation)
    if "cell" in tree:
        return _remember(program, tree, x, "relu" if images else activation)
    if "trunk" in tree:
        return _tower(program, x, [tree["trunk"], tree["actor"]], "relu")
    return _tower(program, x, tree["tower"], "relu" if images else activation)


def _remember(program: PolicyProgram, tree: Any, x: str, activation: str) -> str:
    """The raw outputs of a network with memory (`nets.recurrent_networks`); "memory" is an input of every step."""
    units = np.shape(tree["cell"]["u"])[0]
    x = program.add("activate", [_dense(program, x, tree["encoder"])], name=activation)
    taken = _dense(program, x, tree["cell"])
    state = program.add("columns", ["memory"], start=0, stop=units)
    kept = _dense(program, state, {"w": tree["cell"]["u"], "b": tree["cell"]["c"]})
    is_gru = np.shape(tree["cell"]["u"])[1] == 3 * units
    output, memory = _gru(program, taken, kept, state, units) if is_gru else _lstm(program, taken, kept, units)
    program.memory = (units if is_gru else 2 * units, memory)
    return _tower(program, output, tree["actor"], activation)


def _gru(program: PolicyProgram, taken: str, kept: str, state: str, units: int) -> tuple[str, str]:
    """(what is read, what is remembered) after one step."""
    parts = [[_part(program, x, k, units) for k in range(3)] for x in (taken, kept)]
    reset, keep = (_gate(program, program.add("plus", [parts[0][k], parts[1][k]])) for k in range(2))
    inner = program.add("plus", [parts[0][2], program.add("times", [reset, parts[1][2]])])
    candidate = program.add("activate", [inner], name="tanh")
    change = program.add("times", [keep, program.add("minus", [state, candidate])])
    after = program.add("plus", [candidate, change])
    return after, after


def _lstm(program: PolicyProgram, taken: str, kept: str, units: int) -> tuple[str, str]:
    """(what is read, what is remembered) after one step."""
    both = program.add("plus", [taken, kept])
    enter, forget, show = (_gate(program, _part(program, both, k, units)) for k in range(3))
    candidate = program.add("activate", [_part(program, both, 3, units)], name="tanh")
    before = program.add("columns", ["memory"], start=units, stop=2 * units)
    old, new = program.add("times", [forget, before]), program.add("times", [enter, candidate])
    inside = program.add("plus", [old, new])
    output = program.add("times", [show, program.add("activate", [inside], name="tanh")])
    return output, program.add("concat", [output, inside])


def _part(program: PolicyProgram, x: str, number: int, units: int) -> str:
    return program.add("columns", [x], start=number * units, stop=(number + 1) * units)


def _gate(program: PolicyProgram, x: str) -> str:
    return program.add("activate", [x], name="sigmoid")


def _dense(program: PolicyProgram, x: str, layer: Any) -> str:
    return program.add("dense", [x, program.constant(layer["w"]), program.constant(layer["b"])])


def _tower(program: PolicyProgram, x: str, layers: list[Any], activation: str) -> str:
    for number, layer in enumerate(layers):
        x = _dense(program, x, layer)
        if number < len(layers) - 1:
            x = program.add("activate", [x], name=activation)
    return x


def _actions(program: PolicyProgram, raw: str, policy: Policy) -> None:
    """The heads, then the environment's own form of every leaf of the action."""
    heads = policy.heads
    if isinstance(heads, SquashedHeads):  # the mean comes first; a log std, where there is one, is not needed
        raw = program.add("activate", [program.add("columns", [raw], start=0, stop=heads.action_size)], name="tanh")
    of_leaf = iter(heads.heads)
    for path, leaf in spaces.leaves(heads.spec):
        choices = len(leaf.nvec) if isinstance(leaf, MultiDiscrete) else 1
        parts = [_head(program, raw, next(of_leaf), leaf, k, isinstance(heads, SquashedHeads)) for k in range(choices)]
        value = parts[0] if len(parts) == 1 else program.add("concat", parts)
        if isinstance(leaf, Box):
            bounds = [program.constant(np.ravel(part)) for part in action_bounds(leaf)]
            value = program.add("scale", [value, *bounds])
        shape = spaces.leaf_shape(leaf)
        dtype = "float32" if isinstance(leaf, Box) else "int64"
        program.outputs.append(Port(program.add("shape", [value], shape=list(shape)), dtype, shape, path))
    program.action = spaces.unflatten(heads.spec, [port.name for port in program.outputs])


def _head(program: PolicyProgram, raw: str, head: Head, leaf: spaces.Leaf, k: int, squashed: bool) -> str:
    """One number per choice, bit or dimension of a head [B, D]."""
    where = head.action if squashed else head.raw
    x = program.add("columns", [raw], start=where.start, stop=where.stop)
    if isinstance(leaf, Box):
        return x
    mask = head.mask if program.mask else None
    if isinstance(leaf, MultiBinary):
        bits = program.add("bits", [x])
        if mask is None:
            return bits
        half = (mask.start + mask.stop) // 2
        zero = program.add("columns", ["mask"], start=mask.start, stop=half)
        one = program.add("columns", ["mask"], start=half, stop=mask.stop)
        return program.add("force", [bits, zero, one])
    if mask is not None:
        x = program.add("allow", [x, program.add("columns", ["mask"], start=mask.start, stop=mask.stop)])
    first = (leaf.start or (0,) * len(leaf.nvec))[k] if isinstance(leaf, MultiDiscrete) else leaf.start
    return program.add("argmax", [x], start=int(first))
