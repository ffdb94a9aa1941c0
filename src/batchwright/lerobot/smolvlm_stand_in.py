"""SmolVLM2-500M without its files: the published dimensions, for tracing memory where nothing was downloaded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

PUBLISHED = "HuggingFaceTB/SmolVLM2-500M-Video-Instruct"
TEXT = {
    "model_type": "llama",
    "hidden_size": 960,
    "intermediate_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 15,
    "num_key_value_heads": 5,
    "head_dim": 64,
    "vocab_size": 49280,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
VISION = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "image_size": 512,
    "patch_size": 16,
}


@contextlib.contextmanager
def without_files(model_name: str) -> Iterator[None]:
    """Builds SmolVLA from the published dimensions where `model_name` is the published model; else as it is."""
    from lerobot.policies.smolvla import smolvlm_with_expert as module

    if model_name != PUBLISHED:
        yield
        return
    before = module.AutoConfig, module.AutoProcessor
    tokenizer = SimpleNamespace(fake_image_token_id=49189, global_image_token_id=49152)
    module.AutoConfig = SimpleNamespace(from_pretrained=lambda name: _config())
    module.AutoProcessor = SimpleNamespace(from_pretrained=lambda name: SimpleNamespace(tokenizer=tokenizer))
    try:
        yield
    finally:
        module.AutoConfig, module.AutoProcessor = before


def _config() -> Any:
    from transformers import SmolVLMConfig

    return SmolVLMConfig(text_config=TEXT, vision_config=VISION, scale_factor=4, tie_word_embeddings=False)
