"""LeRobot's own configuration from its own command line, inside of its interpreter."""

from __future__ import annotations

import sys
from typing import Any

from batchwright.core.errors import UserError

PROGRAM = "lerobot-train"


def read_config(words: list[str]) -> Any:
    """LeRobot's training configuration for the words of its command line."""
    import lerobot.policies.factory  # noqa: F401 - registers the policies
    from lerobot.configs import parser
    from lerobot.configs.train import TrainPipelineConfig

    def take(cfg: Any) -> Any:
        return cfg

    skip_help_texts()
    take.__annotations__["cfg"] = TrainPipelineConfig  # the parser reads it, and wants the class itself
    before, sys.argv = sys.argv, [PROGRAM, *words]
    try:
        config = parser.wrap()(take)()
        policy = parser.get_path_arg("policy")
        if policy:
            from lerobot.configs.policies import PreTrainedConfig

            config.policy = PreTrainedConfig.from_pretrained(policy, cli_overrides=parser.get_cli_overrides("policy"))
        return config
    except SystemExit as leaving:
        raise UserError(
            f"LeRobot does not take these words: {' '.join(words)[:300]}", ["lerobot-train --help lists them"]
        ) from leaving
    finally:
        sys.argv = before


def skip_help_texts() -> None:
    """Stops LeRobot's parser from reading the source of every setting for its help text, which takes seconds."""
    from draccus.wrappers import docstring

    nothing = docstring.AttributeDocString()
    docstring.get_attribute_docstring = lambda some_dataclass, field_name: nothing


def set_features(policy: Any, features: dict[str, Any]) -> None:
    """Sets inputs and outputs of a policy from the features of a dataset, as LeRobot does."""
    from lerobot.configs.types import FeatureType
    from lerobot.datasets.utils import dataset_to_policy_features

    found = dataset_to_policy_features(features)
    policy.output_features = {key: part for key, part in found.items() if part.type is FeatureType.ACTION}
    if not policy.input_features:
        policy.input_features = {key: part for key, part in found.items() if key not in policy.output_features}


def made_up_features(cameras: int, side: int, action_size: int = 14) -> dict[str, Any]:
    """Features of a dataset that nobody has recorded yet."""
    vector = {"dtype": "float32", "shape": (action_size,), "names": None}
    frame = {"dtype": "video", "shape": (side, side, 3), "names": ["height", "width", "channels"]}
    images = {f"observation.images.camera_{number}": dict(frame) for number in range(cameras)}
    return {**images, "observation.state": dict(vector), "action": dict(vector)}
