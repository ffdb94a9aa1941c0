"""Records a point that is pushed at random, learns its reward from returns alone, and predicts two rewards."""

import sys
from pathlib import Path

import h5py
import numpy as np

import batchwright


def record(file: Path, episodes: int = 100) -> None:
    """Demonstrations in LIBERO's layout; the reward of a step is minus the distance to the origin."""
    rng = np.random.default_rng(0)
    with h5py.File(file, "w") as handle:
        for k in range(episodes):
            steps = int(rng.integers(20, 40))
            action = rng.uniform(-1, 1, (steps, 2)) + rng.uniform(-0.4, 0.4, 2)
            position = rng.uniform(-2, 2, 2) + 0.2 * np.cumsum(action, 0)
            demo = handle.create_group(f"data/demo_{k}")
            demo["obs/position"] = np.concatenate([position[:1] - 0.2 * action[:1], position[:-1]])
            demo["next_obs/position"] = position
            demo["actions"] = action
            demo["rewards"] = -np.linalg.norm(position, axis=-1)


def main(total_updates: int = 3000) -> None:
    file = Path("point.hdf5")
    record(file)
    # The model learns from the sums of rewards only; rewards of single steps serve to evaluate it.
    result = batchwright.learn_reward(
        file, total_updates=total_updates, subsequence_timesteps=16, run_dir=Path("runs/point"), quiet=True
    )
    fit = result.fit["held_out"]
    print(f"held out: {fit['episodes']} episodes, Spearman of returns {fit['spearman']:.3f}")
    print(f"single steps: Spearman {fit['step_spearman']:.3f}; picture: {result.run_dir}/rewards.html")

    reward = batchwright.load_reward(result.run_dir)
    near, far, still = np.array([[0.1, 0.0]]), np.array([[3.0, 2.0]]), np.zeros((1, 2))
    print(f"reward near the origin {reward(near, still, near)[0]:.2f}, far from it {reward(far, still, far)[0]:.2f}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
