"""Run directories from somebody else: links, pipes and devices in them, and damage; nothing outside is touched."""

from __future__ import annotations

import encodings.cp437  # noqa: F401 - of zip files: not to be looked for when nothing may be read
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import batchwright
from batchwright.data.plain_arrays import read_npz
from batchwright.runs import checkpoints
from batchwright.watch.metric_log import read_events, read_metrics
from run_batchwright import refusal, run
from small_runs import record, start


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 12 iterations with checkpoints 4, 8 and 12."""
    return start(tmp_path_factory.mktemp("runs") / "whole", checkpoint_every=4).run_dir


@pytest.fixture
def cut(whole: Path, tmp_path: Path) -> Path:
    """The same as a kill after iteration 8 leaves it."""
    copy = tmp_path / "runs" / "cut"
    shutil.copytree(whole, copy)
    shutil.rmtree(copy / "checkpoints" / "000000012")
    keep(copy / "metrics.jsonl", lambda line: line["iteration"] < 10)
    keep(copy / "events.jsonl", lambda event: event["kind"] != "finished" and event["iteration"] < 10)
    return copy


def keep(path: Path, wanted: Callable[[dict], bool]) -> None:
    lines = [line for line in path.read_text().splitlines() if wanted(json.loads(line))]
    path.write_text("".join(f"{line}\n" for line in lines))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def photos(folder: Path) -> Path:
    """A folder of somebody who trains nothing, with names that look like ours."""
    (folder / "2019").mkdir(parents=True)
    (folder / "2019" / "beach.jpg").write_bytes(b"sand")
    (folder / "000000001").mkdir()
    (folder / "000000001" / "notes.txt").write_bytes(b"mine")
    (folder / "000000000000-000000000008.npz").write_bytes(b"mine")
    (folder / "precious.txt").write_bytes(b"do not lose\n")
    return folder


LINKS = (
    ".lock",
    "events.jsonl",
    "metrics.jsonl",
    "episodes.jsonl",
    "config.yaml",
    "plan.json",
    "checkpoints",
    "checkpoints/shared",
)


@pytest.mark.parametrize("name", [*LINKS, "checkpoints/000000008", "checkpoints/000000008/state.npz"])
def test_a_link_below_a_run_is_refused_and_what_it_leads_to_stays(cut: Path, tmp_path: Path, name: str) -> None:
    outside = photos(tmp_path / "photos")
    place = cut / name
    if place.is_dir():
        shutil.rmtree(place)
        place.symlink_to(outside)
    else:
        content = place.read_bytes() if place.exists() else b""
        (outside / "copy").write_bytes(content)  # even with the right content a link is not followed
        place.unlink(missing_ok=True)
        place.symlink_to(outside / "copy")
    before, inside = tree(outside), tree(cut)
    answer = refusal(f"resume {cut}")
    assert "is a symbolic link" in answer.err
    assert tree(outside) == before
    assert tree(cut) | {".lock": b""} == inside | {".lock": b""}, "the run itself is as it was"


@pytest.mark.parametrize("name", ["events.jsonl", "checkpoints/000000008/manifest.json", "plan.json"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_a_pipe_a_device_or_a_folder_in_place_of_a_file_is_refused_at_once(cut: Path, name: str, kind: str) -> None:
    (cut / name).unlink()
    if kind == "pipe":
        os.mkfifo(cut / name)
    elif kind == "folder":
        (cut / name).mkdir()
    else:
        try:
            os.mknod(cut / name, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
        except PermissionError:
            pytest.skip("devices cannot be made here")
    for command in ("resume", "eval"):
        if command == "resume" or name != "events.jsonl":  # eval reads no events
            answer = refusal(f"{command} {cut}")
            assert (f"is a {kind}" in answer.err) or "not a run directory" in answer.err


def test_a_run_that_is_reached_through_a_link_goes_on(cut: Path, whole: Path, tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to(cut.parent)
    batchwright.resume(tmp_path / "here" / "cut", quiet=True)
    assert record(cut) == record(whole)


def test_folders_of_the_user_beside_checkpoints_are_neither_counted_nor_removed(cut: Path, whole: Path) -> None:
    mine = [cut / "checkpoints" / name for name in ("000000002-best", "2024-notes", "12", "\u0660" * 9)]
    for folder in mine:
        folder.mkdir()
        (folder / "kept.txt").write_text("mine")
    batchwright.resume(cut, quiet=True)
    assert record(cut) == record(whole)
    assert all((folder / "kept.txt").read_text() == "mine" for folder in mine)
    assert not [event for event in read_events(cut / "events.jsonl") if "damaged" in event["message"]]


def test_what_killed_writers_left_is_removed_by_the_next_resume_and_nothing_else(cut: Path) -> None:
    left = [cut / ".report.html.99999999-0.tmp", cut / "checkpoints" / ".metrics.csv.99999999-3.tmp"]
    mine = [cut / ".notes.tmp", cut / ".draft.of-mine.tmp", cut / f".report.html.{os.getppid()}-0.tmp"]
    for path in (*left, *mine):
        path.write_bytes(b"x")
    (cut / "checkpoints" / ".000000011.partial").mkdir()
    batchwright.resume(cut, quiet=True)
    assert not any(path.exists() for path in left)
    assert not (cut / "checkpoints" / ".000000011.partial").exists()
    assert all(path.exists() for path in mine), "a writer that lives is left alone"


def edit_manifest(checkpoint: Path, change: Callable[[dict], object]) -> None:
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    change(manifest)
    (checkpoint / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("versions"),
        lambda manifest: manifest.pop("iteration"),
        lambda manifest: manifest.update(iteration="8"),
        lambda manifest: manifest.update(versions=["jax"]),
        lambda manifest: manifest.update(format=None),
        lambda manifest: manifest.update(sha256={}),
        lambda manifest: manifest["sha256"].update({"../../config.yaml": "0"}),
        lambda manifest: manifest.update(shared=7),
    ],
)
def test_a_manifest_with_a_wrong_field_is_damage(cut: Path, change: Callable[[dict], object]) -> None:
    edit_manifest(cut / "checkpoints" / "000000008", change)
    said: list[str] = []
    found = checkpoints.load_named(cut / "checkpoints", said.append)
    assert found is not None and found[1]["iteration"] == 4
    assert len(said) == 1 and said[0].startswith("checkpoint 000000008 is damaged (")


def test_brackets_without_end_are_damage(cut: Path) -> None:
    (cut / "checkpoints" / "000000008" / "manifest.json").write_text("[" * 100_000)
    with (cut / "metrics.jsonl").open("a") as file:
        file.write("[" * 100_000 + "\n" + '{"a":' * 100_000 + "\n")
    answer = run("eval", str(cut), "--episodes", "1")
    assert answer.code == 0
    assert answer.err.startswith("warning: checkpoint 000000008 is damaged (it is nested too deeply); using 000000004")
    assert read_metrics(cut / "metrics.jsonl").unreadable == 2
    (cut / "plan.json").write_text("[" * 100_000)
    assert "plan.json is damaged: it is nested too deeply" in refusal(f"resume {cut}").err
    (cut / "config.yaml").write_text("[" * 30_000)
    assert "nested too deeply" in refusal(f"resume {cut}").err


def test_a_format_of_a_later_version_is_refused(cut: Path) -> None:
    edit_manifest(cut / "checkpoints" / "000000008", lambda manifest: manifest.update(format=99))
    assert "has format 99; this version of Batchwright reads format 2" in refusal(f"resume {cut}").err


def forge(checkpoint: Path, name: str, content: bytes) -> None:
    """Puts another array into a checkpoint, its hash corrected."""
    import hashlib

    state = checkpoint / "state.npz"
    with zipfile.ZipFile(state) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    with zipfile.ZipFile(state, "w") as archive:
        for member, data in {**members, f"{name}.npy": content}.items():
            archive.writestr(member, data)
    digest = hashlib.sha256(state.read_bytes()).hexdigest()
    edit_manifest(checkpoint, lambda manifest: manifest["sha256"].update({"state.npz": digest}))


def npy(array: np.ndarray, path: Path) -> bytes:
    np.save(path, array)
    return path.read_bytes()


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(10,)", f"({10**30},)", f"({2**40}, {2**40})", "(-1,)"])
def test_a_shape_that_the_file_does_not_hold_is_never_allocated(cut: Path, tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"1234"
    forge(cut / "checkpoints" / "000000008", ".train.params", content)
    answer = run("eval", str(cut), "--episodes", "1")
    assert answer.code == 0
    assert "checkpoint 000000008 is damaged (an array of shape" in answer.err
    assert "using 000000004" in answer.err


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        (".train.params", np.zeros(7, np.float32), "the checkpoint's .train.params has shape (7,)"),
        (".obs.mean", np.zeros(4, np.int64), "the checkpoint's .obs.mean holds int64"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(cut: Path, tmp_path: Path, name: str, array: np.ndarray, said: str) -> None:
    forge(cut / "checkpoints" / "000000008", name, npy(array, tmp_path / "array.npy"))
    assert said in refusal(f"resume {cut}").err
    assert f"does not fit its plan: {name} is" in refusal(f"eval {cut}").err


@pytest.mark.parametrize("array", [np.array(-5), np.array(8.0), np.array(["8"]), np.array([8])])
def test_a_counter_that_counts_nothing_is_damage(cut: Path, tmp_path: Path, array: np.ndarray) -> None:
    forge(cut / "checkpoints" / "000000008", ".counters.env_steps", npy(array, tmp_path / "array.npy"))
    said: list[str] = []
    found = checkpoints.load_named(cut / "checkpoints", said.append)
    assert found is not None and found[1]["iteration"] == 4
    assert said


def test_arrays_are_read_as_numpy_reads_them(cut: Path) -> None:
    path = cut / "checkpoints" / "000000008" / "state.npz"
    found = read_npz(path, 3)
    with np.load(path) as stored:
        assert set(stored.files) == set(found)
        for name in stored.files:
            assert stored[name].dtype == found[name].dtype
            np.testing.assert_array_equal(stored[name], found[name])


WRONG = [
    '{"kind": "evaluation", "iteration": 11, "message": "mean 9"}',
    '{"kind": "non-finite", "message": "reward is nan"}',
    '{"kind": "advice", "iteration": "x", "message": 7}',
    '{"kind": 3}',
    "7",
    "{}",
]


def test_wrong_fields_in_a_record_are_passed_over_and_counted(whole: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(whole, copy)
    with (copy / "events.jsonl").open("a") as file:
        file.writelines(f"{line}\n" for line in WRONG)
    lines = (copy / "metrics.jsonl").read_text().splitlines()
    odd = ['{"iteration": "x", "env_steps": 64}', '{"iteration": 11}', '{"iteration": -1, "env_steps": 0}']
    text = json.loads(lines[5]) | {"episode_return": "high", "steps_per_second": [], "surplus_steps": "2", "kl": {}}
    lines[5] = json.dumps(text)
    (copy / "metrics.jsonl").write_text("\n".join([*odd, *lines]) + "\n")
    for command in (f"doctor {copy}", f"report {copy}", f"compare {copy} {whole}", f"resume {copy}"):
        answer = run(*command.split())
        assert answer.code == 0, (command, answer.err)
    assert "3 lines of metrics.jsonl cannot be read" in run("doctor", str(copy)).out
    assert "5 lines of events.jsonl cannot be read" in run("doctor", str(copy)).out


@pytest.mark.parametrize(
    "change",
    [
        {"algo": None},
        {"quantities": []},
        {"warnings": 3},
        {"task": {"obs_shape": "4"}},
        {"quantities": {"seed": {"value": "x", "unit": "", "reason": "", "source": ""}}},
    ],
)
def test_a_plan_with_a_wrong_field_is_refused_and_diagnosed_without_it(cut: Path, change: dict) -> None:
    plan = json.loads((cut / "plan.json").read_text())
    (cut / "plan.json").write_text(json.dumps(plan | change))
    assert "plan.json is damaged: it" in refusal(f"resume {cut}").err
    assert "the plan cannot be read (it" in run("doctor", str(cut)).out
    assert run("report", str(cut)).code == 0


def test_a_plan_that_lacks_a_number_is_refused(cut: Path) -> None:
    plan = json.loads((cut / "plan.json").read_text())
    del plan["quantities"]["seed"]
    (cut / "plan.json").write_text(json.dumps(plan))
    assert "the plan has no seed" in refusal(f"resume {cut}").err


class Unprivileged:
    """This process as a user who may not do everything."""

    def __enter__(self) -> None:
        if os.geteuid() == 0:
            os.seteuid(65534)
        self._was_root = os.getuid() == 0

    def __exit__(self, *error: object) -> None:
        if self._was_root:
            os.seteuid(0)


def test_files_that_may_not_be_read_or_written_are_named(cut: Path, tmp_path: Path) -> None:
    for path in (tmp_path.parent.parent, tmp_path.parent, tmp_path):
        path.chmod(0o755)
    with Unprivileged():
        if os.geteuid() != 0:
            for command in ("resume", "eval --episodes 1 --video"):
                words = command.split()
                answer = run(words[0], str(cut), *words[1:])
                assert answer.code == 2, answer
                assert "Permission denied" in answer.err
    for name in ("metrics.jsonl", "plan.json", "config.yaml"):
        (cut / name).chmod(0)
        with Unprivileged():
            assert "Permission denied" in refusal(f"compare {cut} {cut}").err
        (cut / name).chmod(0o644)


def test_a_manifest_that_names_a_file_of_5000_characters_is_said_in_a_short_message(cut: Path) -> None:
    (cut / "checkpoints" / "shared").mkdir()
    for manifest in cut.glob("checkpoints/*/manifest.json"):
        manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"shared": {"x" * 5000: "0" * 64}}))
    answer = run("eval", str(cut))
    assert answer.code == 2
    assert "File name too long" in answer.err
    assert len(answer.err) < 2000
