"""The steps of an exported policy as one ONNX graph; the only file that imports `onnx`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from batchwright.core.errors import UserError
from batchwright.policies.policy_program import PolicyProgram

OPSET = 17
FORBIDDEN = np.float32(-1e30)


def to_onnx(program: PolicyProgram, about: dict[str, str]) -> bytes:
    """The bytes of a model with one input per leaf of the observation, `mask` where there are masks, and one output
    per leaf of the action; the first axis is the batch.

    A policy with memory takes `memory`, zeros at the start of an episode, and gives `memory_after` for the next step.
    """
    try:
        import onnx
    except ImportError:
        raise UserError(
            "--to onnx needs the package onnx.", ['pip install "batchwright[onnx]"', "--to numpy"]
        ) from None
    graph = _Graph(onnx, program)
    for op, out, inputs, options in program.steps:
        getattr(graph, f"add_{op}")(out, inputs, **options)
    model = graph.model(about)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


class _Graph:
    """Collects ONNX nodes; one method `add_...` for each operation of a program."""

    def __init__(self, onnx: Any, program: PolicyProgram) -> None:
        self._onnx, self._program = onnx, program
        self._nodes: list[Any] = []
        self._numbers = itertools.count()
        self._arrays = {name: _plain(value) for name, value in program.arrays.items()}

    def _node(self, kind: str, inputs: Sequence[str], out: str | None = None, **attributes: Any) -> str:
        out = out or f"n{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def _constant(self, value: Any) -> str:
        name = f"k{next(self._numbers)}"
        self._arrays[name] = np.asarray(value)
        return name

    def _cast(self, x: str, dtype: str, out: str | None = None) -> str:
        return self._node("Cast", [x], out, to=_type(self._onnx, dtype))

    def _reshape(self, x: str, shape: Sequence[int], out: str | None = None) -> str:
        """To [batch, *shape]."""
        return self._node("Reshape", [x, self._constant(np.array([0, *shape], np.int64))], out)

    def add_flat(self, out: str, inputs: list[str]) -> None:
        self._cast(self._node("Flatten", inputs, axis=1), "float32", out)

    def add_one_hot(self, out: str, inputs: list[str], first: int, n: int) -> None:
        column = self._node("Reshape", [*inputs, self._constant(np.array([-1, 1], np.int64))])
        equal = self._node("Equal", [column, self._constant(np.arange(first, first + n, dtype=np.int32)[None])])
        self._cast(equal, "float32", out)

    def add_columns(self, out: str, inputs: list[str], start: int, stop: int) -> None:
        ends = [self._constant(np.array([number], np.int64)) for number in (start, stop, 1)]
        self._node("Slice", [*inputs, *ends], out)

    def add_concat(self, out: str, inputs: list[str]) -> None:
        self._node("Concat", inputs, out, axis=1)

    def add_normalise(self, out: str, inputs: list[str], limit: float) -> None:
        x, mean, std = inputs
        scaled = self._node("Div", [self._node("Sub", [x, mean]), std])
        self._node("Clip", [scaled, *(self._constant(np.float32(bound)) for bound in (-limit, limit))], out)

    def add_image(self, out: str, inputs: list[str], channels_first: bool) -> None:
        """As [B, H, W, C], so that steps mean the same as in NumPy."""
        x = self._cast(inputs[0], "float32")
        x = self._node("Transpose", [x], perm=[0, 2, 3, 1]) if channels_first else x
        self._node("Div", [x, self._constant(np.float32(255))], out)

    def add_conv(self, out: str, inputs: list[str], side: int, stride: int) -> None:
        x, weights, bias = inputs
        flat = self._arrays.pop(weights)
        kernel = flat.reshape(side, side, -1, flat.shape[-1]).transpose(3, 2, 0, 1)
        channels_first = self._node("Transpose", [x], perm=[0, 3, 1, 2])
        options: dict[str, Any] = {"kernel_shape": [side, side], "strides": [stride, stride]}
        y = self._node("Conv", [channels_first, self._constant(np.ascontiguousarray(kernel)), bias], **options)
        self._node("Transpose", [self._node("Relu", [y])], out, perm=[0, 2, 3, 1])

    def add_dense(self, out: str, inputs: list[str]) -> None:
        self._node("Gemm", inputs, out)

    def add_activate(self, out: str, inputs: list[str], name: str) -> None:
        self._node({"tanh": "Tanh", "relu": "Relu", "elu": "Elu", "sigmoid": "Sigmoid"}[name], inputs, out)

    def add_plus(self, out: str, inputs: list[str]) -> None:
        self._node("Add", inputs, out)

    def add_minus(self, out: str, inputs: list[str]) -> None:
        self._node("Sub", inputs, out)

    def add_times(self, out: str, inputs: list[str]) -> None:
        self._node("Mul", inputs, out)

    def add_allow(self, out: str, inputs: list[str]) -> None:
        x, mask = inputs
        self._node("Where", [mask, x, self._constant(FORBIDDEN)], out)

    def add_argmax(self, out: str, inputs: list[str], start: int) -> None:
        best = self._node("ArgMax", inputs, axis=1, keepdims=1)
        self._node("Add", [best, self._constant(np.int64(start))], out)

    def add_bits(self, out: str, inputs: list[str]) -> None:
        self._cast(self._node("Greater", [*inputs, self._constant(np.float32(0))]), "int64", out)

    def add_force(self, out: str, inputs: list[str]) -> None:
        x, zero, one = inputs
        self._node("Where", [self._node("And", [zero, one]), x, self._cast(one, "int64")], out)

    def add_scale(self, out: str, inputs: list[str]) -> None:
        x, middle, half, low, high, bounded = inputs
        unit = self._node("Clip", [x, self._constant(np.float32(-1)), self._constant(np.float32(1))])
        scaled = self._node("Add", [middle, self._node("Mul", [half, unit])])
        inside = self._node("Min", [self._node("Max", [scaled, low]), high])
        self._node("Where", [bounded, inside, x], out)

    def add_shape(self, out: str, inputs: list[str], shape: list[int]) -> None:
        # [B, 1] of a single choice becomes [B].
        target = np.array([-1] if not shape else [0, *shape], np.int64)
        self._node("Reshape", [*inputs, self._constant(target)], out)

    def model(self, about: dict[str, str]) -> Any:
        helper, program = self._onnx.helper, self._program
        names = {port.name: "/".join(("action", *map(str, port.path))) for port in program.outputs}
        for inner, name in names.items():
            self._node("Identity", [inner], name)
        inputs = [(port.name, port.dtype, port.shape) for port in program.inputs]
        inputs += [("mask", "bool", (program.mask,))] if program.mask else []
        outputs = [(names[port.name], port.dtype, port.shape) for port in program.outputs]
        if program.memory is not None:
            size, after = program.memory
            self._node("Identity", [after], "memory_after")
            inputs.append(("memory", "float32", (size,)))
            outputs.append(("memory_after", "float32", (size,)))
        of = self._onnx.numpy_helper.from_array
        graph = helper.make_graph(
            self._nodes,
            "policy",
            [self._port(*port) for port in inputs],
            [self._port(*port) for port in outputs],
            [of(value, name) for name, value in self._arrays.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="batchwright")
        model.ir_version = 8  # of the same age as the opset, so that older runtimes take it
        helper.set_model_props(model, about)
        return model

    def _port(self, name: str, dtype: str, shape: tuple[int, ...]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, _type(self._onnx, dtype), ["batch", *shape])


def _type(onnx: Any, dtype: str) -> int:
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _plain(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float32) if value.dtype == np.float64 else np.asarray(value)
