"""Your own loop around the buffer: a linear policy in NumPy learns CartPole. python examples/own_loop.py [EPISODES]"""

import sys

import gymnasium
import numpy as np

from batchwright import TrajectoryBuffer

BATCH_EPISODES, EPOCHS, MINIBATCH, RATE, VALUE_RATE, CLIP = 10, 4, 64, 0.3, 0.1, 0.2
SCALE = np.array([1.0, 2.0, 0.1, 2.0])


def features(state: np.ndarray) -> np.ndarray:
    """Features: the scaled state, and how far it is from the middle."""
    scaled = np.clip(state / SCALE, -3, 3)
    return np.concatenate([scaled, scaled**2, [1.0]])


def push_right_prob(weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The probability of pushing right."""
    return np.asarray(1 / (1 + np.exp(-inputs @ weights)))


def play(env: gymnasium.Env, policy: np.ndarray, value: np.ndarray, buffer: TrajectoryBuffer, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs, ended, steps = features(env.reset(seed=seed)[0]), False, 0
    buffer.start_episode()
    while not ended:
        right = push_right_prob(policy, inputs)
        action = int(rng.random() < right)
        state, reward, terminated, truncated, _ = env.step(action)
        buffer.add_step(inputs, action, float(reward), inputs @ value, np.log(right if action else 1 - right))
        inputs, ended, steps = features(state), terminated or truncated, steps + 1
    buffer.finish_episode(final_values=inputs @ value, terminated=terminated, success=steps >= 195)


def main(episodes: int) -> None:
    env, buffer = gymnasium.make("CartPole-v1"), TrajectoryBuffer(seed=0)
    policy, value = np.zeros(9), np.zeros(9)
    for first in range(0, episodes, BATCH_EPISODES):
        buffer.clear()
        for number in range(first, min(first + BATCH_EPISODES, episodes)):
            play(env, policy, value, buffer, seed=number)
        buffer.compute_returns_and_advantages_for_all_episodes(gamma=0.99, gae_lambda=0.95)
        for _ in range(EPOCHS):
            for part in buffer.create_minibatches(MINIBATCH):
                inputs, action, advantage = part["states"], part["actions"], part["advantages"]
                right = push_right_prob(policy, inputs)
                ratio = np.exp(np.log(np.where(action == 1, right, 1 - right)) - part["log_probs"])
                scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                moves = np.where(scaled > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)
                policy += RATE * np.mean((moves * ratio * scaled * (action - right))[:, None] * inputs, axis=0)
                value += VALUE_RATE * np.mean((part["returns"] - inputs @ value)[:, None] * inputs, axis=0)
        stats = buffer.stats()
        print(f"Episodes {first + stats['num_episodes']:4.0f} | length {stats['avg_length']:.1f}", flush=True)
    print(f"mean length of the last {stats['num_episodes']} episodes: {stats['avg_length']:.1f}")


main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
