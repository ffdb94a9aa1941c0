"""Defaults of each on-policy algorithm, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defaults:
    """Defaults of one algorithm."""

    num_envs: int
    rollout_steps: int
    epochs: int
    learning_rate: float
    entropy_start: float
    gae_lambda: float
    single_update: bool
    """One update on the whole rollout: the gradient is exact only for the policy that collected it."""
    why_steps: str
    why_epochs: str
    why_lambda: str
    continuous_steps: int | None = None
    """Rollout steps with continuous actions, where they are others."""
    why_continuous_steps: str = ""

    def steps(self, discrete: bool | None) -> tuple[int, str]:
        """Rollout steps and their reason, by the kind of actions (None where it is not known)."""
        if discrete is not False:
            return self.rollout_steps, self.why_steps
        return self.continuous_steps or self.rollout_steps, self.why_continuous_steps or self.why_steps


DEFAULTS = {
    "ppo": Defaults(
        num_envs=8,
        rollout_steps=256,
        epochs=10,
        learning_rate=3e-4,
        entropy_start=0.0,
        gae_lambda=0.95,
        single_update=False,
        why_steps="8 x 256 = 2048 transitions, a common start",
        why_epochs="the clipped ratio allows several passes",
        why_lambda="Schulman et al., 2016: 0.9-0.99 balance bias and variance",
        why_continuous_steps="8 x 256 = 2048 transitions, a common start; fewer than 5k-20k, as 10 epochs reuse them",
    ),
    "a2c": Defaults(
        num_envs=16,
        rollout_steps=16,
        epochs=1,
        learning_rate=7e-4,
        entropy_start=0.01,
        gae_lambda=1.0,
        single_update=True,
        why_steps="short rollouts, frequent updates; fewer than 2k-8k, as values bootstrap the rest",
        why_continuous_steps="short rollouts, frequent updates; fewer than 5k-20k, as values bootstrap the rest",
        why_epochs="no ratio: one exact step per rollout",
        why_lambda="the return as far as the rollout goes",
    ),
    "reinforce": Defaults(
        num_envs=16,
        rollout_steps=256,
        epochs=1,
        learning_rate=1e-3,
        entropy_start=0.01,
        gae_lambda=1.0,
        single_update=True,
        why_steps="16 x 256 = 4096, as returns have a high variance",
        why_epochs="returns are those of the policy that collected",
        why_lambda="reward-to-go; the value only bootstraps where the rollout cuts an episode",
        continuous_steps=512,
        why_continuous_steps="16 x 512 = 8192, within 5k-20k, as returns of continuous control have a high variance",
    ),
}
ENTROPY_START = {True: 0.01, False: 0.001}
DEFAULT_TOTAL_STEPS = 1_000_000
EPISODES_PER_ROLLOUT = 10
