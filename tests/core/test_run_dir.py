"""The run directory: who may make it, find it and write into it; files that are whole or not there."""

import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest

from batchwright.core.errors import UserError
from batchwright.core.files import DiskFull, explain_full_disk, sweep_temporaries, write_atomically
from batchwright.core.run_dir import RunDir, find_runs, run_name

NOON = datetime(2026, 11, 16, 12, 0, 0)


def make_run(path: Path) -> RunDir:
    run = RunDir.create(path, "")
    write_atomically(run.config_path, b"{}\n")
    write_atomically(run.plan_path, b"{}\n")
    return run


def test_a_run_is_named_after_environment_algorithm_seed_and_time(tmp_path: Path) -> None:
    run = RunDir.create(None, run_name("CartPole-v1", "ppo", 3), root=tmp_path / "runs", now=NOON)
    assert run.path == tmp_path / "runs" / "CartPole-v1-ppo-s3-20261116-120000"
    assert run.path.is_dir()


def test_two_runs_of_the_same_second_get_two_directories(tmp_path: Path) -> None:
    names = [RunDir.create(None, "a", root=tmp_path, now=NOON).path.name for _ in range(3)]
    assert names == ["a-20261116-120000", "a-20261116-120000-2", "a-20261116-120000-3"]


@pytest.mark.parametrize(
    ("env", "name"),
    [
        ("ALE/Pong-v5", "ALE-Pong-v5-ppo-s0"),
        ("mymodule:MyEnv-v0", "mymodule-MyEnv-v0-ppo-s0"),
        ("../../path/to/env.py:make_env", "env.py-make_env-ppo-s0"),
        ("../../etc", "etc-ppo-s0"),
        ("$(rm -rf) ;", "rm-rf-ppo-s0"),
        ("..", "env-ppo-s0"),
    ],
)
def test_the_name_of_an_environment_cannot_leave_the_runs_folder(env: str, name: str) -> None:
    assert run_name(env, "ppo", 0) == name


def test_the_files_of_a_run_lie_where_the_design_says(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    paths = (run.config_path, run.plan_path, run.metrics_path, run.events_path, run.checkpoints, run.report_path)
    names = ["config.yaml", "plan.json", "metrics.jsonl", "events.jsonl", "checkpoints", "report.html"]
    assert [path.name for path in paths] == names
    assert all(path.parent == tmp_path for path in paths)


def test_a_new_or_an_empty_directory_is_taken(tmp_path: Path) -> None:
    assert RunDir.create(tmp_path / "deep" / "new", "").path.is_dir()
    assert RunDir.create(tmp_path / "deep" / "new", "").path.is_dir()


def test_a_full_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="is not a run directory, and not empty"):
        RunDir.create(tmp_path, "")


def test_a_directory_that_holds_a_run_is_refused_with_the_command_to_go_on(tmp_path: Path) -> None:
    make_run(tmp_path / "run")
    with pytest.raises(UserError, match="holds a run already") as refused:
        RunDir.create(tmp_path / "run", "")
    assert refused.value.fixes[0] == f"batchwright resume {tmp_path / 'run'}"


def test_a_file_in_place_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError):
            RunDir.create(path, "")


def test_an_existing_run_is_opened(tmp_path: Path) -> None:
    made = make_run(tmp_path / "run")
    assert RunDir.open(str(tmp_path / "run")) == made


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "config.yaml").write_text("")
    (tmp_path / "empty").mkdir()
    for name, reason in (
        ("missing", "it does not exist"),
        ("file", "it is a file"),
        ("half", "it has no plan.json beside its config.yaml: preparing it was cut short, nothing was trained"),
        ("empty", "it has no config.yaml and no plan.json"),
    ):
        with pytest.raises(UserError, match=f"{name} is not a run directory: {reason}"):
            RunDir.open(tmp_path / name)


def test_a_mistyped_run_is_answered_with_the_nearest(tmp_path: Path) -> None:
    for name in ("CartPole-v1-ppo-s0", "Hopper-v5-ppo-s1"):
        make_run(tmp_path / name)
    with pytest.raises(UserError) as refused:
        RunDir.open(tmp_path / "CartPole-v1-ppo-s1")
    assert refused.value.fixes[0] == str(tmp_path / "CartPole-v1-ppo-s0")


def test_the_folder_of_runs_and_a_file_of_a_run_lead_to_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "only")
    for path in (tmp_path, run.config_path):
        with pytest.raises(UserError) as refused:
            RunDir.open(path)
        assert refused.value.fixes == (str(run),)


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    for age_seconds, name in ((30, "old"), (10, "new"), (20, "middle")):
        run = make_run(tmp_path / name)
        os.utime(run.plan_path, (10**9 - age_seconds, 10**9 - age_seconds))
    (tmp_path / "other").mkdir()
    assert [run.path.name for run in find_runs(tmp_path)] == ["new", "middle", "old"]
    assert find_runs(tmp_path / "nowhere") == []


HOLDER = """
import os, sys, time
from pathlib import Path
from batchwright.core.run_dir import RunDir
with RunDir(Path(sys.argv[1])).lock():
    worker = os.fork() if len(sys.argv) > 2 else 1
    if worker:
        print(worker, flush=True)
    time.sleep(60)
"""


def hold_lock(path: Path, *options: str) -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(path), *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_two_processes_cannot_write_into_one_run(tmp_path: Path) -> None:
    holder, _ = hold_lock(tmp_path)
    try:
        with pytest.raises(UserError, match=f"process {holder.pid} is training into"), RunDir(tmp_path).lock():
            pass
    finally:
        holder.kill()
        holder.wait()
    with RunDir(tmp_path).lock():
        pass


def test_a_worker_that_outlives_its_killed_trainer_does_not_keep_the_lock(tmp_path: Path) -> None:
    holder, worker = hold_lock(tmp_path, "fork")
    holder.kill()
    holder.wait()
    try:
        with RunDir(tmp_path).lock():
            pass
    finally:
        os.kill(worker, signal.SIGKILL)


def test_one_process_cannot_lock_a_run_twice_but_again_after_an_error(tmp_path: Path) -> None:
    with RunDir(tmp_path).lock():
        with pytest.raises(UserError, match="already"), RunDir(tmp_path / ".").lock():
            pass
        holder = subprocess.run([sys.executable, "-c", HOLDER, str(tmp_path)], capture_output=True, check=False)
        assert holder.returncode == 1  # the refused second attempt left the first lock in place
    with pytest.raises(KeyError), RunDir(tmp_path).lock():
        raise KeyError
    with RunDir(tmp_path).lock():
        pass


def test_a_directory_with_nothing_but_a_lock_counts_as_empty(tmp_path: Path) -> None:
    with RunDir(tmp_path).lock():
        pass
    assert RunDir.create(tmp_path, "").path == tmp_path


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    for content in (b"old", b"new and longer", b""):
        write_atomically(path, content)
        assert path.read_bytes() == content
        assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


def test_an_error_half_way_leaves_the_old_file_and_no_temporary(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(OSError):  # a folder is not replaced by a file
        write_atomically(tmp_path / "kept", b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept"]


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".plan.json.99999999-0.tmp").write_bytes(b"half")
    write_atomically(tmp_path / "plan.json", b"whole")
    assert sweep_temporaries(tmp_path) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["plan.json"]


REWRITE = """
import sys
from pathlib import Path
from batchwright.core.files import write_atomically
path = Path(sys.argv[1])
while True:
    for letter in (b"a", b"b"):
        write_atomically(path, letter * 1_000_000)
        print(end=".", flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    for kill in range(6):
        writer = subprocess.Popen([sys.executable, "-c", REWRITE, str(path)], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        writer.stdout.read(1)
        time.sleep(0.0037 * kill)
        writer.kill()
        writer.wait()
        content = path.read_bytes()
        assert len(content) == 1_000_000
        assert len(set(content)) == 1
    sweep_temporaries(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint"]


FILL = """
import sys
from pathlib import Path
from batchwright.core.files import DiskFull, write_atomically
from batchwright.watch.metric_log import MetricLog, read_metrics
folder = Path(sys.argv[1])
write_atomically(folder / "checkpoint", b"good" * 1000)
log = MetricLog(folder / "metrics.jsonl")
try:
    write_atomically(folder / "checkpoint", b"more" * 100_000)
except DiskFull as error:
    print(error)
assert (folder / "checkpoint").read_bytes() == b"good" * 1000
assert sorted(entry.name for entry in folder.iterdir()) == ["checkpoint", "metrics.jsonl"]
made = 0
try:
    for made in range(100_000):
        log.record({"iteration": made, "env_steps": made, "text": "x" * 1000})
except DiskFull as error:
    print(error)
records = read_metrics(log.path)
assert len(records) == made > 0 and records.unreadable == 0, (len(records), made)
(folder / "checkpoint").unlink()
log.record({"iteration": made, "env_steps": made})
assert len(read_metrics(log.path)) == made + 1 and read_metrics(log.path).unreadable == 0
print("held")
"""


def test_a_disk_that_is_really_full_costs_the_new_file_and_nothing_else(tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=128k none "$1" && exec {sys.executable} -c "$2" "$1"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", str(tmp_path), FILL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    assert done.stdout.endswith("held\n"), done.stderr
    assert "No space left on device. It needs 400,000 bytes;" in done.stdout
    assert "bytes are free" in done.stdout


def test_a_full_disk_is_told_with_the_path_and_other_errors_pass(tmp_path: Path) -> None:
    full = Path("/dev/full")
    with pytest.raises(DiskFull, match="cannot write /dev/full: No space left on device"), explain_full_disk(full):
        full.write_bytes(b"x")
    with pytest.raises(FileNotFoundError), explain_full_disk(tmp_path):
        (tmp_path / "missing").read_bytes()
