"""The loop of every regime: iterate, guard, record, evaluate, save."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from batchwright.data.rollout import CollectResult, Episodes, Rollout
from batchwright.doctor.finding import Finding
from batchwright.envs.engines import Engine
from batchwright.planning.quantity import Plan
from batchwright.training.guard import MOST_BAD_ITERATIONS
from batchwright.training.remedies import good_of, is_due, rescue, treat


class Watch(Protocol):
    """Who is told; the loop knows no files and no screens."""

    def record(self, record: dict[str, Any]) -> None: ...
    def bad(self, iteration: int, what: str, rollout: Rollout, flat: Any) -> None: ...
    def checkpoint(self, state: Any, actions: list[np.ndarray], scheduled: bool) -> None: ...
    def evaluate(self, state: Any) -> dict[str, Any]: ...
    def interrupted(self) -> bool: ...
    def remedy(self, plan: Plan, since: int) -> tuple[str, Finding] | None: ...
    def warn(self, kind: str, iteration: int, message: str) -> None: ...


class Regime(NamedTuple):
    """What differs between ways of learning: functions of a session and a state.

    A session has `plan`, `engine`, `streams`, `policy` and `start_engine`; a state has `learner.flat`, `counters`,
    `position` and `recent_returns`; what an iteration tells has `rollout`.
    """

    iterate: Callable[[Any, Any], tuple[Any, Any]]
    """(session, state) -> (state, told): collects and learns."""
    find_bad: Callable[[Any, Any, Any], str | None]
    """(session, state, told) -> what is not finite."""
    undo: Callable[[Any, Any], Any]
    """(state, state before) -> the state without its last update."""
    restarted: Callable[[Any, Any], Any]
    """(session, state) -> what a restart of the environments changes beside their position."""
    record: Callable[[Any, Any, Any, float], dict[str, Any]]
    """(session, state, told, seconds of the iteration) -> one line of the metric record."""


class DivergedError(Exception):
    """Training produced non-finite numbers again and again, to `iteration`."""

    def __init__(self, what: str, iteration: int) -> None:
        super().__init__(what)
        self.iteration = iteration
        self.fixes: tuple[str, ...] = ()
        """Flags that the doctor names; empty where it was off or knows none."""


def run(regime: Regime, session: Any, state: Any, watch: Watch, actions: list[np.ndarray]) -> Any:
    """Iterates to the end of the plan, or to an interrupt; returns the last state.

    `actions` are those taken since the engine was started, kept where the engine cannot save itself, so that an
    interrupt can be resumed exactly.
    """
    plan = session.plan
    while not finished(plan, state):
        began, before = time.perf_counter(), state
        state, told = regime.iterate(session, state)
        state = _guard(regime, state, before, told, regime.find_bad(session, state, told), watch)
        if not session.resumes_from_state:
            actions.append(session.actions_given(told))
        for text in getattr(told, "remarks", ()):
            watch.warn("remark", int(state.counters.iteration) - 1, text)
        record = regime.record(session, state, told, time.perf_counter() - began)
        iteration = int(state.counters.iteration)
        last = finished(plan, state)
        if last or (plan["eval_every"] and iteration % plan["eval_every"] == 0):
            record |= watch.evaluate(state)
        watch.record(record)
        stop = watch.interrupted()
        at_checkpoint = last or iteration % plan["checkpoint_every"] == 0
        if at_checkpoint:
            state = _restart_unless_saved(regime, session, state, actions, last)
        if getattr(state, "remedies", None) is not None and not last:
            state = _treat(session, state, watch, at_checkpoint)
        if at_checkpoint:
            watch.checkpoint(state, [], scheduled=True)
        elif stop:
            watch.checkpoint(state, actions, scheduled=False)
        if stop:
            break
    return state


def finished(plan: Plan, state: Any) -> bool:
    """Whether all that was planned is done, or the return that was called enough is reached."""
    solved: bool = state.solved(plan.get("stop_return"))
    return done_share(plan, state) >= 1.0 or solved


def done_share(plan: Plan, state: Any) -> float:
    """How much of the run is behind us: of its iterations, or of its steps where only whole episodes spend them."""
    if getattr(state, "remedies", None) is not None:  # rollouts may have changed: steps are what was promised
        return float(int(state.counters.env_steps) / plan["actual_steps"])
    if plan["iterations"] is None:
        return float(int(state.counters.env_steps) / plan["total_steps"])
    return float(int(state.counters.iteration) / plan["iterations"])


def count_iteration(state: Any, gathered: CollectResult) -> Any:
    """The state with the steps and episodes of one more iteration."""
    counters, episodes = state.counters, gathered.episodes
    ended = np.asarray(episodes.ended)
    recent = np.concatenate([state.recent_returns, np.asarray(episodes.returns)[ended]])[-len(state.recent_returns) :]
    return state._replace(
        recent_returns=recent,
        counters=counters._replace(
            iteration=counters.iteration + 1,
            env_steps=counters.env_steps + gathered.env_steps,
            transitions=counters.transitions + int(np.asarray(gathered.rollout.valid).sum()),
            episodes=counters.episodes + int(ended.sum()),
        ),
    )


def episode_figures(state: Any, episodes: Episodes) -> dict[str, Any]:
    """How far the run is, and what became of the episodes that ended in its last iteration."""
    counters, ended = state.counters, np.asarray(episodes.ended)
    returns, lengths = np.asarray(episodes.returns)[ended], np.asarray(episodes.lengths)[ended]
    record: dict[str, Any] = {
        "iteration": int(counters.iteration) - 1,
        "env_steps": int(counters.env_steps),
        "transitions": int(counters.transitions),
        "episodes": len(returns),
        "episodes_total": int(counters.episodes),
    }
    if len(returns):
        record |= {
            "episode_return": float(returns.mean(dtype=np.float64)),
            "episode_return_std": float(returns.std(dtype=np.float64)),
            "episode_return_min": float(returns.min()),
            "episode_return_max": float(returns.max()),
            "episode_length": float(lengths.mean()),
        }
    return record


def special_figures(engine: Engine, episodes: Episodes) -> dict[str, float]:
    """What only some environments tell of episodes that ended: returns of components, success."""
    found: dict[str, float] = {}
    ended = np.asarray(episodes.ended)
    if episodes.components is not None and ended.any():
        means = np.asarray(episodes.components)[ended].mean(0, dtype=np.float64)
        names = zip(engine.reward_names, means, strict=True)
        found |= {f"component/{name}/return": float(mean) for name, mean in names}
    if episodes.success is not None:
        success = np.asarray(episodes.success)[ended]
        if np.isfinite(success).any():
            found["success_rate"] = float(np.nanmean(success, dtype=np.float64))
    return found


def _guard(regime: Regime, state: Any, before: Any, told: Any, what: str | None, watch: Watch) -> Any:
    """Non-finite numbers undo the update of their iteration; too many iterations in a row end the run."""
    bad = 0 if what is None else int(state.counters.bad_iterations) + 1
    state = state._replace(counters=state.counters._replace(bad_iterations=np.int64(bad)))
    if what is None:
        return state
    watch.bad(int(state.counters.iteration), what, told.rollout, before.learner.flat)
    state = regime.undo(state, before)
    if bad < MOST_BAD_ITERATIONS:
        return state
    rescued = rescue(state, what) if getattr(state, "remedies", None) is not None else None
    if rescued is None:
        raise DivergedError(what, int(state.counters.iteration))
    watch.warn("remedy", int(state.counters.iteration), rescued[1])
    return rescued[0]


def _treat(session: Any, state: Any, watch: Watch, at_checkpoint: bool) -> Any:
    """Lets the doctor act where a decision is due; what goes well then is what a rescue goes back to."""
    iteration = int(state.counters.iteration)
    if not is_due(session.plan, iteration, at_checkpoint, session.resumes_from_state):
        return state
    if int(state.counters.bad_iterations) == 0:
        state = state._replace(remedies=state.remedies._replace(good=good_of(state)))
    wanted = watch.remedy(session.plan, int(state.remedies.changed))
    treated = treat(session, state, wanted[0]) if wanted is not None else None
    if wanted is None or treated is None:
        return state
    watch.warn("remedy", iteration, f"{treated[1]}: {wanted[1].name}, {wanted[1].message}")
    return treated[0]


def _restart_unless_saved(regime: Regime, session: Any, state: Any, actions: list[np.ndarray], last: bool) -> Any:
    """At a checkpoint an engine that cannot be saved starts anew, in a resumed run and an uninterrupted one alike."""
    if session.resumes_from_state or last:
        return state
    actions.clear()
    iteration = int(state.counters.iteration)
    state = regime.restarted(session, state)
    counters = state.counters._replace(engine_started=np.int64(iteration))
    return state._replace(position=session.start_engine(iteration), counters=counters)
