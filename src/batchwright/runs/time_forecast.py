"""How long a run will take: by the speed of an earlier run of the same numbers here, or by a second of training."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from batchwright.core.machine import usable_cores
from batchwright.core.machine_cache import MachineCache
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import counted
from batchwright.runs.learner import Learner, StateT
from batchwright.runs.run_settings import RunSettings
from batchwright.runs.shared_programs import ARRAYS_OF_EVERY_RUN
from batchwright.runs.versions import versions
from batchwright.watch.lines import duration
from batchwright.watch.metric_log import EVALUATION_SECONDS

SPEEDS_FILE = "speeds.json"
CACHE_FORMAT = "1"
MEASURED_SECONDS = 1.0
LEAST_ITERATIONS = 3
"""With updates, that a speed is measured over; of them the first compiles and does not count."""
MOST_SECONDS = 60.0
"""After so long a measurement ends with what it has."""
WORTH_SAYING_SECONDS = 20.0
"""A shorter run is over before its forecast is read."""
REMEMBERED, MEASURED = "remembered from", "measured over"
COSTS_NO_TIME = frozenset(
    {"gamma", "gae_lambda", "clip_range", "clip_schedule", "entropy_start", "entropy_end", "entropy_anneal"}
    | {"entropy_episodes", "max_grad_norm", "weight_decay", "value_weight", "kl_target", "polyak", "adam_beta2"}
    | {"adam_eps", "log_std_start", "epsilon_start", "epsilon_end", "warmup_steps", "temperature_start"}
)
"""Numbers that change what is learned and not how long it takes."""


@dataclass(frozen=True)
class Speed:
    """What training one plan costs on this machine."""

    step_seconds: float
    """Of one environment step with its share of the updates."""
    warmup_step_seconds: float
    """Of one before the first update of a replay run."""
    iteration_steps: float
    evaluation_seconds: float
    start_seconds: float
    """Compiling or loading programs, and whatever else happens once."""
    iterations: int
    """That this was measured over."""

    def seconds(self, plan: Plan) -> float:
        """The forecast for a whole run."""
        settings = RunSettings.from_plan(plan)
        warmup = min(plan.get("warmup_steps") or 0, settings.actual_steps)
        steps = (settings.actual_steps - warmup) * self.step_seconds + warmup * self.warmup_step_seconds
        return self.start_seconds + steps + evaluations(settings, self.iteration_steps) * self.evaluation_seconds


def evaluations(settings: RunSettings, iteration_steps: float) -> int:
    """Evaluations of a run: the scheduled ones, and the one of the last policy."""
    iterations = settings.iterations or int(settings.actual_steps / max(iteration_steps, 1.0))
    return (max(0, iterations - 1) // settings.eval_every if settings.eval_every else 0) + 1


def _cache(plan: Plan) -> MachineCache:
    left_out = ARRAYS_OF_EVERY_RUN | COSTS_NO_TIME
    numbers = sorted(f"{name}={q.value}" for name, q in plan.quantities.items() if name not in left_out)
    key = [CACHE_FORMAT, str(plan.task.name), plan.algo, str(usable_cores()), *map(str, versions().values()), *numbers]
    return MachineCache(SPEEDS_FILE, "|".join(key))


def recall(plan: Plan) -> Speed | None:
    """The speed of the last run of these numbers on this machine; lengths, seeds and rates may differ."""
    known = _cache(plan).read()
    try:
        return None if known is None else Speed(**known)
    except TypeError:  # of another version
        return None


def remember(plan: Plan, records: Sequence[Mapping[str, Any]], run_seconds: float) -> None:
    """Keeps the speed of a whole run: its metric records, and the seconds from its start to its end."""
    speed = speed_of(records, run_seconds)
    if speed is not None:
        _cache(plan).write(vars(speed))


def speed_of(records: Sequence[Mapping[str, Any]], run_seconds: float) -> Speed | None:
    """The speed in a run's records; None where there are too few iterations."""
    before, timed = 0, []
    for record in records:
        steps = int(record["env_steps"]) - before
        before = int(record["env_steps"])
        timed.append((steps, steps / record["steps_per_second"], bool(record.get("updates"))))
    first_update = next((at for at, (_, _, updated) in enumerate(timed) if updated), len(timed))
    with_updates, without = timed[first_update + 1 :], timed[1:first_update]  # the first of each kind compiles
    if len(with_updates) < LEAST_ITERATIONS - 1:
        return None
    evaluation_seconds = [float(record[EVALUATION_SECONDS]) for record in records if EVALUATION_SECONDS in record]
    counted_seconds = sum(seconds for _, seconds, _ in [*with_updates, *without]) + sum(evaluation_seconds)
    return Speed(
        step_seconds=_per_step(with_updates),
        warmup_step_seconds=_per_step(without) if without else 0.0,
        iteration_steps=before / len(records),
        evaluation_seconds=sum(evaluation_seconds) / max(len(evaluation_seconds), 1),
        start_seconds=max(0.0, run_seconds - counted_seconds),
        iterations=len(with_updates),
    )


def _per_step(timed: Sequence[tuple[int, float, bool]]) -> float:
    return sum(seconds for _, seconds, _ in timed) / sum(steps for steps, _, _ in timed)


def measure(learner: Learner[StateT]) -> Speed:
    """The speed of a learner: trains it for a second after compiling and evaluates it; nothing is kept.

    Programs that were compiled here are in the cache when the run starts: the start is timed once more with them.
    """
    state, records, began = learner.start(), [], time.perf_counter()
    updating_seconds, updating = 0.0, 0
    while not learner.finished(state) and time.perf_counter() - began < MOST_SECONDS:
        start = time.perf_counter()
        state, result = learner.iterate(state)
        seconds = time.perf_counter() - start
        records.append(learner.record(state, result, seconds))
        if records[-1].get("updates"):
            updating += 1
            updating_seconds += seconds if updating > 1 else 0.0
        if updating >= LEAST_ITERATIONS and updating_seconds >= MEASURED_SECONDS:
            break
    learner.evaluate(state)  # compiles
    start = time.perf_counter()
    learner.evaluate(state)
    records[-1][EVALUATION_SECONDS] = time.perf_counter() - start
    jax.clear_caches()  # type: ignore[no-untyped-call]
    start = time.perf_counter()
    learner.iterate(learner.start())
    restart_seconds = time.perf_counter() - start
    found = speed_of(records, 0.0)
    if found is None:  # a plan of one or two iterations: its whole length was trained
        steps = int(records[-1]["env_steps"])
        return Speed(updating_seconds / steps, 0.0, steps / len(records), 0.0, restart_seconds, len(records))
    values = vars(found) | {"start_seconds": restart_seconds}
    return Speed(**values)


def forecast_line(plan: Plan, speed: Speed, source: str) -> str:
    """One line: time in all, steps per second, evaluations, start, and where the speed is known from."""
    settings = RunSettings.from_plan(plan)
    made = evaluations(settings, speed.iteration_steps)
    parts = f"{1 / speed.step_seconds:,.0f} steps/s, {counted(made, 'evaluation')} of {speed.evaluation_seconds:.1f} s"
    how = f"{source} {counted(speed.iterations, 'iteration')}"
    return f"forecast: about {duration(speed.seconds(plan))} ({parts}, start {speed.start_seconds:.1f} s; {how})"


def to_json(plan: Plan, speed: Speed, source: str) -> dict[str, Any]:
    """The forecast for programs: seconds in all, what they are made of, and where the speed is from."""
    return {"seconds": round(speed.seconds(plan), 2), "source": source, **vars(speed)}
