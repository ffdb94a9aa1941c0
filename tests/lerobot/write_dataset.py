"""Writes small datasets in LeRobot's format and a tiny model: `python write_dataset.py REQUESTS MODEL_FOLDER`.

A toy task: a bright square moves over a dark image, and the action is where it is. Image and state tell the action; the
mean action is a poor guess.
"""

import json
import sys
from pathlib import Path

import numpy as np

from batchwright.lerobot import torchvision_schemas


def write(root: Path, *, episodes: int, steps: int, side: int, cameras: int, video: bool, fps: int, seed: int) -> None:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    vector = {"dtype": "float32", "shape": (2,), "names": ["x", "y"]}
    frame = {"dtype": "video" if video else "image", "shape": (side, side, 3), "names": ["height", "width", "channels"]}
    features = {f"observation.images.camera_{k}": dict(frame) for k in range(cameras)}
    features |= {"observation.state": dict(vector), "action": dict(vector)}
    dataset = LeRobotDataset.create(
        "local/toy", fps=fps, features=features, root=root, robot_type="toy", use_videos=video
    )
    rng = np.random.default_rng(seed)
    for _ in range(episodes):
        start, end = rng.uniform(0.1, 0.9, 2), rng.uniform(0.1, 0.9, 2)
        for step in range(steps):
            place = start + (end - start) * step / max(1, steps - 1)
            images = {f"observation.images.camera_{k}": picture(place, side) for k in range(cameras)}
            state = place.astype(np.float32)
            dataset.add_frame(
                {**images, "observation.state": state, "action": 2 * state - 1, "task": "follow the square"}
            )
        dataset.save_episode()
    dataset.finalize()


def picture(place: np.ndarray, side: int) -> np.ndarray:
    image = np.zeros((side, side, 3), np.uint8)
    row, column = (place * (side - side // 8)).astype(int)
    image[row : row + side // 8, column : column + side // 8] = 255
    return image


if __name__ == "__main__":
    torchvision_schemas.declare()
    for request in json.loads(sys.argv[1]):
        write(Path(request.pop("root")), **request)
    from write_smolvlm import write_model

    write_model(Path(sys.argv[2]))
    print("\n{}")
