"""The networks of a plan: their hidden layers, and how the quantity `hidden` writes and reads them."""

from __future__ import annotations

from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.plan import Plan, TaskFacts

OWN_NETWORK = "own network"
"""`hidden` of a plan whose network the caller passes in."""
CONVOLUTIONAL = "conv 32-64-64, 512"
"""`hidden` of a plan for images."""


def hidden_sizes(plan: Plan) -> tuple[int, ...] | None:
    """Units of the hidden layers; None where the network is convolutional or passed in by the caller."""
    return parse_hidden(str(plan["hidden"]))


def parse_hidden(text: str) -> tuple[int, ...] | None:
    """`64,64` as (64, 64); None for `OWN_NETWORK` and `CONVOLUTIONAL`; any other text is a ValueError."""
    if text in (OWN_NETWORK, CONVOLUTIONAL):
        return None
    return tuple(int(units) for units in text.split(","))


def settle_network(ledger: Ledger, task: TaskFacts, hidden: str, why: str, activation: str) -> None:
    """Hidden layers and activation of networks on vectors; images use one fixed network."""
    image = task.obs_shape is not None and len(task.obs_shape) == 3 and task.obs_dtype == "uint8"
    settle_hidden(ledger, image, hidden, why)
    if not image:
        ledger.setting("activation", activation, "the common choice for small policies", unit="")


def settle_hidden(ledger: Ledger, image: bool, default: str, why: str) -> None:
    """Hidden layers as stated, else `default`; the convolutional network for images, where stating sizes is refused."""
    stated = ledger.stated("hidden")
    if image:
        if stated is not None:
            raise UserError(
                "--hidden sets the layers for vector observations; images use the convolutional network.",
                ["leave out --hidden"],
            )
        ledger.settle("hidden", CONVOLUTIONAL, "units", "images: the network of Mnih et al., 2015", "default")
    elif stated is None:
        ledger.settle("hidden", default, "units", f"default: {why}", "default")
    else:
        ledger.adopt("hidden", ",".join(str(units) for units in stated), "units")
