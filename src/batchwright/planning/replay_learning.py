"""The defaults of replay algorithms, and the loss and optimiser of a replay run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from batchwright.config.schema import flag_of
from batchwright.core.errors import UserError
from batchwright.planning.ledger import Ledger
from batchwright.planning.network_plan import settle_network
from batchwright.planning.plan import TaskFacts
from batchwright.planning.rules import offer_discount

CHECKPOINT_STEPS = 25_000


@dataclass(frozen=True)
class AlgorithmDefaults:
    """What planning knows of one replay algorithm."""

    settle: Callable[[Ledger], None]
    """Settles the numbers of its targets, exploration and loss."""
    own: tuple[str, ...]
    """Settings that other algorithms refuse."""
    discrete: bool
    """Whether its actions are choices."""
    learning_rate: float
    transitions_per_update: int
    passes: int
    """Times that an update sends its rows through a network of `hidden`, forwards or backwards."""
    total_steps: int = 200_000


def _settle_sac(ledger: Ledger) -> None:
    ledger.setting("polyak", 0.005, "Haarnoja et al., 2018", unit="")
    ledger.setting("updates_per_target", 1, "a small step at every update")
    ledger.setting("learn_temperature", True, "no temperature suits all tasks", unit="")
    ledger.setting("temperature_start", 1.0, "entropy counts as much as reward at first", unit="")
    ledger.setting("target_entropy", -1.0, "-1 per action dimension (Haarnoja et al., 2018)", unit="nats")


def _settle_td3(ledger: Ledger) -> None:
    ledger.setting("polyak", 0.005, "Fujimoto et al., 2018", unit="")
    ledger.setting("exploration_noise", 0.1, "Fujimoto et al., 2018", unit="")
    ledger.setting("target_noise", 0.2, "Fujimoto et al., 2018", unit="")
    ledger.setting("target_noise_clip", 0.5, "Fujimoto et al., 2018", unit="")
    delay = ledger.setting("policy_delay", 2, "the actor learns from critics that have settled (Fujimoto et al., 2018)")
    ledger.setting("updates_per_target", delay, "with the actor")


def _settle_dqn(ledger: Ledger) -> None:
    ledger.setting("polyak", 1.0, "the target is a copy", unit="")
    ledger.setting("updates_per_target", 1000, "long enough for a stable target, short enough to follow")
    ledger.setting("epsilon_start", 1.0, "all actions random at first", unit="")
    ledger.setting("epsilon_end", 0.05, "some exploration to the end", unit="")
    ledger.setting("epsilon_share", 0.1, "over the first tenth of the run", unit="share")
    ledger.setting("huber_limit", 1.0, "for rewards of about 1 in all, as clipped ones (Mnih et al., 2015)", unit="")
    ledger.setting("max_grad_norm", 10.0, "the common clip of Q-learning", unit="")


REPLAY_DEFAULTS = {
    "sac": AlgorithmDefaults(
        settle=_settle_sac,
        own=("learn_temperature", "temperature_start", "target_entropy"),
        discrete=False,
        learning_rate=3e-4,
        transitions_per_update=256,
        passes=16,
    ),
    "td3": AlgorithmDefaults(
        settle=_settle_td3,
        own=("exploration_noise", "target_noise", "target_noise_clip", "policy_delay"),
        discrete=False,
        learning_rate=3e-4,
        transitions_per_update=256,
        passes=13,
    ),
    "dqn": AlgorithmDefaults(
        settle=_settle_dqn,
        own=("epsilon_start", "epsilon_end", "epsilon_share", "huber_limit"),
        discrete=True,
        learning_rate=1e-4,
        transitions_per_update=128,
        passes=5,
    ),
}


def settle_replay_objective(ledger: Ledger, task: TaskFacts) -> None:
    """Settings of the loss and the optimiser."""
    algo = ledger.config.algo
    defaults = REPLAY_DEFAULTS[algo]
    ledger.setting("learning_rate", defaults.learning_rate, f"a common start for {algo} with Adam", unit="")
    ledger.setting("gamma", 0.99, "an effective horizon of 100 steps, 1 / (1 - gamma)", unit="")
    offer_discount(ledger, task)
    schedule = ledger.setting("learning_rate_schedule", "constant", "schedules are set by presets", unit="")
    if schedule == "kl-adaptive":
        raise UserError(
            f"the kl-adaptive schedule follows the KL of a policy update; {algo} has none.",
            ["--learning-rate-schedule linear", "--algo ppo"],
        )
    ledger.setting("warmup_updates", 0, "small networks need none")
    for other, its in REPLAY_DEFAULTS.items():
        if other != algo:
            _refuse_of(ledger, its.own, other)
    defaults.settle(ledger)
    ledger.setting("normalize_obs", False, "replayed observations are used as they are", unit="")
    ledger.setting("adam_beta2", 0.999, "Adam's default", unit="")
    ledger.setting("adam_eps", 1e-8, "Adam's default", unit="")
    settle_network(ledger, task, "256,256", "the published networks of replay learning", "relu")


def _refuse_of(ledger: Ledger, names: tuple[str, ...], algo: str) -> None:
    for name in names:
        if ledger.stated(name) is not None:
            raise UserError(
                f"{ledger.place(name)} is a setting of {algo}; {ledger.config.algo} has none.",
                [f"--algo {algo}", f"leave out {flag_of(name)}"],
            )
