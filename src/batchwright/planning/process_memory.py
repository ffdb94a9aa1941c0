"""RAM of a whole run before it starts: interpreter and libraries, environments, rollout or buffer, updates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from batchwright.config.schema import REPLAY
from batchwright.core.errors import UserError
from batchwright.core.machine import Machine
from batchwright.planning.ledger import Ledger
from batchwright.planning.memory import DTYPE_BYTES, GOOD_SHARE, MIB, show_bytes
from batchwright.planning.memory_plan import memory_numbers, seq_length_of
from batchwright.planning.network_plan import CONV_FEATURES, conv_layers_for, image_size, parse_hidden
from batchwright.planning.plan import TaskFacts
from batchwright.planning.quantity import counted

PROCESS_BYTES = {"sac": 430 * MIB, "td3": 430 * MIB, "dqn": 290 * MIB, "a2c": 440 * MIB, "reinforce": 430 * MIB}
ON_POLICY_BYTES = 520 * MIB
"""Peak of the smallest runs on a CPU: Python, JAX, and compiling their programs (benchmarks/forecasts.py).

It is not the same twice: one run of PPO reached 582 to 650 MiB on two cores, 711 when it had one alone.
"""
ENGINE_BYTES = {"jax": 120 * MIB, "envpool": 140 * MIB, "auto": 140 * MIB}
"""What an engine adds: a compiled rollout, or the library; EnvPool's where the engine is not chosen yet."""
WORKER_BYTES = 90 * MIB
"""A guess: one process that steps environments, with Python, NumPy and Gymnasium."""
REPLAY_ENVPOOL_BYTES = 70 * MIB
"""More, where a replay algorithm drives EnvPool."""
ENV_BYTES, IMAGE_ENV_BYTES = MIB // 64, 3 * MIB // 2
"""One environment that returns numbers, or images (benchmarks/forecasts.py)."""
WORLD_BYTES = {"mujoco": 9 * MIB // 10, "box2d": 9 * MIB // 50}
"""The world of one environment in a simulator."""
MUJOCO_BYTES = 30 * MIB
"""What MuJoCo's library adds."""
PIECE_ROWS, PIECE_IMAGES = 2048, 32
"""Rows whose gradient is computed at once (on_policy_update.py)."""
ROW_BYTES = 6 * 4 + 3
"""Beside observation and action: reward, log-prob, advantage, target, value, weight in float32; three flags."""
UPDATE_ROW_BYTES = 110
"""Of a row while the rollout is updated on, beside its activations; measured with 32,000 to 262,000 rows."""
ACTOR_AND_CRITIC, REPLAY_NETWORKS = 2, 5
"""Networks side by side: actor and critic; actor, twin critics and their targets."""
GRADIENT_COPIES = 3
"""Of the activations of a piece: forward, backward, and products on their way."""


@dataclass(frozen=True)
class NetworkBytes:
    """Bytes of activations: of a row in one pass over many, and of a row whose gradient is taken."""

    forward: int
    gradient: int
    params: int


@dataclass(frozen=True)
class OnPolicySize:
    """What the memory of an on-policy run depends on."""

    num_envs: int
    rollout: int
    """Transitions."""
    minibatch: int
    epochs: int
    obs_bytes: int
    input_bytes: int
    """Of an observation as the network takes it."""
    action_bytes: int
    is_image: bool
    network: NetworkBytes

    @property
    def rollout_bytes(self) -> int:
        return self.rollout * self.row_bytes + self.num_envs * self.obs_bytes

    @property
    def row_bytes(self) -> int:
        return self.obs_bytes + self.action_bytes + ROW_BYTES

    @property
    def update_bytes(self) -> int:
        """Copies of the rollout, activations of the pass over all of it, and of one gradient."""
        copies = (1 if self.input_bytes == self.obs_bytes and not self.is_image else 2) * self.rollout
        rows = (UPDATE_ROW_BYTES + 2 * 4 * self.epochs) * self.rollout  # the order: on the host and in the program
        at_once = self.num_envs if self.is_image else self.rollout
        piece = min(self.minibatch, PIECE_IMAGES if self.is_image else PIECE_ROWS)
        activations = max(at_once * self.network.forward, piece * self.network.gradient)
        optimiser = 6 * 4 * self.network.params  # weights, gradient, two moments, and new ones beside the old
        return copies * (self.row_bytes - self.obs_bytes + self.input_bytes) + rows + activations + optimiser


def vector_network(inputs: int, hidden: tuple[int, ...], networks: int) -> NetworkBytes:
    """`networks` of hidden layers side by side, as actor and critic are; in one pass two neighbouring layers live."""
    widest = max((sum(pair) for pair in pairwise((*hidden, 0))), default=0)
    params = networks * sum(a * b + b for a, b in pairwise((inputs, *hidden)))
    return NetworkBytes(4 * networks * widest, GRADIENT_COPIES * 4 * networks * (inputs + sum(hidden)), params)


def image_network(height: int, width: int, channels: int) -> NetworkBytes:
    """The convolutions as products of patches: the patches of a layer are copied once while they are cut."""
    largest, total, params = 4 * height * width * channels, 4 * height * width * channels, 0
    for filters, side, stride in conv_layers_for(height, width) or ():
        height, width = (height - side) // stride + 1, (width - side) // stride + 1
        patch = 4 * height * width * side * side * channels
        largest, total = max(largest, 2 * patch), total + 2 * patch + 4 * height * width * filters
        params += side * side * channels * filters
        channels = filters
    params += height * width * channels * CONV_FEATURES
    return NetworkBytes(largest, GRADIENT_COPIES * total, params)


def settle_on_policy_memory(ledger: Ledger, task: TaskFacts, machine: Machine) -> None:
    """Bytes of an on-policy run and its total; refused where it cannot fit, with what fits."""
    size = _on_policy_size(ledger, task)
    if size is None:
        return
    others, why = settle_process(ledger, task, machine)
    rows = counted(size.rollout, "transition")
    ledger.settle(
        "rollout_bytes", size.rollout_bytes, "bytes", f"{rows} x {size.row_bytes} B = {show_bytes(size.rollout_bytes)}"
    )
    ledger.settle(
        "update_bytes",
        size.update_bytes,
        "bytes",
        f"{show_bytes(size.update_bytes)}: minibatches of the rollout, activations, optimiser; an estimate",
    )
    held = size.rollout_bytes + size.update_bytes
    _refuse_too_large(
        ledger, machine, held, others, f"a rollout of {rows} and its update", lambda: _what_fits(ledger, size, machine)
    )
    settle_total(ledger, machine, held + others, f"{why} + {show_bytes(held)} rollout and update")


def settle_total(ledger: Ledger, machine: Machine, total: int, parts: str) -> None:
    """The peak of the run's processes, against the RAM there is."""
    share = f"{total / machine.ram_bytes:.0%} of {show_bytes(machine.ram_bytes)} RAM"
    ledger.settle("memory_bytes", total, "bytes", f"{parts} = {show_bytes(total)}, {share}; the forecast of the peak")


def settle_replay_total(ledger: Ledger, task: TaskFacts, machine: Machine, held: int, what: str) -> None:
    """The update of a replay run, and the peak in all; `held` is everything else. Too much of it is a warning."""
    rows = max(
        int(ledger.quantities[name].value or 0)
        for name in ("transitions_per_update", "rrd_timesteps_per_update")
        if name in ledger.quantities
    )
    network = _network(ledger, task, REPLAY_NETWORKS)
    entries = math.prod(task.obs_shape or (1,))
    update = rows * (network.gradient + 4 * 2 * entries) + 6 * 4 * network.params
    ledger.settle(
        "update_bytes",
        update,
        "bytes",
        f"{show_bytes(update)}: {counted(rows, 'row')} of activations, parameters, optimiser; an estimate",
    )
    settle_total(ledger, machine, held + update, f"{what} + {show_bytes(update)} update")
    ledger.check(
        "memory",
        held + update <= GOOD_SHARE * machine.ram_bytes,
        f"the run is forecast to hold {show_bytes(held + update)} at its peak, more than {GOOD_SHARE:.0%} of "
        f"{show_bytes(machine.ram_bytes)} RAM",
        "docs/planning/on-policy.md#memory",
    )


def settle_process(ledger: Ledger, task: TaskFacts, machine: Machine) -> tuple[int, str]:
    """Settles interpreter and libraries, environments and workers; returns their bytes and their names."""
    engine = str(ledger.stated("engine") or "auto")
    process = PROCESS_BYTES.get(ledger.config.algo, ON_POLICY_BYTES) + ENGINE_BYTES.get(engine, 0)
    process += MUJOCO_BYTES * (task.simulator == "mujoco")
    if ledger.config.regime == REPLAY and engine in ("envpool", "auto"):
        process += REPLAY_ENVPOOL_BYTES
    parts = f"{show_bytes(process)}: Python, JAX and its compiler, engine {engine}; measured on the smallest runs"
    count = ledger.quantities.get("processes")
    if count is not None:
        process *= int(count.value or 1)
        parts = f"{count.value} processes on one machine, each {parts}"
    ledger.settle("process_bytes", process, "bytes", parts)
    envs = int(ledger.quantities["num_envs"].value or 1)
    each = IMAGE_ENV_BYTES if _is_image(task) else WORLD_BYTES.get(task.simulator, ENV_BYTES)
    workers = {"gymnasium-async": envs, "gymnasium-split": min(envs, machine.cores) - 1}.get(engine, 0)
    total, why = envs * each, f"{counted(envs, 'env')} x {show_bytes(each)}"
    if engine == "jax":
        total, why = 0, "states of the jax engine are among the arrays of a rollout"
    if workers:
        total += workers * WORKER_BYTES
        why += f" + {counted(workers, 'worker process')} x {show_bytes(WORKER_BYTES)}"
    ledger.settle("env_bytes", total, "bytes", f"{why}; an estimate")
    return process + total, f"{show_bytes(process)} process + {show_bytes(total)} environments"


def _is_image(task: TaskFacts) -> bool:
    return task.obs_shape is not None and len(task.obs_shape) == 3 and task.obs_dtype == "uint8"


def _on_policy_size(ledger: Ledger, task: TaskFacts) -> OnPolicySize | None:
    """None where observations, or the length of a rollout of episodes, are unknown."""
    numbers = {name: ledger.quantities[name].value for name in ("num_envs", "rollout_transitions", "epochs")}
    if task.obs_shape is None or any(value is None for value in numbers.values()):
        return None
    envs, rollout, epochs = (int(value or 1) for value in numbers.values())
    entries = math.prod(task.obs_shape)
    obs = entries * DTYPE_BYTES[task.obs_dtype or "float32"]
    is_image = _is_image(task)
    return OnPolicySize(
        envs,
        rollout,
        int(ledger.quantities["minibatch_transitions"].value or rollout),
        epochs,
        obs,
        obs if is_image else 4 * entries,
        4 * (1 if task.discrete else task.action_size or 1),
        is_image,
        _network(ledger, task, ACTOR_AND_CRITIC),
    )


def _network(ledger: Ledger, task: TaskFacts, networks: int) -> NetworkBytes:
    """Activations by the planned layers; a network that the caller passes in counts as two layers of 64."""
    shape = task.obs_shape or (1,)
    if "memory" in ledger.quantities:
        return _recurrent_network(ledger, task)
    if _is_image(task):
        return image_network(*image_size(shape))
    hidden = parse_hidden(str(ledger.quantities["hidden"].value)) or (64, 64)
    return vector_network(math.prod(shape), hidden, networks)


def _recurrent_network(ledger: Ledger, task: TaskFacts) -> NetworkBytes:
    """Encoder, cell and towers: the whole minibatch is unrolled at once, images of one step at a time."""
    shape, (units, gates) = task.obs_shape or (1,), memory_numbers(ledger)
    hidden = () if _is_image(task) else parse_hidden(str(ledger.quantities["hidden"].value)) or (64, 64)
    encoded = image_network(*image_size(shape)) if _is_image(task) else vector_network(math.prod(shape), hidden[:1], 1)
    features = CONV_FEATURES if _is_image(task) else hidden[0]
    towers = vector_network(units, hidden[1:], ACTOR_AND_CRITIC)
    row = 4 * (features + (2 * gates + 2) * units)
    params = encoded.params + gates * units * (features + units + 2) + towers.params
    return NetworkBytes(encoded.forward + row, encoded.gradient + towers.gradient + GRADIENT_COPIES * row, params)


def _refuse_too_large(
    ledger: Ledger, machine: Machine, held: int, others: int, what: str, fixes: Callable[[], list[str]]
) -> None:
    """Refuses rollouts that fit neither the GPU, where there is one, nor the RAM beside everything else."""
    room, place = machine.ram_bytes * GOOD_SHARE - others, f"{show_bytes(machine.ram_bytes)} RAM"
    beside = f" beside {show_bytes(others)} of the process and its environments"
    if machine.gpus:
        room, place, beside = machine.gpus[0].memory_bytes * GOOD_SHARE, "the GPU's memory", ""
    if held > room:
        raise UserError(f"{what} take {show_bytes(held)}: more than {GOOD_SHARE:.0%} of {place}{beside}.", fixes())


def _what_fits(ledger: Ledger, size: OnPolicySize, machine: Machine) -> list[str]:
    """Flags of the largest rollouts that fit: fewer steps or episodes, fewer environments."""
    others = int(ledger.quantities["process_bytes"].value or 0), int(ledger.quantities["env_bytes"].value or 0)
    room = machine.gpus[0].memory_bytes * GOOD_SHARE if machine.gpus else machine.ram_bytes * GOOD_SHARE - others[0]
    per_env = 0 if machine.gpus else others[1] / size.num_envs
    minibatches = max(1, size.rollout // size.minibatch)

    def fits(envs: int, rollout: int) -> bool:
        made = replace(size, num_envs=envs, rollout=rollout, minibatch=max(1, rollout // minibatches))
        return made.rollout_bytes + made.update_bytes + per_env * envs <= room

    by_episodes = ledger.config.experience.by_episodes
    name = "rollout_episodes" if by_episodes else "rollout_steps"
    count, unit = int(ledger.quantities[name].value or 1), seq_length_of(ledger)
    units = _largest(count // unit, lambda n: fits(size.num_envs, size.rollout * n * unit // count))
    found = [f"--{name.replace('_', '-')} {units * unit}"] if units else []
    if not by_episodes:
        envs = _largest(size.num_envs, lambda n: fits(n, size.rollout * n // size.num_envs))
        found += [f"--num-envs {envs}"] if envs else []
    return found or [f"--ram-gb {math.ceil(1.2 * (size.rollout_bytes + size.update_bytes + sum(others)) / 1024**3)}"]


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest whole number from 0 to `most` that fits; what fits at one fits at all below."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
