"""Gradient checkpointing for policies of LeRobot: blocks keep their inputs and compute their activations again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

ENABLED = "batchwright_checkpointing"


def checkpointed_blocks(policy: torch.nn.Module) -> list[tuple[Any, str]]:
    """The (object, method) pairs whose activations are computed again: layers of transformers, blocks of a ResNet."""
    name = getattr(policy, "name", "")
    if name == "act":
        return list(_act_blocks(policy.model))
    if name == "smolvla":
        expert = policy.model.vlm_with_expert
        layers = [*expert.get_vlm_model().text_model.layers, *expert.lm_expert.layers]
        return [
            *((expert, method) for method in ("forward_attn_layer", "forward_cross_attn_layer")),
            *((layer.mlp, "forward") for layer in layers),
        ]
    raise ValueError(f"no blocks of {name} are known")


def _act_blocks(model: Any) -> Iterator[tuple[Any, str]]:
    for part in ("vae_encoder", "encoder", "decoder"):
        for layer in getattr(getattr(model, part, None), "layers", ()):
            yield layer, "forward"
    backbone = getattr(model, "backbone", None)
    if backbone is None:
        return
    for child in backbone.values():
        if isinstance(child, torch.nn.Sequential):
            for block in child:
                yield block, "forward"


def enable(policy: torch.nn.Module) -> int:
    """Switches checkpointing on; returns the number of blocks. Gradients stay as they are, noise included."""
    blocks = checkpointed_blocks(policy)
    for owner, method in blocks:
        original = getattr(owner, method)
        if not getattr(original, ENABLED, False):
            setattr(owner, method, _recomputing(original))
    return len(blocks)


def _recomputing(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return original(*args, **kwargs)
        return checkpoint(original, *args, use_reentrant=False, **kwargs)

    setattr(run, ENABLED, True)
    return run
