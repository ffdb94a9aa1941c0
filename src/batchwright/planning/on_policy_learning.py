"""Settings of an on-policy run beside its batches: loss, normalisers, optimiser, network, evaluation, checkpoints."""

from __future__ import annotations

from batchwright.core.errors import UserError
from batchwright.planning.component_plan import settle_components
from batchwright.planning.entropy_plan import settle_entropy
from batchwright.planning.ledger import Ledger
from batchwright.planning.network_plan import settle_network
from batchwright.planning.plan import TaskFacts

EVALUATIONS_PER_RUN = 10
CHECKPOINT_STEPS = 250_000
EVAL_MAX_STEPS = 27_000
STEP_TIMEOUT_SECONDS = 120.0


def settle_objective(ledger: Ledger, task: TaskFacts, gae_lambda: float, why_lambda: str) -> None:
    """Settings of the loss, the normalisers and the optimiser."""
    schedule = ledger.setting("learning_rate_schedule", "constant", "schedules are set by presets", unit="")
    ledger.setting("warmup_updates", 0, "small networks need none")
    ledger.setting("gae_lambda", gae_lambda, why_lambda, unit="")
    if ledger.config.algo == "ppo":
        ledger.setting("clip_range", 0.2, "Schulman et al., 2017", unit="")
        ledger.setting("clip_schedule", "constant", "schedules are set by presets", unit="")
    else:
        _refuse_ppo_only(ledger, ("clip_range", "clip_schedule"))
    ledger.setting("entropy_anneal", 0.8, "from start to end over the last 80% of the run", unit="share")
    settle_entropy(ledger, task)
    ledger.setting("value_weight", 0.5, "the common weight", unit="")
    ledger.setting("value_rate_factor", 1.0, "one learning rate for actor and critic", unit="")
    ledger.setting("value_clip", 0.0, "off: it rarely helps (Andrychowicz et al., 2021)", unit="return std")
    ledger.setting("advantage_norm", "rollout", "one scale for all minibatches of a rollout", unit="")
    ledger.setting("baseline", True, "less variance, no bias", unit="")
    _settle_normalisers(ledger, task)
    popart = ledger.setting("popart", False, "reward normalisation is enough for one task", unit="")
    if popart and ledger.quantities["normalize_rewards"].value:
        if ledger.resolved.origin("normalize_rewards") is not None:
            raise UserError(
                "--popart and --normalize-rewards both set the scale of returns; use one of them.",
                ["--popart --no-normalize-rewards", "--normalize-rewards"],
            )
        ledger.settle("normalize_rewards", False, "", "off: PopArt sets the scale")
    ledger.setting("kl_stop", 0.0, "off", unit="nats")
    if schedule == "kl-adaptive":
        _refuse_single_update(ledger)
        ledger.setting("kl_target", 0.01, "the common target of KL-adaptive learning rates", unit="nats")
    elif ledger.stated("kl_target") is not None:
        raise UserError(
            f"{ledger.place('kl_target')} is the target of the kl-adaptive schedule.",
            ["--learning-rate-schedule kl-adaptive", f"--kl-stop {ledger.stated('kl_target')}"],
        )
    ledger.setting("weight_decay", 0.0, "off", unit="")
    ledger.setting("adam_beta2", 0.999, "Adam's default", unit="")
    ledger.setting("adam_eps", 1e-5, "the common value for policy gradients", unit="")
    settle_network(ledger, task, "64,64", "enough for vectors of this size, quick on a CPU", "tanh")
    ledger.setting("log_std_start", 0.0, "a first standard deviation of half the range", unit="")
    settle_components(ledger, task)


def _settle_normalisers(ledger: Ledger, task: TaskFacts) -> None:
    """Observations and rewards on one scale, where the environment is known.

    With discrete actions PPO alone: observations that are normalised anew after every 256 transitions kept A2C from
    learning (CartPole after 100,000 steps: 130 instead of 450; docs/log.md). Bytes as they are kept all from learning:
    the first update makes the policy deterministic.
    """
    continuous = task.discrete is False
    scales = continuous or (ledger.config.algo == "ppo" and task.discrete is not None)
    real = continuous or (scales and bool(task.real_observations)) or bool(task.wide_observations)
    why_obs, why_rewards = "off: only images, bits or choices", "on: one learning rate suits returns of any size"
    if ledger.stated("memory") is not None:
        real, why_obs = True, "on with memory: small numbers do not move its gates"
    elif real:
        why_obs = "on for numbers: their scales differ by dimension"
    if not scales:
        why_rewards = "off: no environment is named"
        if task.discrete:
            why_rewards = f"off: {ledger.config.algo} learns discrete actions better without"
        why_obs = why_obs if real else why_rewards
    ledger.setting("normalize_obs", real, why_obs, unit="")
    ledger.setting("normalize_rewards", scales, why_rewards, unit="")


def _refuse_single_update(ledger: Ledger) -> None:
    updates = ledger.quantities.get("updates_per_iteration")
    if updates is not None and updates.value == 1:
        raise UserError(
            "--learning-rate-schedule kl-adaptive needs a KL to follow; before the only update of a rollout it is 0.",
            ["--epochs 2", "--minibatches 2", "--learning-rate-schedule linear"],
        )


def _refuse_ppo_only(ledger: Ledger, names: tuple[str, ...]) -> None:
    for name in names:
        if ledger.stated(name) is not None:
            raise UserError(
                f"{ledger.place(name)} is a setting of ppo; {ledger.config.algo} does not clip.",
                ["--algo ppo", f"leave out --{name.replace('_', '-')}"],
            )


def settle_running(ledger: Ledger, task: TaskFacts, checkpoint_steps: int = CHECKPOINT_STEPS) -> None:
    """Evaluation and checkpoints, in iterations of this plan."""
    iterations = ledger.quantities["iterations"].value
    per_iteration = ledger.quantities.get("rollout_transitions", ledger.quantities.get("steps_per_iteration"))
    known = isinstance(iterations, int)
    every = max(1, -(-int(iterations or 1) // EVALUATIONS_PER_RUN)) if known else 10
    ledger.setting("eval_every", every, f"{EVALUATIONS_PER_RUN} evaluations in the run")
    ledger.setting("eval_episodes", 10, "5-10 are enough to see a trend")
    longest, why = EVAL_MAX_STEPS, "the longest Atari episode: 108,000 frames / 4 (Machado et al., 2018)"
    if task.episode_steps is not None and task.episode_steps > EVAL_MAX_STEPS:
        longest, why = task.episode_steps, "the time limit of the environment"
    ledger.setting("eval_max_steps", longest, why)
    if ledger.stated("eval_threshold") is not None:
        ledger.adopt("eval_threshold", ledger.stated("eval_threshold"), "return")
    steps = per_iteration.value if per_iteration is not None and isinstance(per_iteration.value, int) else None
    checkpoint = max(1, checkpoint_steps // steps) if steps else 50
    ledger.setting("checkpoint_every", checkpoint, f"about every {checkpoint_steps:,} transitions")
    if ledger.stated("stop_return") is not None:
        ledger.adopt("stop_return", ledger.stated("stop_return"), "return")
    ledger.setting("doctor", "say", "reports what is wrong while it can still be fixed", unit="")
    ledger.setting("seed", 0, "any number; the same one repeats a run", unit="")
    if ledger.stated("log_info") is not None:
        ledger.adopt("log_info", ",".join(ledger.stated("log_info")), "")
    if ledger.stated("init_from") is not None:
        ledger.adopt("init_from", ledger.stated("init_from"), "")
    ledger.setting("engine", "auto", "measured when training starts", unit="")
    ledger.setting("step_timeout", STEP_TIMEOUT_SECONDS, "a step that takes longer is taken for one that hangs")
    if ledger.stated("num_threads") is not None:
        ledger.adopt("num_threads", ledger.stated("num_threads"), "threads")
