"""Writes a trained policy as one file that runs without Batchwright: ONNX, or NumPy arrays with a small loader."""

from __future__ import annotations

import io
import json
from importlib import resources
from pathlib import Path

import numpy as np

from batchwright.core.errors import UserError, unknown
from batchwright.core.files import write_atomically
from batchwright.core.safe_open import checked_path, explain_refusal
from batchwright.envs.engines import CompiledEngine, HostEngine, evaluation_engine, make_engine
from batchwright.envs.reward_components import NO_COMPONENTS
from batchwright.policies.onnx_policy import to_onnx
from batchwright.policies.policy_program import PolicyProgram, make_program
from batchwright.policies.trained_policy import TrainedPolicy
from batchwright.runs.run_settings import RunSettings

FORMATS = {"onnx": ".onnx", "numpy": ".npz"}
LOADER = "numpy_policy.py"


def export_policy(trained: TrainedPolicy, form: str, out: str | Path) -> list[Path]:
    """Writes the policy, exploration off; returns the files. An existing file is replaced only by one of its kind."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS, "--to")
    path = checked_path(out)
    if path.suffix != FORMATS[form]:
        raise UserError(f"--to {form} writes {FORMATS[form]} files, not {path.name}.", [f"--out policy{FORMATS[form]}"])
    program = make_program(trained, masks_actions(trained))
    about = {"env": trained.env, "algo": trained.plan.algo, "iteration": str(trained.iteration)}
    files = {path: to_onnx(program, about) if form == "onnx" else to_npz(program)}
    if form == "numpy":
        loader = resources.files("batchwright.policies").joinpath(LOADER).read_bytes()
        files[path.with_name(LOADER)] = loader
    with explain_refusal(path, "write", "--out FILE in another folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            write_atomically(file, content)
    return list(files)


def masks_actions(trained: TrainedPolicy) -> bool:
    """Whether the environment says which actions are possible; asks one that is started for it."""
    name = evaluation_engine(trained.plan["engine"])
    groups = RunSettings.from_plan(trained.plan).agent_groups
    engine = make_engine(trained.env, 1, name, components=NO_COMPONENTS, agent_groups=groups)
    try:
        if isinstance(engine, HostEngine):
            engine.start(0)
            return engine.mask is not None if trained.group is None else _masks_group(engine, trained.group)
        assert isinstance(engine, CompiledEngine)
        return engine.mask_of(engine.start(0)[0]) is not None
    finally:
        engine.close()


def _masks_group(engine: HostEngine, name: str) -> bool:
    """Whether agents of a group are given masks; rows of several groups always have one."""
    assert engine.layout is not None
    group = next(group for group in engine.layout.groups if group.name == name)
    return any(engine.masked[row] for row, agent in enumerate(engine.agents) if agent in group.agents)


def to_npz(program: PolicyProgram) -> bytes:
    """The arrays of a program and its steps as plain arrays."""
    content = io.BytesIO()
    text = np.array(json.dumps(program.to_json()))
    np.savez(content, program=text, **program.arrays)  # type: ignore[arg-type]
    return content.getvalue()
