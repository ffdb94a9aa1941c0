"""Writes a vision-language model of SmolVLM's kind that is tiny and random."""

from pathlib import Path

import torch

from batchwright.lerobot import torchvision_schemas

torchvision_schemas.declare()

from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from transformers import (  # noqa: E402
    PreTrainedTokenizerFast,
    SmolVLMConfig,
    SmolVLMForConditionalGeneration,
    SmolVLMImageProcessor,
    SmolVLMProcessor,
    SmolVLMVideoProcessor,
)

SPECIAL = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    "<end_of_utterance>",
]
TEXT = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "pad_token_id": 0,
}
VISION = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
VISION |= {"image_size": 64, "patch_size": 16}


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.BPE(unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=120, special_tokens=SPECIAL)
    words.train_from_iterator(["follow the square"] * 5, trainer)
    found = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        extra_special_tokens={
            "image_token": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
    )
    found.padding_side = "right"
    return found


def write_model(folder: Path) -> None:
    words = tokenizer()
    torch.manual_seed(0)
    config = SmolVLMConfig(text_config=TEXT, vision_config=VISION, scale_factor=2, image_token_id=4, pad_token_id=0)
    SmolVLMForConditionalGeneration(config).save_pretrained(folder)
    images = SmolVLMImageProcessor(size={"longest_edge": 64}, max_image_size={"longest_edge": 64})
    SmolVLMProcessor(images, words, SmolVLMVideoProcessor(), chat_template="{{ messages }}").save_pretrained(folder)
