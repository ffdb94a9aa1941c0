"""Reads the actions of a chunk without decoding the images beside them, which LeRobot throws away.

LeRobot 0.4 and 0.6 read whole rows for a chunk of actions: chunk_size x cameras images are decoded per sample, of which
one per camera is used (huggingface/lerobot issue 4392). Samples are equal either way.
"""

from __future__ import annotations

import functools
from typing import Any


def skip_unused_images(dataset: Any) -> bool:
    """Makes a `LeRobotDataset` read chunks from a view without images; False where that would change a sample."""
    images = set(dataset.meta.image_keys)
    chunks = dataset.delta_indices or {}
    if not images or images & chunks.keys() or not hasattr(dataset, "_query_hf_dataset"):
        return False
    view = dataset.hf_dataset.remove_columns(sorted(images))
    dataset._query_hf_dataset = functools.partial(_query_view, dataset, dataset._query_hf_dataset, view)
    return True


def _query_view(dataset: Any, query: Any, view: Any, query_indices: Any) -> Any:
    whole, dataset.hf_dataset = dataset.hf_dataset, view
    try:
        return query(query_indices)
    finally:
        dataset.hf_dataset = whole


def count_decoded(dataset: Any, index: int) -> int:
    """How many images are decoded to read one sample."""
    from datasets.features import Image

    decode, decoded = Image.decode_example, 0

    def counting(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal decoded
        decoded += 1
        return decode(self, *args, **kwargs)

    Image.decode_example = counting
    try:
        dataset[index]
    finally:
        Image.decode_example = decode
    return decoded
