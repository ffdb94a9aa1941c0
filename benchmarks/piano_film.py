"""Films a trained policy on PianoReach-G1-v0: several episodes one after another, at half speed.

python benchmarks/piano_film.py RUN docs/training/pictures/piano.gif [--episodes 6] [--seed 2000]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from PIL import Image

import batchwright
from batchwright.envs.piano_reach import PianoReach

STEPS_PER_FRAME = 2
FRAME_MILLISECONDS = 60
"""Twice the time that two steps take."""
FRAMES_HELD = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("file", type=Path)
    parser.add_argument("--episodes", type=int, default=6)
    parser.add_argument("--seed", type=int, default=2000)
    stated = parser.parse_args()
    policy = batchwright.load(stated.run)
    env = PianoReach(render_mode="rgb_array")
    frames: list[Any] = []
    successes = 0
    for episode in range(stated.episodes):
        observation, info = env.reset(seed=stated.seed + episode)
        for step in range(80):
            if step % STEPS_PER_FRAME == 0:
                frames.append(env.render())
            observation, _, terminated, _, info = env.step(policy(observation))
            if terminated:
                break
        successes += bool(info["is_success"])
        frames += [env.render()] * FRAMES_HELD
    pictures = [Image.fromarray(frame).quantize(128, dither=Image.Dither.NONE) for frame in frames]
    pictures[0].save(
        stated.file, save_all=True, append_images=pictures[1:], duration=FRAME_MILLISECONDS, loop=0, optimize=True
    )
    size = stated.file.stat().st_size
    print(f"{stated.file}: {len(frames)} frames, {size:,} bytes, {successes} of {stated.episodes} right keys")


if __name__ == "__main__":
    main()
