"""A plan as a command line of LeRobot, with notes on what its trainer cannot do."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from batchwright.core.errors import UserError
from batchwright.planning.plan import Plan

TRAIN_SCRIPT = "$(which lerobot-train)"


def command(plan: Plan) -> list[str]:
    """The words of the command; Accelerate sets the precision, LeRobot the rest."""
    if plan.regime != "dataset":
        raise UserError(f"LeRobot trains on recorded data; {plan.algo} does not.", ["--policy act", "--policy smolvla"])
    launcher = [
        "accelerate",
        "launch",
        f"--mixed_precision={'bf16' if plan['precision'] == 'bf16' else 'no'}",
        TRAIN_SCRIPT,
    ]
    # Pushing is on by default, and without a repository name nothing starts.
    policy = [f"--policy.type={plan.algo}", "--policy.push_to_hub=false"]
    return [*launcher, *_words(plan, [f"--dataset.repo_id={plan.task.name or 'USER/DATASET'}"], policy)]


def _words(plan: Plan, dataset: list[str], policy: list[str]) -> list[str]:
    words = [
        *dataset,
        policy[0],
        f"--batch_size={plan['samples_per_step']}",
        f"--num_workers={plan['workers']}",
        f"--steps={plan['total_updates'] * plan['accumulation']}",
        *policy[1:],
    ]
    if plan.get("learning_rate") is not None:
        words.append(f"--policy.optimizer_lr={plan['learning_rate']}")
    return words


def plain_line(plan: Plan, datasets: list[str], policy: list[str]) -> str:
    """The command without us, for datasets in folders or on the hub; what it cannot carry as comments above it."""
    name = datasets[0] if datasets else "USER/DATASET"
    folder = Path(name)
    found = [f"--dataset.repo_id=local/{folder.name}", f"--dataset.root={name}"] if folder.is_dir() else []
    words = _words(plan, found or [f"--dataset.repo_id={name}"], policy)
    launcher = ["accelerate", "launch", f"--mixed_precision={'bf16' if plan['precision'] == 'bf16' else 'no'}"]
    launcher += [f"--num_processes={plan['processes']}"] if plan.get("processes", 1) > 1 else []
    line = " ".join([*launcher, TRAIN_SCRIPT, *(shlex.quote(word) for word in words)])
    return "\n".join([*(f"# note: {text}" for text in limits(plan)), line])


def limits(plan: Plan) -> list[str]:
    """Parts of the plan that `lerobot-train` 0.4 cannot carry out."""
    notes = []
    if plan["accumulation"] > 1:
        notes.append(
            f"lerobot-train does not accumulate gradients: it would update on {plan['samples_per_step']} samples, "
            f"not on {plan['samples_per_update']}; --steps counts micro-batches here. batchwright lerobot train does."
        )
    if plan["gradient_checkpointing"]:
        notes.append(f"lerobot-train has no gradient checkpointing for {plan.algo}.")
    if plan["datasets"] > 1:
        notes.append("lerobot-train 0.4 refuses several datasets in one run: merge them first.")
    if plan.get("max_grad_norm") is not None:
        notes.append(f"lerobot-train takes its clipping from the policy's preset, not {plan['max_grad_norm']}.")
    return notes


def text(plan: Plan) -> str:
    """The command, with its limits as comments above it."""
    words = [word if word == TRAIN_SCRIPT else shlex.quote(word) for word in command(plan)]
    first, rest = " ".join(words[:4]), words[4:]
    return "\n".join([*(f"# note: {line}" for line in limits(plan)), " \\\n  ".join([first, *rest])])


def to_dict(plan: Plan) -> dict[str, Any]:
    return {"trainer": "lerobot", "command": command(plan), "limits": limits(plan)}
