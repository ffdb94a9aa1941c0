"""PPO training speed of TorchRL, built as its own PPO example is: collector, replay buffer, GAE, clipped loss.

There is no EnvPool feed: PEERS.md has one row for TorchRL.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torch.distributions import Categorical
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
from torchrl.envs import DoubleToFloat, EnvBase, GymEnv, SerialEnv, TransformedEnv
from torchrl.modules import MLP, IndependentNormal, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from peers.common import (
    CLIP_RANGE,
    ENTROPY_COEFFICIENT,
    GAE_LAMBDA,
    GAMMA,
    HIDDEN_UNITS,
    LEARNING_RATE,
    MAX_GRADIENT_NORM,
    VALUE_COEFFICIENT,
    IterationClock,
    Settings,
    measure,
    parse_settings,
)


def make_env(settings: Settings) -> EnvBase:
    def one() -> EnvBase:
        return GymEnv(settings.env, categorical_action_encoding=True)

    envs = SerialEnv(settings.num_envs, one)
    if envs.full_observation_spec["observation"].dtype == torch.float64:
        return TransformedEnv(envs, DoubleToFloat())
    return envs


def mlp(inputs: int, outputs: int) -> MLP:
    return MLP(in_features=inputs, out_features=outputs, num_cells=list(HIDDEN_UNITS), activation_class=nn.Tanh)


def make_actor(env: EnvBase) -> ProbabilisticActor:
    inputs = env.observation_spec["observation"].shape[-1]
    actions = env.full_action_spec_unbatched["action"]
    if not actions.dtype.is_floating_point:
        module = TensorDictModule(mlp(inputs, actions.space.n), in_keys=["observation"], out_keys=["logits"])
        in_keys, distribution, arguments = ["logits"], Categorical, {}
    else:
        count = actions.shape[-1]
        body = nn.Sequential(mlp(inputs, count), AddStateIndependentNormalScale(count))
        module = TensorDictModule(body, in_keys=["observation"], out_keys=["loc", "scale"])
        in_keys, distribution, arguments = ["loc", "scale"], IndependentNormal, {}
    return ProbabilisticActor(
        module,
        in_keys=in_keys,
        spec=actions,
        distribution_class=distribution,
        distribution_kwargs=arguments,
        return_log_prob=True,
    )


def update(
    loss_module: ClipPPOLoss, optimizer: torch.optim.Optimizer, buffer: ReplayBuffer, minibatches_per_epoch: int
) -> None:
    """One epoch over the buffer."""
    for _ in range(minibatches_per_epoch):
        losses = loss_module(buffer.sample())
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        nn.utils.clip_grad_norm_(loss_module.parameters(), MAX_GRADIENT_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def train(settings: Settings, clock: IterationClock) -> None:
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)
    env = make_env(settings)
    actor = make_actor(env)
    critic = ValueOperator(mlp(env.observation_spec["observation"].shape[-1], 1), in_keys=["observation"])
    loss_module = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=CLIP_RANGE,
        entropy_bonus=ENTROPY_COEFFICIENT > 0,
        critic_coeff=VALUE_COEFFICIENT,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    advantage = GAE(gamma=GAMMA, lmbda=GAE_LAMBDA, value_network=critic)
    optimizer = torch.optim.Adam(loss_module.parameters(), lr=LEARNING_RATE, eps=1e-5)
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(settings.iteration_steps),
        sampler=SamplerWithoutReplacement(),
        batch_size=settings.minibatch,
    )
    collector = Collector(env, actor, frames_per_batch=settings.iteration_steps, total_frames=-1)
    for rollout in collector:
        with torch.no_grad():
            advantage(rollout)
        buffer.empty()
        buffer.extend(rollout.reshape(-1))
        for _ in range(settings.epochs):
            update(loss_module, optimizer, buffer, settings.iteration_steps // settings.minibatch)
        if clock.lap():
            break
    collector.shutdown()


if __name__ == "__main__":
    measure("torchrl", ("torchrl", "tensordict", "torch"), parse_settings(feeds=("usual",)), train)
