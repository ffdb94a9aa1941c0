"""Small runs on recorded data, prepared here and trained by `inside_runs.py`; what each of them is for."""

from pathlib import Path
from typing import Any

from batchwright.config.load import resolve
from batchwright.core.machine import probe_machine
from batchwright.lerobot.lerobot_plan import make_request, plan_lerobot
from batchwright.lerobot.lerobot_python import LeRobotPython
from batchwright.lerobot.lerobot_run import prepare_run

SMALL_ACT = (
    "--policy.dim_model=32 --policy.n_heads=2 --policy.dim_feedforward=64 --policy.n_encoder_layers=1 "
    "--policy.n_vae_encoder_layers=1 --policy.chunk_size=4 --policy.n_action_steps=4 "
    "--policy.pretrained_backbone_weights=null --policy.device=cpu"
)
CALM = " --policy.dropout=0.0 --policy.use_vae=false"
SMALL_SMOLVLA = (
    "--policy.chunk_size=4 --policy.n_action_steps=4 --policy.resize_imgs_with_padding=[64,64] "
    "--policy.num_vlm_layers=2 --policy.num_expert_layers=2 --policy.device=cpu"
)
SETTINGS = {
    "samples_per_update": 6,
    "samples_per_step": 4,
    "workers": 0,
    "total_updates": 6,
    "updates_per_iteration": 2,
    "checkpoint_every": 2,
    "learning_rate": 1e-3,
}
TWO = {"processes": 2, "samples_per_step": 2}

# Name -> (policy, datasets, settings that differ, words for LeRobot, how it is trained).
RUNS: dict[str, tuple[str, list[str], dict[str, Any], str, dict[str, Any]]] = {
    "whole": ("act", ["images"], {}, SMALL_ACT, {}),
    "killed": ("act", ["images"], {}, SMALL_ACT, {"kill_at": "000004"}),
    "stopped": ("act", ["video"], {"total_updates": 2000, "workers": 1}, SMALL_ACT, {"interrupt": True}),
    "learns": ("act", ["images", "more"], {"total_updates": 40, "checkpoint_every": 20}, SMALL_ACT, {}),
    "grows": (
        "smolvla",
        ["images"],
        {"grow": True, "samples_per_step": 2, "total_updates": 42, "checkpoint_every": 21},
        SMALL_SMOLVLA,
        {},
    ),
    "vla-video": (
        "smolvla",
        ["video"],
        {"total_updates": 4, "gradient_checkpointing": True, "precision": "bf16"},
        SMALL_SMOLVLA,
        {},
    ),
    "calm": ("act", ["images"], {}, SMALL_ACT + CALM, {}),
    # Micro-batches of 4 and 3 samples are too many, 2 fit.
    "short": ("act", ["images"], {}, SMALL_ACT + CALM, {"shortage": ["forward", 0, 2]}),
    "short-step": ("act", ["images"], {}, SMALL_ACT + CALM, {"shortage": ["optimiser step", 4, 2]}),
    "two": ("act", ["images"], TWO, SMALL_ACT + CALM, {"processes": 2, "shortage": ["backward", 3, 1]}),
}


def prepare(name: str, run: Path, data: dict[str, Path], vlm: Path, python: LeRobotPython) -> Path:
    """A run directory with its plan; memory is not traced, which takes longer than the run."""
    policy, datasets, changes, words, _ = RUNS[name]
    weights = [2.0, 1.0] if len(datasets) > 1 else []
    folders = [str(data[kind]) for kind in datasets]
    request = make_request(
        folders, weights, vlm=str(vlm) if policy == "smolvla" else None, extra=words.split(), offline=True
    )
    resolved = resolve({"policy": policy, "dataset": ", ".join(folders), **SETTINGS, **changes})
    plan = plan_lerobot(resolved, probe_machine(), request, None)
    return prepare_run(resolved, plan, request, python, run)
