"""How long a run will take: by the speed of an earlier run of the same numbers here, or by a second of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from batchwright.core.machine import usable_cores
from batchwright.core.machine_cache import MachineCache
from batchwright.planning.plan import Plan
from batchwright.planning.quantity import counted
from batchwright.runs.run_settings import RunSettings
from batchwright.runs.shared_programs import ARRAYS_OF_EVERY_RUN
from batchwright.runs.versions import versions
from batchwright.watch.lines import duration
from batchwright.watch.metric_log import ELAPSED_SECONDS, EVALUATION_SECONDS, FirstMetrics

SPEEDS_FILE = "speeds.json"
CACHE_FORMAT = "2"
MEASURED_SECONDS = 1.0
LEAST_ITERATIONS = 3
"""With updates, of which the first compiles and does not count."""
MOST_SECONDS = 60.0
"""After so long a measurement ends with what it has."""
COMPILING_ITERATIONS, COMPILING_SECONDS = 9, 1.0
"""Of a rehearsal that only compiles: what runs in one of eight iterations compiles in it too, where these are short."""
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
    """Of one environment step with its share of the updates, of records and of checkpoints."""
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


@dataclass(frozen=True)
class Span:
    """One iteration: its environment steps, and the seconds until the next one could begin."""

    steps: int
    seconds: float
    updated: bool
    """Whether it had updates."""
    compiled: bool
    """Whether a program ran for the first time: it had the first updates, or its record has the first of a metric."""


class SpanReader:
    """Reads the records of a run one after the other."""

    def __init__(self) -> None:
        self._steps, self._elapsed, self._updated = 0, 0.0, False
        self._metrics = FirstMetrics()

    def read(self, record: Mapping[str, Any]) -> Span:
        """The next iteration. Records, checkpoints and the doctor's work between iterations cost time too.

        An evaluation is priced apart. That of the last record comes after it: then only the iteration's own time is
        left.
        """
        made, self._steps = int(record["env_steps"]) - self._steps, int(record["env_steps"])
        seconds, now = made / record["steps_per_second"], record.get(ELAPSED_SECONDS)
        if now is not None:
            evaluated = float(record.get(EVALUATION_SECONDS, 0.0))
            seconds, self._elapsed = max(seconds, float(now) - self._elapsed - evaluated), float(now)
        updated = bool(record.get("updates"))
        compiled = self._metrics.has_first(record) or (updated and not self._updated)
        self._updated = self._updated or updated
        return Span(made, seconds, updated, compiled)


def spans(records: Sequence[Mapping[str, Any]]) -> list[Span]:
    """The iterations of a run."""
    reader = SpanReader()
    return [reader.read(record) for record in records]


def speed_of(records: Sequence[Mapping[str, Any]], run_seconds: float) -> Speed | None:
    """The speed in a run's records; None where there are too few iterations."""
    timed = [span for span in spans(records) if not span.compiled]
    with_updates, without = ([span for span in timed if span.updated is updated] for updated in (True, False))
    if len(with_updates) < LEAST_ITERATIONS - 1:
        return None
    evaluation_seconds = [float(record[EVALUATION_SECONDS]) for record in records if EVALUATION_SECONDS in record]
    counted_seconds = sum(span.seconds for span in [*with_updates, *without]) + sum(evaluation_seconds)
    return Speed(
        step_seconds=_per_step(with_updates),
        warmup_step_seconds=_per_step(without) if without else 0.0,
        iteration_steps=int(records[-1]["env_steps"]) / len(records),
        evaluation_seconds=sum(evaluation_seconds) / max(len(evaluation_seconds), 1),
        start_seconds=max(0.0, run_seconds - counted_seconds),
        iterations=len(with_updates),
    )


def _per_step(timed: Sequence[Span]) -> float:
    return sum(span.seconds for span in timed) / max(sum(span.steps for span in timed), 1)


class Enough:
    """Whether the records so far are enough for a speed: some iterations with updates, and a second of them."""

    def __init__(self, iterations: int = LEAST_ITERATIONS, seconds: float = MEASURED_SECONDS) -> None:
        self.iterations, self.seconds = iterations, seconds
        self.records: list[Mapping[str, Any]] = []
        self._reader, self._updating, self._measured = SpanReader(), 0, 0.0

    def add(self, record: Mapping[str, Any]) -> bool:
        self.records.append(record)
        span = self._reader.read(record)
        self._updating += span.updated
        self._measured += span.seconds if span.updated and not span.compiled else 0.0
        enough = self._updating >= self.iterations and self._measured >= self.seconds
        return enough or float(record[ELAPSED_SECONDS]) >= MOST_SECONDS

    def speed(self, run_seconds: float, evaluation_seconds: float) -> Speed:
        """By these records and an evaluation; of a plan too short for `speed_of`, by what was trained of it."""
        found = speed_of(self.records, run_seconds)
        if found is None:
            timed = spans(self.records)
            steps = max(1, int(self.records[-1]["env_steps"]))
            price = _per_step(timed[1:] or timed)
            found = Speed(price, price, steps / len(timed), 0.0, timed[0].seconds, len(timed))
        return replace(found, evaluation_seconds=evaluation_seconds)


class Compiled(Enough):
    """Whether all programs of a run have run: after some iterations, or a second of them where they are long."""

    def add(self, record: Mapping[str, Any]) -> bool:
        enough = super().add(record)
        return enough or self._updating >= COMPILING_ITERATIONS or self._measured >= COMPILING_SECONDS


class FirstForecast:
    """The forecast of a run of which nothing was known before: one line, after its first second of updates."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._enough, self._said = plan, Enough(), False

    def add(self, record: Mapping[str, Any]) -> str | None:
        """The line, once; None before, afterwards, and for runs that are soon over."""
        if self._said or not self._enough.add(record):
            return None
        self._said = True
        speed = speed_of(self._enough.records, float(record[ELAPSED_SECONDS]))
        if speed is None or speed.seconds(self._plan) < WORTH_SAYING_SECONDS:
            return None
        return forecast_line(self._plan, speed, MEASURED)


def forecast_line(plan: Plan, speed: Speed, source: str) -> str:
    """One line: time in all, steps per second, evaluations, start, and where the speed is known from."""
    settings = RunSettings.from_plan(plan)
    made = evaluations(settings, speed.iteration_steps)
    rate = f"{1 / max(speed.step_seconds, 1e-9):,.0f} steps/s"
    parts = f"{rate}, {counted(made, 'evaluation')} of {speed.evaluation_seconds:.1f} s"
    how = f"{source} {counted(speed.iterations, 'iteration')}"
    return f"forecast: about {duration(speed.seconds(plan))} ({parts}, start {speed.start_seconds:.1f} s; {how})"


def to_json(plan: Plan, speed: Speed, source: str) -> dict[str, Any]:
    """The forecast for programs: seconds in all, what they are made of, and where the speed is from."""
    return {"seconds": round(speed.seconds(plan), 2), "source": source, **vars(speed)}
