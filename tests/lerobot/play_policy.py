"""How well a policy tells the actions of a dataset, beside the mean action: `python play_policy.py POLICY DATA`."""

import json
import sys

import torch

from batchwright.lerobot import torchvision_schemas

torchvision_schemas.declare()

from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: E402
from lerobot.policies.act.modeling_act import ACTPolicy  # noqa: E402
from lerobot.policies.factory import make_pre_post_processors  # noqa: E402

policy = ACTPolicy.from_pretrained(sys.argv[1])
before, after = make_pre_post_processors(policy.config, pretrained_path=sys.argv[1])
dataset = LeRobotDataset("local/toy", root=sys.argv[2])
batch = torch.utils.data.default_collate([dataset[k] for k in range(0, len(dataset), 3)])
actions = batch["action"]
with torch.no_grad():
    found = after(policy.predict_action_chunk(before(batch))[:, 0])
mean = actions.mean(0, keepdim=True).expand_as(actions)
print(
    json.dumps(
        {name: float((guess - actions).abs().mean()) for name, guess in (("policy", found), ("mean_action", mean))}
    )
)
