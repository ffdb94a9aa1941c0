"""PianoReach-G1-v0: a Unitree G1 strikes the lit key of a keyboard with its palm; the first key it presses decides."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs.piano_model import (
    KEY_LENGTH,
    KEY_TRAVEL,
    KEYS,
    SIDES,
    key_middles,
    mujoco_module,
    piano_model,
)

STEPS_PER_ACTION = 3
"""Physics steps of 5 ms in one step of the environment."""
TARGET_STEP = 0.08
"""Radians that an action of 1 moves a joint's target."""
REACH = 1.3
"""Radians that a joint's target may be from home."""
HOME = {"shoulder_pitch": -0.35, "left_shoulder_roll": 0.12, "right_shoulder_roll": -0.12, "elbow": 0.35}
START_NOISE = 0.05
PRESSED = KEY_TRAVEL / KEY_LENGTH / 2
"""Angle of a key that counts as pressed: half of its travel."""
WEIGHTS = {"distance": 10.0, "press": 5.0, "wrong_key": -3.0, "effort": -0.01}
"""The reward: metres nearer, the lit keys down, another key down, mean square of the actions."""


class PianoReach(gymnasium.Env[Any, Any]):
    """`lit` keys, 1 or 2 (one for each palm); `joints` is "arms" (14 actions) or "all" (29).

    An episode ends when all lit keys are down (`info["is_success"]`), when another key is pressed first, or after its
    time limit. Observations: joint angles from home, speeds, how far targets lead; for each palm its place, the way
    to its lit key, and whether it has one.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 67}  # noqa: RUF012

    def __init__(self, joints: str = "arms", lit: int = 1, render_mode: str | None = None) -> None:
        if joints not in ("arms", "all") or lit not in (1, 2):
            raise UserError(f"joints={joints!r}, lit={lit!r}: joints is 'arms' or 'all', lit is 1 or 2.")
        self._mujoco = mujoco_module()
        self.model = piano_model(joints == "arms")
        self.data = self._mujoco.MjData(self.model)
        self.render_mode, self._lit_keys = render_mode, lit
        self._renderer: Any = None
        self._size = self.model.nu
        home = [_home(self.model.actuator(place).name) for place in range(self._size)]
        self._home = np.array(home)
        low, high = self.model.actuator_ctrlrange.T
        self._low, self._high = np.maximum(low, self._home - REACH), np.minimum(high, self._home + REACH)
        self._tips = [self.data.geom_xpos[self.model.geom(f"{side}_tip").id] for side in SIDES]
        self._middles = key_middles()
        self._goals = [0.0] * 6
        self._has_key = [0.0] * 6
        self._lit = np.zeros(KEYS, bool)
        self._away = 0.0
        self._angles, self._speeds = self.data.qpos[: self._size], self.data.qvel[: self._size]
        self._key_angles = self.data.qpos[self._size : self._size + KEYS]  # the keys were added last
        self._targets = self.data.ctrl
        self._centre = [*self._middles.mean(0).tolist()] * 2
        self.action_space = gymnasium.spaces.Box(-1, 1, (self._size,), np.float32)
        size = 3 * self._size + 14
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._mujoco.mj_resetData(self.model, self.data)
        noise = self.np_random.uniform(-START_NOISE, START_NOISE, self._size)
        self._angles[:] = self._home + noise
        self._targets[:] = self._home + noise
        self._light()
        self._mujoco.mj_forward(self.model, self.data)
        places, ways, self._away = self._ways()
        return self._observation(places, ways), self._info(dict.fromkeys(WEIGHTS, 0.0), False)

    def _light(self) -> None:
        """Picks the lit keys: those of the left half are the left palm's."""
        self._lit[:] = False
        self._has_key[:] = [0.0] * 6
        half = KEYS // 2
        sides = (0, 1) if self._lit_keys == 2 else (int(self.np_random.integers(2)),)
        for side in sides:
            key = side * half + int(self.np_random.integers(half))
            self._lit[key] = True
            x, y, z = self._middles[key].tolist()
            place = slice(3 * side, 3 * side + 3)
            self._goals[place], self._has_key[place] = [x, y, z - KEY_TRAVEL / 2], [1.0] * 3

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        action = np.minimum(np.maximum(action, -1), 1)  # quicker than np.clip for a few numbers
        self._targets[:] = np.minimum(np.maximum(self._targets + TARGET_STEP * action, self._low), self._high)
        self._mujoco.mj_step(self.model, self.data, STEPS_PER_ACTION)
        wrong = success = False
        if self._key_angles.max() > PRESSED:
            down = self._key_angles > PRESSED
            wrong = bool((down & ~self._lit).any())
            success = not wrong and bool(down[self._lit].all())
        places, ways, away = self._ways()
        parts = {
            "distance": WEIGHTS["distance"] * (self._away - away),
            "press": WEIGHTS["press"] * success,
            "wrong_key": WEIGHTS["wrong_key"] * wrong,
            "effort": WEIGHTS["effort"] * float(action @ action) / self._size,
        }
        self._away = away
        return self._observation(places, ways), sum(parts.values()), success or wrong, False, self._info(parts, success)

    def _ways(self) -> tuple[list[float], list[float], float]:
        """Places of the palms [6], the way of each to its lit key [6], the sum of their lengths.

        Zeros for a palm without a key. Plain numbers: for six of them NumPy's calls take longer than the arithmetic.
        """
        places = [number for tip in self._tips for number in tip.tolist()]
        ways = [(goal - place) * has for goal, place, has in zip(self._goals, places, self._has_key, strict=True)]
        return places, ways, math.hypot(*ways[:3]) + math.hypot(*ways[3:])

    def _observation(self, places: list[float], ways: list[float]) -> Any:
        size = self._size
        shown = np.empty(3 * size + 14, np.float32)
        shown[:size] = self._angles - self._home
        shown[size : 2 * size] = 0.1 * self._speeds
        shown[2 * size : 3 * size] = 5 * (self._targets - self._angles)
        palms = [4 * (place - middle) for place, middle in zip(places, self._centre, strict=True)]
        shown[3 * size :] = [*palms, *(4 * way for way in ways), self._has_key[0], self._has_key[3]]
        return shown

    def _info(self, parts: dict[str, float], success: bool) -> dict[str, Any]:
        return {**parts, "is_success": success}

    def render(self) -> Any:
        if self.render_mode != "rgb_array":
            return None
        if self._renderer is None:
            self._renderer = self._mujoco.Renderer(self.model, 240, 320)
        camera = self._mujoco.MjvCamera()
        camera.lookat[:], camera.distance = (0.22, 0.0, 0.88), 1.2
        camera.azimuth, camera.elevation = 200, -38
        self._renderer.update_scene(self.data, camera)
        self._colour_keys(self._renderer.scene)
        return self._renderer.render()

    def _colour_keys(self, scene: Any) -> None:
        """Lit keys are blue, green once they are down; a wrong one that is down is red."""
        first = self.model.geom("key_0").id
        down = self._key_angles > PRESSED
        for geom in scene.geoms[: scene.ngeom]:
            key = geom.objid - first
            if geom.objtype == self._mujoco.mjtObj.mjOBJ_GEOM and 0 <= key < KEYS and (self._lit[key] or down[key]):
                colour = (0.1, 0.8, 0.2) if self._lit[key] and down[key] else (0.05, 0.45, 1.0)
                geom.rgba[:3] = colour if self._lit[key] else (0.9, 0.1, 0.1)
                geom.emission = 0.5

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


def _home(joint: str) -> float:
    return next((angle for word, angle in HOME.items() if word in joint), 0.0)
