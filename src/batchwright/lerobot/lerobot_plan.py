"""The plan of training a policy of LeRobot: datasets checked, memory traced at their shapes, the loader probed."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchwright.config.load import Resolved
from batchwright.core.errors import UserError
from batchwright.core.machine import Machine, with_overrides
from batchwright.lerobot.lerobot_dataset import INFO, DatasetFacts, check_together, find_dataset
from batchwright.lerobot.lerobot_python import LeRobotPython, call
from batchwright.lerobot.lerobot_versions import REPLACED_FLAGS, find_version
from batchwright.lerobot.trace_cache import TraceCache, cache_folder
from batchwright.planning.dataset_plan import MODES, DatasetTask, plan_dataset
from batchwright.planning.memory import PolicyMemory
from batchwright.planning.plan import Plan
from batchwright.planning.traced_memory import WORKSPACE_BYTES

PLUGINS = "discover_packages_path"


@dataclass(frozen=True)
class LeRobotRequest:
    """What the command line says beside the settings of the plan."""

    datasets: tuple[DatasetFacts, ...]
    weights: tuple[float, ...] = ()
    policy_path: str | None = None
    """A trained policy to start from: a folder, or a name on the hub."""
    vlm: str | None = None
    """The folder of the vision-language model of SmolVLA; the published one where not stated."""
    extra: tuple[str, ...] = ()
    """Further words for LeRobot."""
    offline: bool = False


def make_request(
    names: Sequence[str],
    weights: Sequence[float] = (),
    policy_path: str | None = None,
    vlm: str | None = None,
    extra: Sequence[str] = (),
    offline: bool = False,
) -> LeRobotRequest:
    """Finds the datasets and checks that they fit together; refuses words that the plan decides."""
    refuse_replaced(extra)
    refuse_plugins(extra)
    datasets = tuple(find_dataset(name, offline) for name in names)
    if len(datasets) > 1:
        unknown = [found.name for found in datasets if found.root is None]
        if unknown:
            raise UserError(
                f"{unknown[0]} is on the hub: several datasets are merged from folders.",
                [f"huggingface-cli download {unknown[0]} --repo-type dataset --local-dir DIR"],
            )
        check_together(datasets)
    if weights and len(weights) != len(datasets):
        raise UserError(
            f"{len(weights)} weights for {len(datasets)} datasets.", [f"--weights {' '.join(['1'] * len(datasets))}"]
        )
    if weights and not (min(weights) >= 0 and sum(weights) > 0):
        raise UserError("weights of datasets are numbers from 0 up, and not all 0.", ["--weights 2 1"])
    if weights and any(word.startswith("--dataset.episodes") for word in extra):
        raise UserError("--weights draw from whole datasets, not from some of their episodes.", ["no --weights"])
    return LeRobotRequest(datasets, tuple(weights), policy_path, vlm, tuple(extra), offline)


def refuse_replaced(words: Sequence[str]) -> None:
    """Refuses flags of LeRobot, or of texts about it, whose number the plan decides; names what to state instead."""
    for word in words:
        name = word.split("=")[0]
        if name in REPLACED_FLAGS:
            raise UserError(f"{name} is decided by the plan.", [REPLACED_FLAGS[name]])
        if not word.startswith("--"):
            raise UserError(f"{word!r} is no word of LeRobot's command line.", ["-- --policy.chunk_size=50"])


def refuse_plugins(words: Sequence[str]) -> None:
    """Refuses words that make LeRobot import a package: a run directory must not name code."""
    for word in words:
        if PLUGINS in word:
            raise UserError(f"{word.split('=')[0]} would import code of a package.", ["leave it out"])


def policy_words(policy: str, request: LeRobotRequest) -> list[str]:
    """The words of LeRobot's command line that describe the policy."""
    words = [f"--policy.path={request.policy_path}"] if request.policy_path else [f"--policy.type={policy}"]
    words += [f"--policy.vlm_model_name={request.vlm}", "--policy.load_vlm_weights=true"] if request.vlm else []
    # It is on by default, and without a repository name nothing starts.
    return [*words, "--policy.push_to_hub=false", *request.extra]


def plan_lerobot(
    resolved: Resolved,
    machine: Machine,
    request: LeRobotRequest,
    python: LeRobotPython | None,
    workers: int | None = None,
) -> Plan:
    """The plan with memory traced in LeRobot's interpreter; without one, with figures that were traced before."""
    hardware = resolved.config.hardware
    machine = with_overrides(machine, hardware.cores, hardware.ram_gb, hardware.gpu_memory_gb)
    version = find_version(python.version) if python else None
    first = request.datasets[0] if request.datasets else None
    known = first is not None and bool(first.cameras)
    task = DatasetTask(
        memory=trace(resolved, machine, request, python) if python else None,
        frames=sum(found.frames for found in request.datasets) or None,
        cameras=len(first.cameras) if known and first else None,
        image_size=max(max(size) for size in first.cameras.values()) if known and first else None,
        frame_bytes=first.frame_bytes if known and first else None,
        datasets=len(request.datasets) or None,
        prefetch_factor=version.prefetch_factor if version else 2,
        workers=workers,
    )
    return plan_dataset(resolved, machine, task)


def trace(
    resolved: Resolved, machine: Machine, request: LeRobotRequest, python: LeRobotPython
) -> dict[tuple[str, bool], PolicyMemory]:
    """Traced memory by precision and checkpointing, at the shapes of the first dataset."""
    stated = resolved.config.dataset
    features = request.datasets[0].features if request.datasets and request.datasets[0].features else None
    policy = resolved.config.algo
    question = {
        "words": ["--dataset.repo_id=local/data", "--policy.device=cpu", *policy_words(policy, request)],
        "features": features,
        "cameras": stated.cameras or 3,
        "image_size": stated.image_size or 224,
        "cases": [list(mode) for mode in MODES],
        "foreach": bool(machine.gpus),
        # Without data, the usual case: SmolVLA from published weights, whose language model is kept in bf16.
        "scratch_vlm": bool(request.datasets),
    }
    cache = TraceCache(question, (request.policy_path, request.vlm), python)
    answer = cache.read()
    if answer is None:
        answer = call(python, "trace", question, request.offline)
        cache.write(answer)
    return {
        (case["precision"], case["gradient_checkpointing"]): _policy_memory(case, bool(machine.gpus))
        for case in answer["traced"]
    }


def _policy_memory(case: dict[str, Any], gpu: bool) -> PolicyMemory:
    workspace = WORKSPACE_BYTES if gpu else 0.0
    parameters = f"{case['parameters'] / 1e6:.1f} M weights, {case['trainable'] / 1e6:.1f} M trained"
    guess = " + 1.0 GiB workspace (a guess)" if gpu else ""
    return PolicyMemory(
        fixed_bytes=case["fixed_bytes"] + workspace,
        sample_bytes=case["sample_bytes"],
        fixed_reason=f"traced: {parameters}, gradients, two Adam moments{guess}",
        sample_reason="traced at the shapes of the data",
        floor_bytes=case["floor_bytes"] + workspace,
        input_bytes=case["input_bytes"],
        small_batches=tuple((fixed + workspace, sample) for fixed, sample in case["small_batches"]),
    )


def merged_folder(datasets: Sequence[DatasetFacts]) -> Path:
    """Where the merge of some datasets lies: keyed by their digests, so that a change makes another."""
    key = hashlib.sha256("".join(found.digest() for found in datasets).encode()).hexdigest()[:24]
    return cache_folder() / f"merged-{key}"


def data_folder(request: LeRobotRequest, python: LeRobotPython) -> tuple[str, Path | None]:
    """(repository name, folder) of what LeRobot trains on; several datasets are merged once."""
    if len(request.datasets) == 1:
        return request.datasets[0].repo_id, request.datasets[0].root
    target = merged_folder(request.datasets)
    repo_id = f"local/{target.name}"
    if (target / INFO).is_file():
        return repo_id, target
    question = {
        "target": str(target),
        "repo_id": repo_id,
        "repo_ids": [found.repo_id for found in request.datasets],
        "roots": [str(found.root) for found in request.datasets],
    }
    return repo_id, Path(call(python, "merge", question, request.offline)["root"])


def groups_of(request: LeRobotRequest) -> list[tuple[int, int]]:
    """The frames of each dataset in the merged one: (first, end)."""
    groups, first = [], 0
    for found in request.datasets:
        groups.append((first, first + found.frames))
        first += found.frames
    return groups
