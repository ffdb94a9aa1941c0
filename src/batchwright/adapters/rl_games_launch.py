"""Runs the real rl_games in an interpreter of its own, into a run directory of ours."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchwright.adapters.rl_games_fit import fit, version_notes
from batchwright.config.load import Resolved, resolve
from batchwright.core.errors import UserError
from batchwright.core.files import write_atomically
from batchwright.core.machine import probe_machine
from batchwright.core.run_dir import FOREIGN_JOB, RunDir, run_name
from batchwright.core.safe_open import open_plain, read_json
from batchwright.core.trust import is_trusted, remember
from batchwright.doctor.finding import Finding
from batchwright.doctor.logs.names import in_trainer_settings
from batchwright.planning.make import make_plan
from batchwright.planning.plan import Plan, TaskFacts
from batchwright.runs.launch import create_run_dir, open_run
from batchwright.runs.recorder import OutputOptions, RunRecorder
from batchwright.runs.signals import stop_when_asked
from batchwright.watch.metric_log import EventLog, read_metrics
from batchwright.watch.run_end import FINISHED, INTERRUPTED

JOB, FOLDER = FOREIGN_JOB, "rl_games"
"""In the run directory: what the other process is asked to do, and the folder of rl_games with its checkpoints."""
CHECKPOINT = "last.pth"
STOPPED_BY_SIGNAL = 130
PROBE = """
import importlib.metadata, json, sys
found = {}
for name in ("rl-games", "torch", "gymnasium", "envpool"):
    try: found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError: pass
pools = []
if "envpool" in found and "rl-games" in found:
    try:
        import envpool
        pools = [name for name in sys.argv[1:] if name in envpool.list_all_envs()]
    except Exception: pass
print(json.dumps([found, pools]))
"""


@dataclass(frozen=True)
class Job:
    """What a run of rl_games is made of."""

    config: dict[str, Any]
    env: str
    engine: str
    seed: int
    block: str = ""
    """What `fit` calculated, to be printed."""


class ForeignRecorder(RunRecorder):
    """The recorder of our own runs, with advice in the settings of rl_games."""

    def _show_advice(self, iteration: int, findings: Sequence[Finding]) -> None:
        super()._show_advice(iteration, [in_trainer_settings("rl_games", finding) for finding in findings])


def plan_job(job: Job) -> tuple[Resolved, Plan]:
    """The numbers of the config as a plan of ours, so that the doctor, the report and the page know them."""
    config = job.config["params"]["config"]
    rollout = config["num_actors"] * config["horizon_length"]
    epochs = config.get("max_epochs", -1)
    if not isinstance(epochs, int) or epochs < 1:
        raise UserError(f"params.config.max_epochs is {epochs!r}; a run needs an end.", ["--max_epochs 100"])
    stated: dict[str, Any] = {
        "env": job.env,
        "algo": "ppo",
        "num_envs": config["num_actors"],
        "rollout_steps": config["horizon_length"],
        "minibatch_transitions": config["minibatch_size"],
        "epochs": config["mini_epochs"],
        "total_steps": rollout * epochs,
        "learning_rate": float(config["learning_rate"]),
        "gamma": config["gamma"],
        "gae_lambda": config["tau"],
        "clip_range": config["e_clip"],
        "entropy_start": float(config.get("entropy_coef", 0.0)),
        "entropy_end": float(config.get("entropy_coef", 0.0)),
        "max_grad_norm": float(config.get("grad_norm", 1.0)),
        "normalize_obs": bool(config.get("normalize_input")),
        "seed": job.seed,
    }
    resolved = resolve(stated, "none", None)
    return resolved, make_plan(resolved, probe_machine(), TaskFacts(name=job.env), divide_exactly=True)


def prepare(
    config: dict[str, Any],
    num_envs: int,
    env: str | None,
    python: str,
    engine: str | None,
    seed: int | None,
    **fits: Any,
) -> Job:
    """The config fitted to the number of environments and pointed at ours; `fits` are arguments of `fit`."""
    config = copy.deepcopy(config)
    max_epochs = fits.pop("max_epochs", None)
    lines: list[str] = []
    fit(config, num_envs, say=lines.append, **fits)
    section = config["params"]["config"]
    named = env or (section.get("env_config") or {}).get("env_name") or section.get("env_name")
    if not isinstance(named, str) or not named:
        raise UserError("the config names no environment.", ["--env CartPole-v1"])
    versions, pools = probe(python, named)
    lines += [f"         {note}" for note in version_notes(versions["rl-games"]) if note not in "\n".join(lines)]
    engine = engine or ("envpool" if pools else "gymnasium")
    if engine not in versions or (engine == "envpool" and not pools):
        reason = "is not installed for" if engine not in versions else f"has no {named} in"
        raise UserError(f"{engine} {reason} {python}.", [f"{python} -m pip install {engine}", "--engine gymnasium"])
    if max_epochs is not None:
        section["max_epochs"] = max_epochs
    seed = seed if seed is not None else int(config["params"].get("seed") or 0)
    config["params"]["seed"] = seed
    section |= {"env_name": "BATCHWRIGHT", "env_config": {}}
    section.setdefault("device", "cpu")
    section.setdefault("device_name", section["device"])
    if str(section["device"]) == "cpu":
        section.setdefault("torch_compile", False)  # compiling costs more than it saves there
        section["mixed_precision"] = False
    for key in ("gamma", "tau", "e_clip", "learning_rate", "mini_epochs"):
        if key not in section:
            raise UserError(f"params.config.{key} is missing.", [f"add {key}: to the config"])
    return Job(config, named, engine, seed, "\n".join(lines))


def probe(python: str, env: str) -> tuple[dict[str, str], list[str]]:
    """Versions of what the interpreter has, and whether its EnvPool knows the environment."""
    try:
        done = subprocess.run([python, "-c", PROBE, env], capture_output=True, text=True, timeout=120, check=True)
        versions, pools = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise UserError(f"{python} cannot be used as an interpreter: {error}.", ["--python PATH"]) from None
    if "rl-games" not in versions:
        raise UserError(
            f"rl_games is not installed for {python}.",
            [f"{python} -m pip install rl-games", "--python .venv-peers/bin/python"],
        )
    return versions, pools


def start(job: Job, python: str, run_dir: str | None, options: OutputOptions) -> int:
    """A new run; returns the exit code."""
    resolved, plan = plan_job(job)
    run = create_run_dir(resolved, plan, run_dir, run_name(job.env, "rl_games", job.seed))
    if job.block and not options.quiet:
        print(job.block, file=options.stream, flush=True)
    section = job.config["params"]["config"]
    section |= {"train_dir": str(run.path.resolve()), "full_experiment_name": FOLDER}
    body = {"config": job.config, "env": job.env, "engine": job.engine, "seed": job.seed, "python": python}
    write_atomically(run.path / JOB, json.dumps(body, indent=2).encode())
    return _run(run, plan, body, None, options)


def resume(path: str, python: str | None, options: OutputOptions, trust: bool = False) -> int:
    """Goes on from the checkpoint that rl_games saved last: weights, optimiser and counters, not the environments."""
    run, _, plan = open_run(path)
    try:
        body = read_json(run.path / JOB)
        config = body["config"]["params"]["config"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(
            f"{run} is no run of rl_games: it has no readable {JOB}.", [f"batchwright resume {run}"]
        ) from None
    checkpoint = run.path / FOLDER / CHECKPOINT
    if not checkpoint.is_file():
        raise UserError(f"{run} has no checkpoint {FOLDER}/{CHECKPOINT}.", ["train anew in another --run-dir"])
    if not trust and not is_trusted(run, _identity(run)):
        raise UserError(
            f"{run} was not trained here by you: its checkpoint is a pickle of PyTorch, and loading it can run code.",
            ["--trust, if you trust its author", f"batchwright report {run}"],
        )
    body |= {"python": python or body["python"]}
    # Paths of a stranger's job are not followed: the run lies where it was found.
    config |= {"train_dir": str(run.path.resolve()), "full_experiment_name": FOLDER}
    return _run(run, plan, body, checkpoint, options)


def _run(run: RunDir, plan: Plan, body: dict[str, Any], checkpoint: Path | None, options: OutputOptions) -> int:
    with run.lock(), EventLog(run.events_path) as events:
        past = read_metrics(run.metrics_path) if checkpoint else []
        recorder = ForeignRecorder(run, plan, events, options)
        recorder.restore(past)
        if checkpoint is None:
            recorder.show_plan_warnings()
        else:
            events.record("resume", len(past), f"from {FOLDER}/{CHECKPOINT}")
        last, asked = len(past) - 1, False
        try:
            with (
                stop_when_asked(lambda text: recorder.display.note(text, warning=True)) as stop_requested,
                _child(run, body, checkpoint) as (process, lines),
            ):
                for line in lines:
                    record = json.loads(line)
                    if "saved" in record:
                        remember(run, _identity(run))
                        continue
                    if record["iteration"] <= last:  # a kill came after the checkpoint: these epochs are made again
                        _cut_back(recorder, past, record["iteration"])
                    last = record["iteration"]
                    recorder.on_record(record)
                    if stop_requested() and not asked:
                        asked = True
                        process.terminate()  # it saves after its epoch
                code = process.wait()
            recorder.final_advice(last)
        finally:
            recorder.close()
        remember(run, _identity(run))
        return _end(run, plan, events, code, last, options)


def _cut_back(recorder: RunRecorder, past: Sequence[Mapping[str, Any]], iteration: int) -> None:
    """Drops the records from this iteration on."""
    dropped = recorder.cut_after(iteration - 1)
    recorder.restore([record for record in past if record["iteration"] < iteration])
    recorder.on_warning("resume", iteration, f"the checkpoint is older than the record: {dropped} epochs again")


def _identity(run: RunDir) -> str:
    """A name for what a resume would run: the job, with its interpreter, and the checkpoint."""
    digest = hashlib.sha256()
    for path in (run.path / JOB, run.path / FOLDER / CHECKPOINT):
        with contextlib.suppress(OSError), os.fdopen(open_plain(path), "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"rl_games-{digest.hexdigest()}:resume"


@contextlib.contextmanager
def _child(
    run: RunDir, body: dict[str, Any], checkpoint: Path | None
) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[str]]]:
    """The other process, and the lines of its records; its own output goes to a file of the run."""
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    job = folder / "job.json"
    write_atomically(
        job,
        json.dumps(body | {"checkpoint": str(checkpoint) if checkpoint else None, "folder": str(folder)}).encode(),
    )
    reading, writing = os.pipe()
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    env = {"OMP_NUM_THREADS": "1"} | os.environ | {"PYTHONPATH": path}  # small networks are slower on several threads
    command = [body["python"], "-m", "batchwright.adapters.rl_games_child", str(job), str(writing)]
    with (folder / "output.txt").open("ab") as output, os.fdopen(reading, encoding="utf-8") as lines:
        try:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                pass_fds=(writing,),
                env=env,
                start_new_session=True,  # Ctrl-C reaches it through us, so that it saves once
            )
        finally:
            os.close(writing)
        try:
            yield process, iter(lines)
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                process.kill()


def _end(run: RunDir, plan: Plan, events: EventLog, code: int, last: int, options: OutputOptions) -> int:
    output = run.path / FOLDER / "output.txt"
    if code not in (0, STOPPED_BY_SIGNAL):
        lines = output.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"exit code {code}"
        events.record("failed", max(0, last), reason)
        raise UserError(f"rl_games ended with an error: {reason[:300]} Its output: {output}", ["read its output"])
    finished = code == 0 and last + 1 >= plan["iterations"]
    kind = FINISHED if code == 0 else INTERRUPTED
    events.record(kind, max(0, last), f"{kind} after iteration {last + 1}")
    if not options.quiet:
        how = "finished" if finished else kind
        more = "" if code == 0 else f"; go on with: batchwright rl-games --resume {run}"
        print(f"{how} after epoch {last + 1}: {run}{more}", file=options.stream)
    return code
