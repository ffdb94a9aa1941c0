"""The rest of an on-policy run's numbers: objective, normalisers, optimiser, network, evaluation, checkpoints."""

from __future__ import annotations

from batchwright.core.errors import UserError
from batchwright.planning.components import settle_components
from batchwright.planning.exploration import settle_entropy
from batchwright.planning.ledger import Ledger
from batchwright.planning.quantity import TaskFacts

EVALUATIONS_PER_RUN = 10
CHECKPOINT_STEPS = 250_000


def settle_objective(ledger: Ledger, task: TaskFacts, gae_lambda: float, why_lambda: str) -> None:
    """What is optimised, on what scale, by which steps."""
    continuous = task.discrete is False
    schedule = ledger.wish("learning_rate_schedule", "constant", "a schedule is a choice of presets", unit="")
    ledger.wish("warmup_updates", 0, "small networks need none")
    ledger.wish("gae_lambda", gae_lambda, why_lambda, unit="")
    if ledger.config.algo == "ppo":
        ledger.wish("clip_range", 0.2, "Schulman et al., 2017", unit="")
        ledger.wish("clip_schedule", "constant", "a schedule is a choice of presets", unit="")
    else:
        _refuse_ppo_only(ledger, ("clip_range", "clip_schedule"))
    ledger.wish("entropy_anneal", 0.8, "from start to end over the last 80% of the run", unit="share")
    settle_entropy(ledger, task)
    ledger.wish("value_weight", 0.5, "the usual weight", unit="")
    ledger.wish("value_rate_factor", 1.0, "one learning rate for actor and critic", unit="")
    ledger.wish("value_clip", 0.0, "off: it rarely helps (Andrychowicz et al., 2021)", unit="return std")
    ledger.wish("advantage_norm", "rollout", "one scale for all minibatches of a rollout", unit="")
    ledger.wish("baseline", True, "less variance, no bias", unit="")
    ledger.wish("normalize_obs", continuous, "on for continuous control, where scales differ by dimension", unit="")
    ledger.wish("normalize_rewards", continuous, "on for continuous control, where returns reach thousands", unit="")
    popart = ledger.wish("popart", False, "reward normalisation does for one task", unit="")
    if popart and ledger.quantities["normalize_rewards"].value:
        if ledger.resolved.origin("normalize_rewards") is not None:
            raise UserError(
                "--popart and --normalize-rewards are two ways to one scale; use one of them.",
                ["--popart --no-normalize-rewards", "--normalize-rewards"],
            )
        ledger.settle("normalize_rewards", False, "", "off: PopArt sets the scale")
    ledger.wish("kl_stop", 0.0, "off", unit="nats")
    if schedule == "kl-adaptive":
        _refuse_single_update(ledger)
        ledger.wish("kl_target", 0.01, "the usual aim of KL-adaptive rates", unit="nats")
    elif ledger.stated("kl_target") is not None:
        raise UserError(
            f"{ledger.place('kl_target')} is the aim of the kl-adaptive schedule.",
            ["--learning-rate-schedule kl-adaptive", f"--kl-stop {ledger.stated('kl_target')}"],
        )
    ledger.wish("weight_decay", 0.0, "off", unit="")
    ledger.wish("adam_beta2", 0.999, "Adam's default", unit="")
    ledger.wish("adam_eps", 1e-5, "the usual value in policy gradients", unit="")
    settle_network(ledger, task, "64,64", "enough for vectors of this size, quick on a CPU", "tanh")
    ledger.wish("log_std_start", 0.0, "a first standard deviation of half the range", unit="")
    settle_components(ledger, task)


def _refuse_single_update(ledger: Ledger) -> None:
    updates = ledger.quantities.get("updates_per_iteration")
    if updates is not None and updates.value == 1:
        raise UserError(
            "--learning-rate-schedule kl-adaptive needs a KL to go by; before the only update of a rollout it is 0.",
            ["--epochs 2", "--minibatches 2", "--learning-rate-schedule linear"],
        )


def settle_network(ledger: Ledger, task: TaskFacts, hidden: str, why: str, activation: str) -> None:
    """Units and activation of networks of vectors; images have one network."""
    image = task.obs_shape is not None and len(task.obs_shape) == 3 and task.obs_dtype == "uint8"
    stated = ledger.stated("hidden")
    if image:
        if stated is not None:
            raise UserError(
                "--hidden shapes networks of vectors; images use the convolutional one.", ["leave out --hidden"]
            )
        ledger.settle("hidden", "conv 32-64-64, 512", "units", "images: the network of Mnih et al., 2015", "default")
        return
    if stated is None:
        ledger.settle("hidden", hidden, "units", f"default: {why}", "default")
    else:
        ledger.adopt("hidden", ",".join(str(units) for units in stated), "units")
    ledger.wish("activation", activation, "the usual choice for small policies", unit="")


def _refuse_ppo_only(ledger: Ledger, names: tuple[str, ...]) -> None:
    for name in names:
        if ledger.stated(name) is not None:
            raise UserError(
                f"{ledger.place(name)} is a number of ppo; {ledger.config.algo} does not clip.",
                ["--algo ppo", f"leave out --{name.replace('_', '-')}"],
            )


def settle_running(ledger: Ledger, checkpoint_steps: int = CHECKPOINT_STEPS) -> None:
    """Evaluation and checkpoints, in iterations of this plan."""
    iterations = ledger.quantities["iterations"].value
    per_iteration = ledger.quantities.get("rollout_transitions", ledger.quantities.get("steps_per_iteration"))
    known = isinstance(iterations, int)
    every = max(1, -(-int(iterations or 1) // EVALUATIONS_PER_RUN)) if known else 10
    ledger.wish("eval_every", every, f"{EVALUATIONS_PER_RUN} evaluations in the run")
    ledger.wish("eval_episodes", 10, "5-10 are enough to see a trend")
    if ledger.stated("eval_threshold") is not None:
        ledger.adopt("eval_threshold", ledger.stated("eval_threshold"), "return")
    steps = per_iteration.value if per_iteration is not None and isinstance(per_iteration.value, int) else None
    checkpoint = max(1, checkpoint_steps // steps) if steps else 50
    ledger.wish("checkpoint_every", checkpoint, f"about every {checkpoint_steps:,} transitions")
    if ledger.stated("stop_return") is not None:
        ledger.adopt("stop_return", ledger.stated("stop_return"), "return")
    ledger.wish("doctor", "say", "says what is wrong while it can still be mended", unit="")
    ledger.wish("seed", 0, "any number; state it to repeat a run", unit="")
    ledger.wish("engine", "auto", "measured when training starts", unit="")
    if ledger.stated("num_threads") is not None:
        ledger.adopt("num_threads", ledger.stated("num_threads"), "threads")
