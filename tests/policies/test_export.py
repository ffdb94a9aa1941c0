"""Exported policies give our policy's actions, for every kind of head and observation, in NumPy and in ONNX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import batchwright
from batchwright.api import export
from batchwright.core.errors import UserError
from batchwright.envs import spaces
from batchwright.envs.masks import mask_size
from batchwright.policies.export import export_policy, masks_actions
from batchwright.policies.numpy_policy import Policy as NumpyPolicy
from batchwright.policies.trained_policy import TrainedPolicy
from run_batchwright import refusal, run
from small_runs import SMALL, start

SPACES = str(Path(__file__).with_name("spaced_envs.py"))
SHORT = {"total_steps": 64, "preset": "none"}
REPLAY = {"rollout_steps": 8, "updates_per_iteration": 1, "transitions_per_update": 8, "warmup_steps": 8}
REPLAY |= {"minibatches": None, "epochs": None, "total_steps": 64, "preset": "none"}
CASES: dict[str, dict[str, Any]] = {
    "choice, normalised": {**SHORT, "normalize_obs": True, "hidden": "8,8", "activation": "elu"},
    "box": {**SHORT, "env": "Pendulum-v1", "activation": "relu"},
    "hybrid": {**SHORT, "env": "Moving-v0"},
    "masks": {**SHORT, "env": "Colony-v0"},
    "image": {**SHORT, "env": "IdentityImage-v0", "hidden": None},
    "every space": {**SHORT, "env": f"{SPACES}:Everything", "engine": "gymnasium-sync", "hidden": None},
    "sac": {**REPLAY, "env": "Pendulum-v1", "algo": "sac"},
    "td3": {**REPLAY, "env": "Pendulum-v1", "algo": "td3"},
    "dqn": {**REPLAY, "algo": "dqn"},
    "dqn on images": {**REPLAY, "env": "IdentityImage-v0", "algo": "dqn", "hidden": None},
}
OBSERVATIONS = 1000


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Trained policies by case, each made once; their parameters are shaken, so that actions differ."""
    found: dict[str, TrainedPolicy] = {}
    folder = tmp_path_factory.mktemp("exported")

    def get(case: str) -> TrainedPolicy:
        if case not in found:
            path = start(folder / case.replace(" ", "-"), **CASES[case]).run_dir
            policy = batchwright.load(path, trust=True)
            rng = np.random.default_rng(0)
            # Sums of thousands of pixels lose digits when they grow: images are shaken less.
            scale = 0.06 if policy.policy.inputs.images else 0.3
            policy.params = policy.params + scale * rng.standard_normal(policy.params.shape).astype(np.float32)
            found[case] = policy
        return found[case]

    return get


def observations(policy: TrainedPolicy, count: int) -> list[Any]:
    """Random observations of the space, as the environment would give them."""
    rng = np.random.default_rng(1)
    return [spaces.unflatten(policy.policy.inputs.spec, _leaves(policy, rng)) for _ in range(count)]


def _leaves(policy: TrainedPolicy, rng: np.random.Generator) -> list[Any]:
    drawn: list[Any] = []
    for _, leaf in spaces.leaves(policy.policy.inputs.spec):
        if isinstance(leaf, spaces.Discrete):
            drawn.append(leaf.start + int(rng.integers(leaf.n)))
        elif isinstance(leaf, spaces.MultiDiscrete):
            drawn.append(np.asarray(leaf.start or 0) + rng.integers(leaf.nvec))
        elif isinstance(leaf, spaces.MultiBinary):
            drawn.append(rng.integers(0, 2, leaf.n))
        elif leaf.dtype.kind == "f":
            drawn.append(3 * rng.standard_normal(leaf.shape).astype(np.float32))
        else:
            # Dark and bright ones, light from any side: noise alone would look the same to a network.
            light = rng.random() * rng.random((leaf.shape[0], *(1,) * (len(leaf.shape) - 1))) ** rng.integers(0, 4)
            drawn.append((light * rng.integers(0, 256, leaf.shape)).astype(leaf.dtype))
    return drawn


def masks(policy: TrainedPolicy, count: int) -> list[Any]:
    """Random rows of booleans that leave every choice a value; None where the environment has no masks."""
    if not masks_actions(policy):
        return [None] * count
    rng = np.random.default_rng(2)
    rows = rng.random((count, mask_size(policy.policy.heads.spec))) < 0.6
    for head in policy.policy.heads.heads:
        if head.kind != "box":
            rows[:, head.mask.start] = True
    return list(rows)


def ours(policy: TrainedPolicy, obs: list[Any], rows: list[Any]) -> list[Any]:
    """The actions of our own policy, all at once."""
    stored = [policy._stored(one) for one in obs]
    batch = jax.tree.map(lambda *parts: np.stack(parts), *stored)
    noise = policy.policy.heads.no_noise((len(obs),))
    mask = None if rows[0] is None else np.stack(rows)
    from batchwright.envs.engines.host_arrays import native_tree

    actions = native_tree(policy.policy.heads.spec, policy._act(policy.params, batch, noise, mask, None)[0])
    return [jax.tree.map(lambda part, at=at: part[at], actions) for at in range(len(obs))]


def assert_same(found: Any, wanted: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES)
def test_the_numpy_file_gives_our_actions(case: str, trained: Any, tmp_path: Path) -> None:
    policy = trained(case)
    count = 100 if "image" in case or "space" in case else OBSERVATIONS
    obs, rows = observations(policy, count), masks(policy, count)
    path, loader = export_policy(policy, "numpy", tmp_path / "policy.npz")
    assert loader.name == "numpy_policy.py"
    alone = NumpyPolicy(path)
    wanted = ours(policy, obs, rows)
    assert len({str(action) for action in wanted}) > 1, "all actions are equal: nothing is compared"
    for one, row, action in zip(obs, rows, wanted, strict=True):
        assert_same(alone(one, mask=row), action)


@pytest.mark.parametrize("case", CASES)
def test_the_onnx_file_gives_our_actions(case: str, trained: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    policy = trained(case)
    obs, rows = observations(policy, OBSERVATIONS), masks(policy, OBSERVATIONS)
    (path,) = export_policy(policy, "onnx", tmp_path / "policy.onnx")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    leaves = {"/".join(("obs", *map(str, path))): path for path, _ in spaces.leaves(policy.policy.inputs.spec)}
    dtypes = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int32)": np.int32}
    feed = {}
    for port in session.get_inputs():
        if port.name == "mask":
            feed["mask"] = np.stack(rows)
        else:
            values = [spaces.value_at(one, leaves[port.name]) for one in obs]
            feed[port.name] = np.stack([np.asarray(value, dtypes[port.type]) for value in values])
    found = dict(zip([port.name for port in session.get_outputs()], session.run(None, feed), strict=True))
    wanted = ours(policy, obs, rows)
    for path_of, _ in spaces.leaves(policy.policy.heads.spec):
        expected = np.stack([np.asarray(spaces.value_at(action, path_of)) for action in wanted])
        np.testing.assert_allclose(found["/".join(("action", *map(str, path_of)))], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_an_exported_memory_gives_our_actions_step_by_step(memory: str, tmp_path: Path) -> None:
    wishes = {**SHORT, "env": "Pendulum-v1", "memory": memory, "memory_size": 4, "hidden": "8,8"}
    policy = batchwright.load(start(tmp_path / "run", **wishes).run_dir)
    policy.params = policy.params + 0.3 * np.random.default_rng(0).standard_normal(policy.params.shape)
    alone = NumpyPolicy(export_policy(policy, "numpy", tmp_path / "policy.npz")[0])
    obs = observations(policy, 12)
    first = [policy(one) for one in obs]
    assert_same([alone(one) for one in obs], first)
    assert not np.allclose(policy(obs[0]), first[0]), "nothing is remembered: nothing is compared"
    policy.reset()
    alone.reset()
    assert_same([policy(obs[0]), alone(obs[0])], [first[0], first[0]])
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    (path,) = export_policy(policy, "onnx", tmp_path / "policy.onnx")
    session, state = runtime.InferenceSession(path, providers=["CPUExecutionProvider"]), np.zeros_like(alone.memory)
    for one, wanted in zip(obs, first, strict=True):
        feed = {"obs": np.asarray(one, np.float32)[None], "memory": state}
        action, state = session.run(["action", "memory_after"], feed)
        np.testing.assert_allclose(action[0], wanted, rtol=1e-5, atol=1e-5)


def test_the_loader_is_a_page_that_needs_numpy_alone(trained: Any, tmp_path: Path) -> None:
    policy = trained("box")
    _, loader = export_policy(policy, "numpy", tmp_path / "policy.npz")
    assert len(loader.read_text().splitlines()) <= 75
    program = (
        "import sys, numpy; from numpy_policy import Policy; print(Policy('policy.npz')(numpy.zeros(3)).shape);"
        "print([name for name in sys.modules if name.split('.')[0] in ('jax', 'gymnasium', 'batchwright')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, env={}
    )
    assert done.stdout.split("\n")[:2] == ["(1,)", "[]"]


def test_the_command_writes_beside_the_run_and_refuses_other_names(tmp_path: Path) -> None:
    path = start(tmp_path / "run", **SMALL | SHORT).run_dir
    done = run("export", str(path), "--to", "numpy", "--checkpoint", "best")
    assert done.code == 0
    assert done.out.split() == [str(path / "policy.npz"), str(path / "numpy_policy.py")]
    assert "writes .npz files" in refusal(f"export {path} --to numpy --out {tmp_path / 'a.onnx'}").err
    assert "--to onnx" in refusal(f"export {path} --to torch").err


def test_a_network_of_the_users_own_is_refused(tmp_path: Path) -> None:
    from batchwright.nets.networks import mlp

    def network(inputs: Any, raw: int, values: int) -> Any:
        return mlp(inputs.vector_size, raw, values, (8,))

    path = start(tmp_path / "run", network=network, **SMALL | SHORT | {"hidden": None}).run_dir
    with pytest.raises(UserError, match="a network of your own"):
        export(path, "numpy")
