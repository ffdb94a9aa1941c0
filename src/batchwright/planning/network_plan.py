"""The networks of a plan: their hidden layers, and how the quantity `hidden` writes and reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import Plan, TaskFacts

ConvLayers: TypeAlias = tuple[tuple[int, int, int], ...]
"""(filters, side, stride) of each convolution."""

OWN_NETWORK = "own network"
"""`hidden` of a plan whose network the caller passes in."""
CONVOLUTIONAL = "conv "
"""How `hidden` begins in a plan for images."""
CONV_FEATURES = 512
CONV_LAYERS: tuple[tuple[int, ConvLayers], ...] = (
    (36, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    (16, ((32, 4, 2), (64, 3, 2), (64, 3, 1))),
    (10, ((32, 3, 1), (64, 3, 2))),
    (5, ((32, 3, 1), (64, 3, 1))),
)
"""Layers for images whose smaller side has at least so many pixels: the network of Mnih et al., 2015, and smaller ones
that leave something of images which it would shrink to nothing."""
FULL_SIDE, SMALLEST_SIDE = CONV_LAYERS[0][0], CONV_LAYERS[-1][0]
"""Pixels of the smaller side from which on the first network, and any network, can be used."""
MOST_CHANNELS = 16
"""An image whose first axis has at most so many entries, and fewer than the last one, has its channels first."""


def conv_layers_for(height: int, width: int) -> ConvLayers | None:
    """The convolutions for images of one size; None where it is too small for any."""
    return next((layers for side, layers in CONV_LAYERS if min(height, width) >= side), None)


def image_size(shape: Sequence[int]) -> tuple[int, int, int]:
    """(height, width, channels) of an image, whichever way its axes lie."""
    first, second, third = shape
    return (second, third, first) if has_channels_first(shape) else (first, second, third)


def has_channels_first(shape: Sequence[int]) -> bool:
    """Whether the channels are the first of an image's three axes: EnvPool and frame stacks put them there."""
    return shape[-3] <= MOST_CHANNELS and shape[-3] < shape[-1]


def refuse_small_images(shapes: Sequence[Sequence[int]]) -> None:
    """Refuses images that no built-in network can take."""
    for shape in shapes:
        height, width, _ = image_size(shape)
        if conv_layers_for(height, width) is None:
            raise too_small(height, width)


def too_small(height: int, width: int) -> UserError:
    """The error for images that no built-in network can take."""
    return UserError(
        f"images of {height} x {width} are too small to convolve: a side needs {SMALLEST_SIDE} pixels.",
        ["wrap the environment: resize, or flatten to numbers", "batchwright.train(..., network=your_own)"],
    )


def hidden_sizes(plan: Plan) -> tuple[int, ...] | None:
    """Units of the hidden layers; None where the network is convolutional or passed in by the caller."""
    return parse_hidden(str(plan["hidden"]))


def parse_hidden(text: str) -> tuple[int, ...] | None:
    """`64,64` as (64, 64); None for `OWN_NETWORK` and convolutions; any other text is a ValueError."""
    if text == OWN_NETWORK or text.startswith(CONVOLUTIONAL):
        return None
    return tuple(int(units) for units in text.split(","))


def settle_network(ledger: Ledger, task: TaskFacts, hidden: str, why: str, activation: str) -> None:
    """Hidden layers and activation of networks on vectors; images use one fixed network."""
    if task.obs_shape is None or len(task.obs_shape) != 3 or task.obs_dtype != "uint8":
        settle_hidden(ledger, None, hidden, why)
        ledger.setting("activation", activation, "the common choice for small policies", unit="")
        return
    height, width, _ = image_size(task.obs_shape)
    settle_hidden(ledger, min(height, width), hidden, why)
    if task.stacked_frames == 1:
        _remark_one_frame(ledger, task.obs_shape)


def _remark_one_frame(ledger: Ledger, shape: Sequence[int]) -> None:
    """Says that a single picture shows no motion; small grids and other numbers of channels are left alone."""
    height, width, channels = image_size(shape)
    if min(height, width) >= FULL_SIDE and channels in (1, 3):
        ledger.remark(
            f"an observation is one picture ({height} x {width} x {channels}) and shows no motion. Where speed "
            "matters, stack frames: gymnasium.wrappers.FrameStackObservation(env, 4)."
        )


def settle_hidden(ledger: Ledger, image_side: int | None, default: str, why: str) -> None:
    """Hidden layers as stated, else `default`; the convolutional network for images, where stating sizes is refused."""
    stated = ledger.stated("hidden")
    if image_side is not None:
        if stated is not None:
            raise UserError(
                "--hidden sets the layers for vector observations; images use the convolutional network.",
                ["leave out --hidden"],
            )
        layers = conv_layers_for(image_side, image_side) or CONV_LAYERS[-1][1]
        text = f"{CONVOLUTIONAL}{'-'.join(str(filters) for filters, _, _ in layers)}, {CONV_FEATURES}"
        reason = f"images with a side of {image_side}: smaller filters"
        if image_side >= FULL_SIDE:
            reason = "images: the network of Mnih et al., 2015"
        ledger.settle("hidden", text, "units", reason, "default")
    elif stated is None:
        ledger.settle("hidden", default, "units", f"default: {why}", "default")
    else:
        ledger.adopt("hidden", ",".join(str(units) for units in stated), "units")
