"""A reward model's run from its settings to its result: create the directory, train or resume, finish."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.config.load import Resolved, resolve
from batchwright.config.presets import PresetNames
from batchwright.core.errors import UserError
from batchwright.core.files import remove_folder, write_atomically
from batchwright.core.machine import probe_machine
from batchwright.core.run_dir import RunDir, run_name
from batchwright.core.safe_open import checked_path, explain_refusal, make_folder
from batchwright.envs import spaces
from batchwright.planning.plan import Plan
from batchwright.planning.recorded_plan import plan_recorded
from batchwright.reward.reward_data import RewardData, check_returns, find_data
from batchwright.reward.reward_display import RewardDisplay
from batchwright.reward.reward_learner import Fit, RewardLearner
from batchwright.reward.reward_model import RewardModel
from batchwright.reward.reward_settings import RewardSettings
from batchwright.reward.reward_spec import SPEC_FILE
from batchwright.reward.reward_state import RewardState
from batchwright.runs.launch import create_run_dir, open_run, train_to_end
from batchwright.runs.loop import DivergedError
from batchwright.runs.recorder import OutputOptions, RunRecorder
from batchwright.runs.start_state import StartOptions
from batchwright.watch.metric_log import EventLog
from batchwright.watch.reward_lines import fit_lines, header_lines
from batchwright.watch.reward_picture import Strip, picture

FIT_FILE, PICTURE_FILE, FRAMES_FOLDER = "fit.json", "rewards.html", "frames"
PICTURED_EPISODES, PICTURED_FRAMES = 4, 12


@dataclass(frozen=True)
class RewardResult:
    """The outcome of a reward model's run."""

    run_dir: Path
    fit: Fit
    """Of held-out and of training episodes: correlation, spearman, error, constant_error; empty where interrupted."""
    iterations: int
    updates: int
    """Updates of the model, without those that were undone."""
    interrupted: bool = False
    seconds: float = 0.0


def prepare_reward(
    flags: dict[str, Any],
    preset: PresetNames,
    config: str | Path | None,
    run_dir: str | Path | None,
    on_plan: Callable[[Plan], None] | None = None,
) -> Path:
    """A run directory with its plan; nothing is trained yet."""
    resolved = _with_absolute_paths(resolve(flags, preset, config))
    data = find_data(resolved)
    check_returns(data, resolved)
    plan = plan_recorded(resolved, data.facts, probe_machine())
    settings = RewardSettings.from_plan(plan)
    RewardModel(data.spec(settings.hidden))  # refuses what no network can take before a directory is made
    if on_plan is not None:
        on_plan(plan)
    return create_run_dir(resolved, plan, run_dir, run_name(data.name, settings.algo, settings.seed)).path


def _with_absolute_paths(resolved: Resolved) -> Resolved:
    """The settings with absolute paths, so that the run can be resumed from any directory."""
    recorded = resolved.config.recorded
    recorded = replace(recorded, data=_absolute(recorded.data), returns=_absolute(recorded.returns))
    return replace(resolved, config=replace(resolved.config, recorded=recorded))


def _absolute(path: str | None) -> str | None:
    """A path that exists as an absolute one; ids of datasets as they are."""
    found = None if path is None else checked_path(path)
    return str(found.resolve()) if found is not None and found.exists() else path


def continue_reward(path: str | Path, quiet: bool = False, from_start: bool = False) -> RewardResult:
    """Trains a run from its last good checkpoint, or from the start, to the end of its plan."""
    run, resolved, plan = open_run(path)
    settings, options = RewardSettings.from_plan(plan), OutputOptions(quiet=quiet)
    with run.lock(), EventLog(run.events_path) as events:
        start_seconds = time.perf_counter()
        data = _find_same_data(run, resolved, settings)
        model = RewardModel(data.spec(settings.hidden))
        with explain_refusal(run.path / SPEC_FILE, "write"):
            write_atomically(run.path / SPEC_FILE, model.spec.to_json().encode())
        display = RewardDisplay(settings.iterations, quiet, options.stream)
        header = header_lines(plan, data.recording.kind, str(data.recording.path), data.returns)
        display.show(*header, f"run directory: {run}")  # before the recording is read, which may take long
        try:
            if settings.frames_on_disk:
                remove_folder(run.path / FRAMES_FOLDER, 1)
                with explain_refusal(run.path / FRAMES_FOLDER, "write"):
                    make_folder(run.path / FRAMES_FOLDER, 1)
            bank = data.read(run.path / FRAMES_FOLDER if settings.frames_on_disk else None)
            learner = RewardLearner(settings, model, bank)
            recorder = RunRecorder(run, plan, events, options, make_display=lambda past: display)
            state = _train(learner, recorder, StartOptions(from_start=from_start))
            seconds = time.perf_counter() - start_seconds
            if not learner.finished(state):
                return _interrupt(run, state, display, seconds)
            fit = recorder.evaluation or learner.fit(state)
            _write_results(run, learner, state, fit, data.name, display)
            return RewardResult(run.path, fit, int(state.counters.iteration), state.updates, False, seconds)
        finally:
            remove_folder(run.path / FRAMES_FOLDER, 1)


def _find_same_data(run: RunDir, resolved: Resolved, settings: RewardSettings) -> RewardData:
    """The recording of a run; refused where it has changed since."""
    data = find_data(resolved)
    if settings.recording_digest != data.digest:
        raise UserError(
            f"{data.recording.path} has changed since {run} was begun: other episodes, lengths or returns.",
            [f"batchwright rrd {data.recording.path} with another --run-dir"],
        )
    return data


def _train(learner: RewardLearner, recorder: RunRecorder, start: StartOptions) -> RewardState:
    """Trains to the end, and names a fix where training diverges."""
    try:
        return train_to_end(learner, recorder, start)
    except DivergedError as error:
        error.fixes = (f"--learning-rate {learner.settings.learning_rate / 10:g}",)
        raise
    finally:
        learner.close()


def _interrupt(run: RunDir, state: RewardState, display: RewardDisplay, seconds: float) -> RewardResult:
    iteration = int(state.counters.iteration)
    display.show(f"interrupted after iteration {iteration}; go on with: batchwright resume {run}")
    return RewardResult(run.path, {}, iteration, state.updates, True, seconds)


def _write_results(
    run: RunDir, learner: RewardLearner, state: RewardState, fit: Fit, title: str, display: RewardDisplay
) -> None:
    """Writes the fit and the picture of a trained model, and shows where they lie."""
    strips = _make_strips(learner, state)
    fit_path, picture_path = run.path / FIT_FILE, run.path / PICTURE_FILE
    with explain_refusal(run.path, "write"):
        write_atomically(fit_path, json.dumps(fit, indent=2).encode())
        write_atomically(picture_path, picture(strips, title).encode())
    display.show("", *fit_lines(fit), "", f"model: {run}", f"fit: {fit_path}")
    display.show(f"rewards along {len(strips)} episodes: {picture_path}")


def _make_strips(learner: RewardLearner, state: RewardState) -> list[Strip]:
    """Held-out episodes from the lowest return to the highest, with their rewards and some of their images."""
    bank = learner.bank
    episodes = learner.held_out_E if len(learner.held_out_E) else learner.training_E
    order = episodes[np.argsort(bank.return_E[episodes], kind="stable")]
    images = next((key for key, leaf in learner.model.spec.observation.items() if spaces.is_image(leaf)), None)
    strips = []
    for episode in (int(order[place]) for place in _evenly(len(order), PICTURED_EPISODES)):
        row, steps = bank.first_row_E[episode], _evenly(int(bank.length_E[episode]), PICTURED_FRAMES)
        strips.append(
            Strip(
                bank.entries[episode].id,
                float(bank.return_E[episode]),
                learner.predict_episode(state, episode),
                bank.rewards(episode),
                [] if images is None else [(int(step), np.asarray(bank.obs[images][row + step])) for step in steps],
            )
        )
    return strips


def _evenly(count: int, most: int) -> np.ndarray:
    """At most so many of the numbers 0 to `count` - 1, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
