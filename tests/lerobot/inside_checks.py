"""Figures that tests judge, computed inside of LeRobot's interpreter: `python inside_checks.py IMAGES VIDEO`."""

import copy
import json
import sys
from types import SimpleNamespace

import torch

from batchwright.lerobot import activation_checkpointing, torchvision_schemas
from batchwright.lerobot.accumulated_update import AccumulatedUpdate
from batchwright.lerobot.data_order import DataOrder
from batchwright.planning.memory_ladder import Rung

torchvision_schemas.declare()

ACCELERATOR = SimpleNamespace(
    num_processes=1, process_index=0, device=torch.device("cpu"), unwrap_model=lambda model: model
)
SAMPLES = 6
SMALL = ["--policy.dim_model=32", "--policy.n_heads=2", "--policy.dim_feedforward=64", "--policy.chunk_size=4"]
SMALL += ["--policy.n_encoder_layers=1", "--policy.n_vae_encoder_layers=1", "--policy.n_action_steps=4"]
CALM = ["--policy.dropout=0.0", "--policy.use_vae=false"]


def act_config(*words: str, side: int = 32, cameras: int = 1):
    from batchwright.lerobot import lerobot_config

    first = ["--policy.type=act", "--policy.push_to_hub=false", "--dataset.repo_id=local/x", "--policy.device=cpu"]
    config = lerobot_config.read_config([*first, *words]).policy
    lerobot_config.set_features(config, lerobot_config.made_up_features(cameras, side, 2))
    return config


def act(*words: str):
    from batchwright.lerobot import memory_trace

    config = act_config(*words)
    torch.manual_seed(0)
    return memory_trace.make_policy(config), memory_trace.make_batch(config, SAMPLES)


def gradient(policy, batch, rung: Rung, clip: float = 0.0) -> torch.Tensor:
    """The gradient of one update, read off a step of plain gradient descent at rate 1."""
    policy = copy.deepcopy(policy)
    before = torch.cat([p.detach().flatten().clone() for p in policy.parameters()])
    update = AccumulatedUpdate(rung, rung.samples_per_step, seed=0)
    update(SimpleNamespace(), policy, batch, torch.optim.SGD(policy.parameters(), lr=1.0), clip, ACCELERATOR)
    return before - torch.cat([p.detach().flatten() for p in policy.parameters()])


def splits() -> dict:
    policy, batch = act(*SMALL, *CALM)
    whole = gradient(policy, batch, Rung(SAMPLES, False, "fp32"))
    scale = whole.abs().max()
    found = {
        str(size): float((gradient(policy, batch, Rung(size, False, "fp32")) - whole).abs().max() / scale)
        for size in (1, 3, 4, 5)
    }
    found["checkpointed"] = float((gradient(policy, batch, Rung(4, True, "fp32")) - whole).abs().max() / scale)
    clipped = [gradient(policy, batch, Rung(size, False, "fp32"), clip=0.01) for size in (SAMPLES, 4)]
    found["clipped"] = float((clipped[1] - clipped[0]).abs().max() / clipped[0].abs().max())
    found["clipped_norm"] = float(clipped[1].norm())
    noisy, batch = act(*SMALL)  # dropout and a sampled latent: checkpointing must draw the same noise twice
    plain, again = (gradient(noisy, batch, Rung(SAMPLES, on, "fp32")) for on in (False, True))
    found["checkpointed_noise"] = float((again - plain).abs().max() / plain.abs().max())
    return found


class Shortage:
    """Raises out-of-memory in one phase of chosen updates, as long as micro-batches are above a size."""

    def __init__(self, phase: str, at: int, above: int) -> None:
        self.phase, self.at, self.above = phase, at, above
        self.raised = 0

    def raise_if(self, phase: str, update: int, samples: int) -> None:
        if phase == self.phase and update == self.at and samples > self.above:
            self.raised += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


def train(policy, batches, phase: str = "", at: int = 0, above: int = 3) -> dict:
    """Four updates with a schedule, one of which runs out of memory."""
    policy, shortage, rungs = copy.deepcopy(policy), Shortage(phase, at, above), []
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    results = []
    update = AccumulatedUpdate(
        Rung(SAMPLES, False, "fp32"),
        SAMPLES,
        seed=0,
        on_rung=lambda number, rung, what: rungs.append([number, rung.samples_per_step, what]),
        on_update=results.append,
    )
    forward, step = policy.forward, optimizer.step

    def failing_forward(batch):
        samples = batch["action"].shape[0]
        shortage.raise_if("forward", update.update, samples)
        loss, outputs = forward(batch)
        if shortage.phase == "backward":
            loss.register_hook(lambda grad: shortage.raise_if("backward", update.update, samples))
        return loss, outputs

    def failing_step(*args, **kwargs):
        if shortage.raised == 0:
            shortage.raise_if("optimiser step", update.update, SAMPLES)
        return step(*args, **kwargs)

    policy.forward, optimizer.step = failing_forward, failing_step
    for batch in batches:
        update(SimpleNamespace(), policy, batch, optimizer, 10.0, ACCELERATOR, schedule)
    return {
        "rungs": rungs,
        "rates": [result.learning_rate for result in results],
        "samples": [result.samples for result in results],
        "steps": int(next(iter(optimizer.state.values()))["step"]),
        "params": torch.cat([p.detach().flatten() for p in policy.parameters()]),
    }


def shortages() -> dict:
    from batchwright.lerobot import memory_trace

    policy, _ = act(*SMALL, *CALM)
    torch.manual_seed(1)
    batches = [memory_trace.make_batch(policy.config, SAMPLES) for _ in range(4)]
    plain, found = train(policy, batches), {}
    for phase in ("forward", "backward", "optimiser step"):
        for at in (0, 2):
            run = train(policy, batches, phase, at)
            distance = float((run.pop("params") - plain["params"]).abs().max())
            found[f"{phase} {at}"] = run | {"distance": distance}
    del plain["params"]
    return {"plain": plain, "short": found}


def orders() -> dict:
    whole = DataOrder(10, 4, 7)
    parts = [DataOrder(10, 4, 7, rank=rank, processes=3) for rank in range(3)]
    weighted = DataOrder(100, 1000, 7, groups=[(0, 90), (90, 100)], weights=[1, 3])
    drawn = weighted.batch(5)
    return {
        "batches": [whole.batch(k) for k in range(5)],
        "resumed": next(DataOrder(10, 4, 7).batches(3)),
        "shared": [sorted(frame for part in parts for frame in part.batch(k)) for k in range(5)],
        "weighted_share": sum(frame >= 90 for frame in drawn) / len(drawn),
    }


def memory() -> list[dict]:
    """Traced memory beside the peak that the allocator counts, below and above the floor of the optimiser's step."""
    from batchwright.lerobot import memory_calibration, memory_trace

    found = []
    for mode, cameras, side, sizes in ((("fp32", False), 2, 128, (1, 10)), (("bf16", True), 1, 64, (2, 40))):
        config = act_config(*SMALL, side=side, cameras=cameras)
        traced = memory_trace.trace(config, *mode, foreach=False)
        for samples in sizes:
            total = traced.total(samples)
            counted = memory_calibration.real_peak(config, samples, "cpu", *mode, foreach=False)
            case = {"mode": mode, "samples": samples, "traced": total, "counted": counted}
            line = traced.fixed_bytes + samples * traced.sample_bytes
            found.append(case | {"decided_by": {traced.floor_bytes: "floor", line: "line"}.get(total, "small batches")})
    return found


def chunks(root: str) -> dict:
    """Images that are decoded for one sample, by LeRobot and by us; whether all samples are equal."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    from batchwright.lerobot.chunk_decode import count_decoded, skip_unused_images

    deltas = {"action": [k / 10 for k in range(8)]}
    dataset, light = (LeRobotDataset("local/toy", root=root, delta_timestamps=deltas) for _ in range(2))
    skipped = skip_unused_images(light)
    equal = True
    for index in range(0, len(dataset), 7):
        one, other = dataset[index], light[index]
        equal &= one.keys() == other.keys()
        equal &= all(torch.equal(v, other[k]) for k, v in one.items() if isinstance(v, torch.Tensor))
    counts = [count_decoded(found, 5) for found in (dataset, light)]
    return {"decoded": counts, "skipped": skipped, "equal": equal}


def probed(root: str) -> dict:
    from batchwright.lerobot.loader_probe import probe_loader

    words = ["--dataset.repo_id=local/toy", f"--dataset.root={root}", "--policy.type=act", "--policy.device=cpu"]
    request = {"words": [*words, "--policy.push_to_hub=false", *SMALL], "workers": [0, 1], "samples": 4}
    request |= {"prefetch_factor": 2, "seconds": 0.2, "with_update": True}
    return probe_loader(request | {"precision": "fp32", "gradient_checkpointing": False})


if __name__ == "__main__":
    torch.set_num_threads(1)
    blocks = len(activation_checkpointing.checkpointed_blocks(act(*SMALL)[0]))
    found = {"splits": splits(), "shortages": shortages(), "orders": orders(), "blocks": blocks}
    found["chunks"] = {"images": chunks(sys.argv[1]), "video": chunks(sys.argv[2])}
    found["memory"] = memory()
    found["probed"] = {"images": probed(sys.argv[1]), "video": probed(sys.argv[2])}
    print("\n" + json.dumps(found))
