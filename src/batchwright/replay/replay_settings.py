"""Numbers of a plan that replay training needs, typed; the only file of this package that reads a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

from batchwright.core.errors import UserError
from batchwright.planning.network_plan import hidden_sizes
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import DERIVED, Value
from batchwright.runs.run_settings import RunSettings

OwnT = TypeVar("OwnT")


@dataclass(frozen=True)
class ReplaySettings:
    """What every replay algorithm needs; `own` gives an algorithm the numbers that only it has."""

    run: RunSettings
    engine: str
    num_envs: int
    num_threads: int | None
    rollout_steps: int
    """Steps of each environment per iteration."""
    steps_per_iteration: int
    """Steps of all environments per iteration."""
    warmup_steps: int
    updates_per_iteration: int
    transitions_per_update: int

    episodic_reward: bool
    reward_only: bool
    """Whether the reward network learns alone, and no policy is updated."""
    collecting_run: str | None
    """The run whose policy collects; None for random actions. Only with `reward_only`."""
    redistribute: str | None
    """How rewards are made of episode returns; None where they are used as they are."""
    reward_learning_rate: float
    subsequences_per_update: int
    subsequence_timesteps: int

    replay_transitions: int
    store_next_obs: bool
    on_device: bool
    """Whether the buffer lies on the device, where its updates are."""
    stacked_frames: int
    buffer_bytes: int
    update_bytes: int
    """Of all transitions that one update draws."""

    learning_rate: float
    learning_rate_schedule: str
    warmup_updates: int
    gamma: float
    polyak: float
    updates_per_target: int
    max_grad_norm: float | None
    adam_beta2: float
    adam_eps: float
    normalize_obs: bool
    hidden: tuple[int, ...]
    """Units of the hidden layers; empty for images."""
    activation: str

    values: Mapping[str, Value]
    """All numbers of the plan by name, for `own`."""

    @classmethod
    def from_plan(cls, plan: Plan) -> ReplaySettings:
        return cls(
            run=RunSettings.from_plan(plan),
            engine=plan["engine"],
            num_envs=plan["num_envs"],
            num_threads=plan.get("num_threads"),
            rollout_steps=plan["rollout_steps"],
            steps_per_iteration=plan["steps_per_iteration"],
            warmup_steps=plan["warmup_steps"],
            updates_per_iteration=plan["updates_per_iteration"],
            transitions_per_update=plan["transitions_per_update"],
            episodic_reward=plan["episodic_reward"],
            reward_only=bool(plan.get("reward_only")),
            collecting_run=_stated(plan, "collecting_run"),
            redistribute=plan.get("redistribute"),
            reward_learning_rate=plan.get("reward_learning_rate", 0.0),
            subsequences_per_update=plan.get("subsequences_per_update", 0),
            subsequence_timesteps=plan.get("subsequence_timesteps", 0),
            replay_transitions=plan["replay_transitions"],
            store_next_obs=plan["store_next_obs"],
            on_device=plan["replay_on"] == "device",
            stacked_frames=plan.get("stacked_frames", 1),
            buffer_bytes=plan.get("buffer_bytes") or 0,
            update_bytes=(plan.get("batch_bytes") or 0) + (plan.get("rrd_batch_bytes") or 0),
            learning_rate=plan["learning_rate"],
            learning_rate_schedule=plan["learning_rate_schedule"],
            warmup_updates=plan["warmup_updates"],
            gamma=plan["gamma"],
            polyak=plan["polyak"],
            updates_per_target=plan["updates_per_target"],
            max_grad_norm=plan.get("max_grad_norm"),
            adam_beta2=plan["adam_beta2"],
            adam_eps=plan["adam_eps"],
            normalize_obs=plan["normalize_obs"],
            hidden=hidden_sizes(plan) or (),
            activation=plan.get("activation", "relu"),
            values={name: quantity.value for name, quantity in plan.quantities.items()},
        )

    def own(self, settings: type[OwnT]) -> OwnT:
        """The numbers of one algorithm: a frozen dataclass whose fields have the names of the plan."""
        return settings(**{field.name: self.values[field.name] for field in fields(settings)})  # type: ignore[arg-type]

    @property
    def learns_rewards(self) -> bool:
        """Whether a reward network relabels the transitions that the policy learns from."""
        return self.redistribute not in (None, "ircr")


def _stated(plan: Plan, name: str) -> str | None:
    """A text that the user stated; None where the plan has the default's description."""
    quantity = plan.quantities.get(name)
    return None if quantity is None or quantity.source == DERIVED else str(quantity.value)


def refuse_untrainable_replay(plan: Plan) -> None:
    """Refuses numbers that can be planned and not trained, before a run directory is made."""
    settings = ReplaySettings.from_plan(plan)
    capacity, steps = settings.replay_transitions, settings.steps_per_iteration
    if capacity < steps:
        raise UserError(
            f"a replay buffer of {capacity} transitions cannot take the {steps} of one iteration.",
            [f"--replay-transitions {steps}", f"--rollout-steps {max(1, capacity // settings.num_envs)}"],
        )
