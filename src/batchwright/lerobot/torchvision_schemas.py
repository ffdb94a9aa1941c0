"""Lets torchvision be imported beside a torch build that it was not compiled for.

torchvision's compiled operators are linked to one build of torch. Where they cannot be loaded, as with CPU builds, its
Python part refuses to start for want of two schemas; LeRobot uses none of the operators.
"""

from __future__ import annotations

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)

_libraries: list[object] = []


def declare() -> None:
    """Declares the schemas of operators that torchvision could not load; call it before LeRobot is imported."""
    import torch

    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for schema in SCHEMAS:
            library.define(schema)
        _libraries.append(library)  # a library that is collected takes its schemas with it
        _forget_half_imported()


def _forget_half_imported() -> None:
    import sys

    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
