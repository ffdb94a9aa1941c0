"""One update of LeRobot's training in micro-batches, with a way down when memory runs out.

It takes the place of `lerobot.scripts.lerobot_train.update_policy`. The micro-batches are weighted by their share of
the samples, so that their gradients add up to that of the whole batch; one clip, one optimiser step and one step of the
schedule follow. After an out-of-memory error the same update is computed again, one rung further down.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from batchwright.core.errors import UserError
from batchwright.lerobot import activation_checkpointing
from batchwright.planning.memory import GOOD_SHARE
from batchwright.planning.memory_ladder import STEP, Rung, micro_batches, next_rung

OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True)
class UpdateResult:
    """What one update did."""

    update: int
    """Counted from 0."""
    samples: int
    """Of all processes."""
    loss: float
    gradient_norm: float
    learning_rate: float
    outputs: dict[str, float]
    """Further numbers of the policy, such as the parts of its loss; means over the samples."""
    seconds: float
    micro_batches: int
    rung: Rung


class Growth:
    """Raises the micro-batch by a third every so often while the memory that is in use leaves room for it."""

    def __init__(
        self, memory_use: Callable[[], float | None], on_growth: Callable[[int, Rung], None], every: int = 20
    ) -> None:
        self.memory_use, self.on_growth, self.every = memory_use, on_growth, every
        self.limit: int | None = None

    def grow(self, rung: Rung, mine: int, update: int) -> Rung:
        """The rung of the next update."""
        size = min(mine, math.ceil(rung.samples_per_step / STEP), self.limit or mine)
        use = self.memory_use() if update % self.every == 0 and size > rung.samples_per_step else None
        if use is None or use * size / rung.samples_per_step > GOOD_SHARE:
            return rung
        grown = replace(rung, samples_per_step=size)
        self.on_growth(update, grown)
        return grown

    def stop(self, failed_samples: int) -> None:
        """Memory ran out at this size: it is never tried again."""
        self.limit = failed_samples - 1


class AccumulatedUpdate:
    """Computes updates at the current rung of the ladder; called by LeRobot's training loop."""

    def __init__(
        self,
        rung: Rung,
        planned_samples: int,
        seed: int,
        first_update: int = 0,
        max_grad_norm: float | None = None,
        on_rung: Callable[[int, Rung, str], None] = lambda update, rung, phase: None,
        on_update: Callable[[UpdateResult], None] = lambda result: None,
        on_non_finite: Callable[[int, float, float], None] = lambda update, loss, norm: None,
        growth: Growth | None = None,
    ) -> None:
        self.rung, self.planned_samples, self.seed, self.update = rung, planned_samples, seed, first_update
        self.max_grad_norm, self.on_rung, self.on_update = max_grad_norm, on_rung, on_update
        self.on_non_finite, self.growth = on_non_finite, growth
        self._phase = ""

    def __call__(
        self,
        train_metrics: Any,
        policy: Any,
        batch: dict[str, Any],
        optimizer: Any,
        grad_clip_norm: float,
        accelerator: Any,
        lr_scheduler: Any = None,
        **others: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """One update, with the signature that LeRobot's loop calls; `others` may hold weights of samples: refused."""
        start_seconds = time.perf_counter()
        _refuse_sample_weights(others)
        model = accelerator.unwrap_model(policy)
        model.train()
        optimizer.zero_grad()
        loss, outputs, parts, samples = self._gradient(model, batch, optimizer, accelerator)
        limit = grad_clip_norm if self.max_grad_norm is None else self.max_grad_norm
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit if limit > 0 else float("inf"))
        rate = optimizer.param_groups[0]["lr"]
        if math.isfinite(loss) and math.isfinite(norm.item()):
            self._step(optimizer)
        else:
            self.on_non_finite(self.update, loss, norm.item())
        optimizer.zero_grad()
        if lr_scheduler is not None:
            lr_scheduler.step()
        if callable(getattr(model, "update", None)):
            model.update()
        seconds = time.perf_counter() - start_seconds
        train_metrics.loss, train_metrics.grad_norm, train_metrics.lr = loss, norm.item(), rate
        train_metrics.update_s = seconds
        self.on_update(UpdateResult(self.update, samples, loss, norm.item(), rate, outputs, seconds, parts, self.rung))
        self.update += 1
        if self.growth is not None:
            self.rung = self.growth.grow(self.rung, mine=samples_of(batch), update=self.update)
        return train_metrics, dict(outputs)

    def _gradient(
        self, model: Any, batch: dict[str, Any], optimizer: Any, accelerator: Any
    ) -> tuple[float, dict[str, float], int, int]:
        """Adds up the gradient of the batch; (loss, outputs, micro-batches, samples of all processes)."""
        mine = samples_of(batch)
        total = int(_summed(accelerator, [float(mine)])[0])
        while True:
            if self.rung.gradient_checkpointing:
                activation_checkpointing.enable(model)
            error: BaseException | None = None
            sums: dict[str, float] = {}
            parts = 0
            try:
                sums, parts = self._backward(model, batch, mine, total, accelerator)
            except RuntimeError as raised:
                if not is_out_of_memory(raised):
                    raise
                error = raised
            if not _any_process(accelerator, error is not None):
                break
            self._step_down(optimizer, error)
        _add_gradients(accelerator, model)
        names = list(sums)
        summed = _summed(accelerator, [sums[name] for name in names])
        outputs = {name: value / total for name, value in zip(names, summed, strict=True)}
        return outputs.pop(LOSS), outputs, parts, total

    def _backward(
        self, model: Any, batch: dict[str, Any], mine: int, total: int, accelerator: Any
    ) -> tuple[dict[str, float], int]:
        """Forward and backward of every micro-batch; sums over samples of the loss and the policy's outputs."""
        _seed_noise(self.seed, self.update, accelerator.process_index)
        sums: dict[str, float] = {}
        sizes, start = micro_batches(mine, self.rung.samples_per_step), 0
        for size in sizes:
            part = {name: _rows(value, start, start + size, mine) for name, value in batch.items()}
            start += size
            self._phase = "forward"
            with torch.autocast(accelerator.device.type, torch.bfloat16, enabled=self.rung.precision == "bf16"):
                loss, outputs = model.forward(part)
            self._phase = "backward"
            (loss * (size / total)).backward()
            numbers = {name: float(value) for name, value in outputs.items() if isinstance(value, int | float)}
            for name, value in (numbers | {LOSS: loss.item()}).items():
                sums[name] = sums.get(name, 0.0) + size * value
            del loss, outputs, part
        return sums, len(sizes)

    def _step_down(self, optimizer: Any, error: BaseException | None) -> None:
        """Frees what the failed try holds and takes the next rung; without one the run cannot go on."""
        phase, size = self._phase, self.rung.samples_per_step
        _release(optimizer, error)
        below = next_rung(self.rung, self.planned_samples)
        if below is None:
            raise UserError(
                f"out of memory in the {phase} pass of update {self.update} with {size} sample in memory, gradient "
                "checkpointing and bf16: this policy does not fit at these image sizes.",
                ["fewer or smaller images: a dataset with smaller frames", "a GPU with more memory"],
            ) from None
        self.rung = below
        if self.growth is not None:
            self.growth.stop(size)
        self.on_rung(self.update, below, phase)

    def _step(self, optimizer: Any) -> None:
        """The optimiser's step; out of memory there, its tensors are updated one at a time."""
        before = _step_counts(optimizer)
        try:
            optimizer.step()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            done = sum(new != old for new, old in zip(_step_counts(optimizer), before, strict=False))
            if done:
                raise UserError(
                    f"out of memory in the optimiser's step of update {self.update}, when {done} tensors were updated.",
                    ["batchwright resume RUN, which goes on from the last checkpoint", "a GPU with more memory"],
                ) from error
            traceback.clear_frames(error.__traceback__)
            _forget_half_made_state(optimizer)
            _empty_caches()
            for group in optimizer.param_groups:
                group["foreach"] = False
            self.on_rung(self.update, self.rung, "optimiser step")
            optimizer.step()


LOSS = "loss"


def is_out_of_memory(error: BaseException) -> bool:
    """torch's own error, or that of a CPU allocator."""
    text = str(error).lower()
    return isinstance(error, torch.OutOfMemoryError) or OUT_OF_MEMORY in text or "can't allocate memory" in text


def samples_of(batch: dict[str, Any]) -> int:
    """Samples of a batch, by its actions."""
    return int(batch["action"].shape[0])


def _rows(value: Any, start: int, end: int, samples: int) -> Any:
    """The part of one entry that belongs to some samples; what has no row per sample is passed on whole."""
    if isinstance(value, torch.Tensor) and value.ndim and value.shape[0] == samples:
        return value[start:end]
    if isinstance(value, list) and len(value) == samples:
        return value[start:end]
    return value


def _seed_noise(seed: int, update: int, rank: int) -> None:
    """Dropout and other noise of an update depend on (seed, update, process) alone: resuming changes nothing."""
    torch.manual_seed((seed * 1_000_003 + update) * 4099 + rank)


def _refuse_sample_weights(others: dict[str, Any]) -> None:
    given = [name for name, value in others.items() if value is not None and name != "lock"]
    if given:
        raise UserError(f"LeRobot's {given[0]} cannot be used with micro-batches.", ["leave out --use_rabc"])


def _release(optimizer: Any, error: BaseException | None) -> None:
    """Drops gradients, and the tensors that the frames of a traceback still hold."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__
    optimizer.zero_grad()
    _empty_caches()


def _empty_caches() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _step_counts(optimizer: Any) -> list[float]:
    return [float(state["step"]) for state in optimizer.state.values() if "step" in state]


def _forget_half_made_state(optimizer: Any) -> None:
    """State that the first step began to allocate; the next try makes it anew."""
    for parameter, state in list(optimizer.state.items()):
        if not float(state.get("step", 0)):
            del optimizer.state[parameter]


def _any_process(accelerator: Any, failed: bool) -> bool:
    return bool(_summed(accelerator, [float(failed)])[0])


def _summed(accelerator: Any, values: list[float]) -> list[float]:
    """Sums over the processes."""
    if accelerator.num_processes == 1:
        return values
    sums = torch.tensor(values, dtype=torch.float64, device=accelerator.device)
    torch.distributed.all_reduce(sums)
    return list(sums.tolist())


def _add_gradients(accelerator: Any, model: Any) -> None:
    """Adds up the gradients of the processes, which are weighted by their samples already."""
    if accelerator.num_processes == 1:
        return
    for parameter in model.parameters():
        if parameter.grad is not None:
            torch.distributed.all_reduce(parameter.grad)


with contextlib.suppress(ImportError):
    import torch.distributed
