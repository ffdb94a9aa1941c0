"""PPO training speed of Tianshou 2.

The loop is the on-policy trainer's own: collect, update, empty the buffer. The trainer's progress bar, logger and
test runs are left out, in the library's favour.
"""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from typing import Any

import gymnasium
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.algorithm_base import policy_within_training_step
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy, ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, CollectStats, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.utils.net.common import Net
from tianshou.utils.net.continuous import ContinuousActorProbabilistic, ContinuousCritic
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from tianshou.utils.torch_utils import torch_train_mode
from torch.distributions import Distribution, Independent, Normal

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


def make_envs(settings: Settings) -> Any:
    if settings.feed == "envpool":
        import envpool

        return envpool.make_gymnasium(
            settings.env, num_envs=settings.num_envs, num_threads=settings.env_threads, seed=0
        )
    return DummyVectorEnv([lambda: gymnasium.make(settings.env) for _ in range(settings.num_envs)])


def gaussian(mean_and_std: tuple[torch.Tensor, torch.Tensor]) -> Distribution:
    return Independent(Normal(*mean_and_std), 1)


def body(observation_shape: tuple[int, ...]) -> Net:
    return Net(state_shape=observation_shape, hidden_sizes=HIDDEN_UNITS, activation=torch.nn.Tanh)


def make_algorithm(env: gymnasium.Env[Any, Any]) -> PPO:
    shape, actions = env.observation_space.shape, env.action_space
    if isinstance(actions, gymnasium.spaces.Discrete):
        actor = DiscreteActor(preprocess_net=body(shape), action_shape=actions.n, softmax_output=False)
        critic: torch.nn.Module = DiscreteCritic(preprocess_net=body(shape))
        policy: ProbabilisticActorPolicy = DiscreteActorPolicy(actor=actor, action_space=actions)
    else:
        actor = ContinuousActorProbabilistic(preprocess_net=body(shape), action_shape=actions.shape, unbounded=True)
        critic = ContinuousCritic(preprocess_net=body(shape))
        policy = ProbabilisticActorPolicy(actor=actor, dist_fn=gaussian, action_space=actions)
    return PPO(
        policy=policy,
        critic=critic,
        optim=AdamOptimizerFactory(lr=LEARNING_RATE, eps=1e-5),
        eps_clip=CLIP_RANGE,
        vf_coef=VALUE_COEFFICIENT,
        ent_coef=ENTROPY_COEFFICIENT,
        max_grad_norm=MAX_GRADIENT_NORM,
        gae_lambda=GAE_LAMBDA,
        gamma=GAMMA,
    )


def train(settings: Settings, clock: IterationClock) -> None:
    torch.set_num_threads(settings.threads)
    np.random.seed(0)
    torch.manual_seed(0)
    algorithm = make_algorithm(gymnasium.make(settings.env))
    buffer = VectorReplayBuffer(settings.iteration_steps, settings.num_envs)
    collector = Collector[CollectStats](algorithm, make_envs(settings), buffer)
    collector.reset()
    seen_enough = False
    while not seen_enough:
        with policy_within_training_step(algorithm.policy), torch_train_mode(algorithm):
            collector.collect(n_step=settings.iteration_steps)
            algorithm.update(buffer=buffer, batch_size=settings.minibatch, repeat=settings.epochs)
        collector.reset_buffer(keep_statistics=True)
        seen_enough = clock.lap()


if __name__ == "__main__":
    measure("tianshou", ("tianshou", "torch"), parse_settings(), train)
