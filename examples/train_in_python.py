"""Trains a policy, reads its record, and plays it in the environment."""

import sys

import gymnasium

import batchwright


def main(total_steps: int = 50_000) -> None:
    result = batchwright.train("CartPole-v1", total_steps=total_steps, seed=1, quiet=True)
    print(f"run: {result.run_dir}")
    print(f"evaluation: mean {result.evaluation['mean']:.1f} over {result.evaluation['episodes']} episodes")

    policy = batchwright.load(result.run_dir)
    env = gymnasium.make("CartPole-v1")
    obs, _ = env.reset(seed=7)
    total, ended = 0.0, False
    while not ended:
        obs, reward, terminated, truncated, _ = env.step(policy(obs))
        total, ended = total + float(reward), terminated or truncated
    print(f"one episode by hand: {total:.0f}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
