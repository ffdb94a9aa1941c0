"""Plays one episode of a trained policy and keeps a picture of every step."""

from __future__ import annotations

import os
from typing import Any, Protocol

import numpy as np

from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.engines import make_engine
from batchwright.envs.engines.envpool_host import EnvPoolHost
from batchwright.envs.failures import failure
from batchwright.envs.gymnasium_source import EnvSource
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.planning.network_plan import has_channels_first
from batchwright.policies.trained_policy import TrainedPolicy

DEFAULT_FRAMES_PER_SECOND = 30
RENDER = {"render_mode": "rgb_array"}


class Camera(Protocol):
    """One environment that is filmed."""

    frames_per_second: int

    def play(self, seed: int, most_frames: int) -> list[np.ndarray]:
        """Pictures [height, width, 3] of one episode."""

    def close(self) -> None: ...


def make_camera(policy: TrainedPolicy) -> Camera:
    """A camera for the environment of a run: EnvPool's own where EnvPool trained it, else Gymnasium's."""
    kind: type[Any] = EnvPoolCamera if str(policy.plan["engine"]).startswith("envpool") else GymnasiumCamera
    kind = AgentsCamera if policy.layout is not None else kind
    try:
        return kind(policy)
    except UserError as error:
        message = error.message.removeprefix(f"{policy.env} ")
        raise UserError(f"{policy.env} cannot be recorded: {message}", ["leave out --video"]) from None
    except Exception as error:
        raise UserError(f"{policy.env} cannot be recorded: {failure(error)}", ["leave out --video"]) from error


class GymnasiumCamera:
    """Films a Gymnasium environment; one that draws nothing is filmed by the images that it observes."""

    def __init__(self, policy: TrainedPolicy) -> None:
        self._policy = policy
        # Pictures need no screen. Without one SDL, which draws pygame's, prints an error of its own and goes on.
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        self._env, self._limit_steps = _make_drawing(policy.env)
        try:
            obs, _ = self._env.reset(seed=0)
            if self._picture(obs) is None:
                raise UserError("it draws no pictures.")
        except BaseException:
            self._env.close()
            raise
        self.frames_per_second = _rate(getattr(self._env, "metadata", None))

    def play(self, seed: int, most_frames: int) -> list[np.ndarray]:
        env = self._env
        self._policy.reset()
        obs, info = env.reset(seed=seed)
        frames: list[Any] = [self._picture(obs)]
        ended, most = False, min(most_frames, 1 + (self._limit_steps or most_frames))
        while not ended and len(frames) < most:
            action = self._policy(obs, mask=(info or {}).get("action_mask"))
            obs, _, terminated, truncated, info = env.step(action)
            frames.append(self._picture(obs))
            ended = terminated or truncated
        return frames

    def _picture(self, obs: Any) -> np.ndarray | None:
        drawn = self._env.render() if getattr(self._env, "render_mode", "rgb_array") == "rgb_array" else None
        return drawn if isinstance(drawn, np.ndarray) else observed_image(self._policy.policy.inputs.spec, obs)

    def close(self) -> None:
        self._env.close()


class AgentsCamera(GymnasiumCamera):
    """Films an environment of several agents, from its reset until no agent is left."""

    def play(self, seed: int, most_frames: int) -> list[np.ndarray]:
        env = self._env
        self._policy.reset()
        obs, infos = env.reset(seed=seed)
        frames: list[Any] = [self._picture(obs)]
        most = min(most_frames, 1 + (self._limit_steps or most_frames))
        while env.agents and len(frames) < most:
            masks = {agent: (infos.get(agent) or {}).get("action_mask") for agent in env.agents}
            obs, _, _, _, infos = env.step(self._policy({agent: obs[agent] for agent in env.agents}, mask=masks))
            frames.append(self._picture(obs))
        return frames

    def _picture(self, obs: Any) -> np.ndarray | None:
        drawn = self._env.render()
        return drawn if isinstance(drawn, np.ndarray) else None


class EnvPoolCamera:
    """Films an environment of EnvPool, which draws by itself."""

    frames_per_second = DEFAULT_FRAMES_PER_SECOND

    def __init__(self, policy: TrainedPolicy) -> None:
        self._policy = policy
        engine = make_engine(policy.env, 1, "envpool-host", env_kwargs=RENDER, components=NO_COMPONENTS)
        assert isinstance(engine, EnvPoolHost)
        self._engine = engine

    def play(self, seed: int, most_frames: int) -> list[np.ndarray]:
        self._policy.reset()
        obs = self._engine.start(seed)
        frames, ended = [self._engine.render()], False
        while not ended and len(frames) < most_frames:
            step = self._engine.step(self._policy.act_stored(obs))
            obs, ended = step.obs, bool(step.terminated[0] or step.truncated[0])
            frames.append(self._engine.render())
        return frames

    def close(self) -> None:
        self._engine.close()


def _make_drawing(name: str) -> tuple[Any, int | None]:
    """An environment that draws: made with a render mode, or told to draw where its factory takes no argument."""
    try:
        made: tuple[Any, int | None] = EnvSource(name, None, RENDER).make()
        return made
    except UserError as error:
        if not isinstance(error.__cause__, TypeError):
            raise
    env, limit_steps = EnvSource(name).make()
    bare = getattr(env, "unwrapped", env)
    if getattr(bare, "render_mode", None) is None and "rgb_array" in _metadata(bare).get("render_modes", ()):
        bare.render_mode = "rgb_array"
    return env, limit_steps


def observed_image(spec: spaces.Spec, obs: Any) -> np.ndarray | None:
    """The first image of an observation as [height, width, 3], of stacked frames the newest; None without images."""
    for path, leaf in spaces.leaves(spec):
        if spaces.is_image(leaf):
            image = np.asarray(spaces.value_at(obs, path))
            image = np.moveaxis(image, 0, -1) if has_channels_first(leaf.shape) else image
            return image if image.shape[-1] == 3 else np.repeat(image[..., -1:], 3, -1)
    return None


def _metadata(env: Any) -> Any:
    return getattr(env, "metadata", None) or {}


def _rate(metadata: Any) -> int:
    return max(1, int((metadata or {}).get("render_fps") or DEFAULT_FRAMES_PER_SECOND))
