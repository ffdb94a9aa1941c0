"""How well a trained policy tells the actions of a dataset, beside the mean action."""

import torch


def errors(policy_folder: str, data: str) -> dict[str, float]:
    """Mean absolute errors of the policy's first action and of the mean action."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors

    policy = ACTPolicy.from_pretrained(policy_folder)
    before, after = make_pre_post_processors(policy.config, pretrained_path=policy_folder)
    dataset = LeRobotDataset("local/toy", root=data)
    batch = torch.utils.data.default_collate([dataset[k] for k in range(0, len(dataset), 3)])
    actions = batch["action"]
    with torch.no_grad():
        found = after(policy.predict_action_chunk(before(batch))[:, 0])
    mean = actions.mean(0, keepdim=True).expand_as(actions)
    return {name: float((guess - actions).abs().mean()) for name, guess in (("policy", found), ("mean_action", mean))}
