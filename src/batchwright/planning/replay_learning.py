"""The objective and the optimiser of a replay run: targets, temperature, exploration, networks."""

from __future__ import annotations

from batchwright.config.schema import flag_of
from batchwright.core.errors import UserError
from batchwright.planning.learning import settle_network
from batchwright.planning.ledger import Ledger
from batchwright.planning.quantity import TaskFacts
from batchwright.planning.rules import offer_discount

DEFAULT_RATE = {"sac": 3e-4, "dqn": 1e-4}
CHECKPOINT_STEPS = 25_000
SAC_ONLY = ("learn_temperature", "temperature_start", "target_entropy")
DQN_ONLY = ("epsilon_start", "epsilon_end", "epsilon_share", "huber_limit")


def settle_replay_objective(ledger: Ledger, task: TaskFacts) -> None:
    """What is optimised, and by which steps."""
    algo = ledger.config.algo
    ledger.wish("learning_rate", DEFAULT_RATE[algo], f"the usual start of {algo} with Adam", unit="")
    ledger.wish("gamma", 0.99, "an effective horizon of 100 steps, 1 / (1 - gamma)", unit="")
    offer_discount(ledger, task)
    schedule = ledger.wish("learning_rate_schedule", "constant", "a schedule is a choice of presets", unit="")
    if schedule == "kl-adaptive":
        raise UserError(
            f"the kl-adaptive schedule follows the KL of a policy update; {algo} has none.",
            ["--learning-rate-schedule linear", "--algo ppo"],
        )
    ledger.wish("warmup_updates", 0, "small networks need none")
    if algo == "sac":
        _refuse_of(ledger, DQN_ONLY, "dqn")
        ledger.wish("polyak", 0.005, "Haarnoja et al., 2018", unit="")
        ledger.wish("updates_per_target", 1, "a little at every update")
        ledger.wish("learn_temperature", True, "no temperature suits all tasks", unit="")
        ledger.wish("temperature_start", 1.0, "entropy counts as much as reward at first", unit="")
        ledger.wish("target_entropy", -1.0, "-1 per action dimension (Haarnoja et al., 2018)", unit="nats")
    else:
        _refuse_of(ledger, SAC_ONLY, "sac")
        ledger.wish("polyak", 1.0, "the target is a copy", unit="")
        ledger.wish("updates_per_target", 1000, "long enough to learn towards, short enough to follow")
        ledger.wish("epsilon_start", 1.0, "all actions random at first", unit="")
        ledger.wish("epsilon_end", 0.05, "some exploration to the end", unit="")
        ledger.wish("epsilon_share", 0.1, "over the first tenth of the run", unit="share")
        ledger.wish("huber_limit", 1.0, "for rewards of about 1 in all, as clipped ones (Mnih et al., 2015)", unit="")
        ledger.wish("max_grad_norm", 10.0, "the usual clip of Q-learning", unit="")
    ledger.wish("normalize_obs", False, "replayed observations are seen as they are", unit="")
    ledger.wish("adam_beta2", 0.999, "Adam's default", unit="")
    ledger.wish("adam_eps", 1e-8, "Adam's default", unit="")
    settle_network(ledger, task, "256,256", "the published networks of replay learning", "relu")


def _refuse_of(ledger: Ledger, names: tuple[str, ...], algo: str) -> None:
    for name in names:
        if ledger.stated(name) is not None:
            raise UserError(
                f"{ledger.place(name)} is a number of {algo}; {ledger.config.algo} has none.",
                [f"--algo {algo}", f"leave out {flag_of(name)}"],
            )
