"""Records that are being written, cut, torn or lost are read and shown as far as possible, without exceptions."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import ADVICE, append, event, line, make_run

from batchwright.core.run_dir import RunDir
from batchwright.web.columns import Columns, buckets, last_of_buckets, rounded, rows_per_bucket
from batchwright.web.describe import curves, details
from batchwright.web.folder import Folder
from batchwright.web.record import RunRecord
from batchwright.web.tail import Tail


def read(run: Path) -> RunRecord:
    record = RunRecord(Folder(run.parent), run.name)
    record.refresh()
    record.read_metrics()
    return record


def tail_of(path: Path) -> Tail:
    return Tail(Folder(path.parent), path.name)


def test_only_what_was_appended_since_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = tail_of(path)
    assert tail.read() == []
    append(path, {"a": 1}, {"a": 2})
    assert [value["a"] for value in tail.read()] == [1, 2]
    assert tail.read() == []
    append(path, {"a": 3})
    assert [value["a"] for value in tail.read()] == [3]


def test_a_torn_last_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2, "b": "\xc3')
    tail = tail_of(path)
    assert tail.read() == [{"a": 1}]
    assert tail.is_torn
    with path.open("ab") as file:
        file.write(b'\xa9"}')  # a crash may also leave out only the end of the line
    assert tail.read() == [{"a": 2, "b": "\u00e9"}]
    assert not tail.is_torn
    assert tail.unreadable == 0


@pytest.mark.parametrize("how", ["cut", "replaced", "cut and grown again", "removed"])
def test_a_record_that_is_no_longer_the_same_starts_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "a.jsonl"
    append(path, *({"a": i} for i in range(100)))
    tail = tail_of(path)
    before = tail.generation
    assert len(tail.read()) == 100
    if how == "cut":
        os.truncate(path, len('{"a": 0}\n') * 5)
        expected = list(range(5))
    elif how == "replaced":
        path.unlink()
        append(path, *({"a": i + 500} for i in range(200)))
        expected = list(range(500, 700))
    elif how == "cut and grown again":
        os.truncate(path, len('{"a": 0}\n') * 5)
        append(path, *({"a": i} for i in range(1000, 1200)))
        expected = [*range(5), *range(1000, 1200)]
    else:
        path.unlink()
        expected = []
    assert [value["a"] for value in tail.read()] == expected
    assert tail.generation != before


def test_lines_that_are_no_objects_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\nnot json\n[1, 2]\n\n\x00\xff\n{"a": NaN}\n' + b"[" * 5000 + b"\n" + b'{"a": 2}\n')
    tail = tail_of(path)
    assert [value["a"] for value in tail.read()][0::2] == [1, 2]
    assert tail.unreadable == 4


def test_a_large_record_comes_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    append(path, *({"a": i, "text": "x" * 1000} for i in range(3000)))
    tail = tail_of(path)
    pieces = [tail.read(budget_seconds=0.0)]
    assert 0 < len(pieces[0]) < 3000
    assert not tail.is_complete
    while not tail.is_complete:
        pieces.append(tail.read(budget_seconds=0.0))
    assert [value["a"] for piece in pieces for value in piece] == list(range(3000))


def test_buckets_hold_the_lowest_the_mean_and_the_highest() -> None:
    found = buckets(np.array([1.0, 3.0, np.nan, 5.0, np.inf, np.nan, 7.0]), 2)
    # Pairs (1, 3), (nothing, 5), (infinite, nothing), and 7 alone.
    np.testing.assert_array_equal(found["mean"], [2, 5, np.nan, 7])
    np.testing.assert_array_equal(found["low"], [1, 5, np.nan, 7])
    np.testing.assert_array_equal(found["high"], [3, 5, np.nan, 7])
    np.testing.assert_array_equal(last_of_buckets(np.arange(7.0), 2), [1, 3, 5, 6])
    assert rounded(found["mean"]) == [2.0, 5.0, None, 7.0]


def test_few_digits_are_those_of_printing() -> None:
    values = np.array(
        [*(np.random.default_rng(0).normal(size=2000) * 10.0 ** np.arange(-300, 300, 0.3)), 0.0, 1e308, 5e-324]
    )
    assert [f"{short:.6g}" for short in rounded(values)] == [f"{value:.6g}" for value in values.tolist()]
    assert max(len(repr(short)) for short in rounded(values[970:1030])) < 14
    assert rounded([np.inf, -np.inf, np.nan]) == [None, None, None]


def test_a_spike_of_one_row_in_a_million_stays_visible() -> None:
    values = np.zeros(1_000_000)
    values[123_456] = 50.0
    size = rows_per_bucket(len(values), 512)
    found = buckets(values, size)
    assert len(found["mean"]) <= 512
    assert found["high"].max() == 50.0


def test_the_later_buckets_of_a_growing_record_join_the_earlier_ones(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 1000)
    record = read(run)
    first = curves(record, 512)
    assert (first["size"], first["whole"]) == (2, 500)
    append(run / "metrics.jsonl", *(line(i) for i in range(1000, 1011)))
    record.read_metrics()
    later = curves(record, 512, tuple(first[name] for name in ("generation", "metrics", "size", "whole")))
    whole = curves(record, 512)
    assert later["start"] == 500
    assert len(later["mean"]["policy_loss"]) == 6
    for part in ("axes", "mean", "low", "high"):
        for name, values in later[part].items():
            assert first[part][name] + values == whole[part][name], name


def test_a_digest_is_no_curve_even_if_it_has_only_digits(tmp_path: Path) -> None:
    record = read(make_run(tmp_path / "run", 5))
    assert "parameters_digest" not in record.columns.names()
    assert record.columns["episode_return"].tolist() == [0, 10, 20, 30, 40]


def test_seconds_of_training_are_the_sum_of_the_parts(tmp_path: Path) -> None:
    record = read(make_run(tmp_path / "run", 3))
    assert record.columns.axes()["training_seconds"].tolist() == [1.0, 2.0, 3.0]


def test_two_writers_are_noticed_and_the_first_of_each_iteration_is_shown(tmp_path: Path) -> None:
    lines = [line(i, episode_return=float(writer)) for i in range(5) for writer in (1, 2)]
    record = read(make_run(tmp_path / "run", lines))
    assert record.columns["episode_return"].tolist() == [1.0] * 5
    assert any("5 lines repeat an earlier iteration (two writers?)" in note for note in record.notes())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plan.json", b"{"),
        ("plan.json", b"[]"),
        ("plan.json", b'{"quantities": {"seed": 3, "iterations": {"value": "many"}}, "warnings": 5}'),
        ("plan.json", b"\xff\xfe"),
        ("plan.json", None),
        ("config.yaml", b"env: [unclosed"),
        ("config.yaml", b"env: {a: b}"),
        ("config.yaml", None),
        ("metrics.jsonl", None),
        ("metrics.jsonl", b""),
        ("metrics.jsonl", b'{"iteration": "x"}\n{"iteration": 1e400}\n{"iteration": -1}\n{"env_steps": 3}\n'),
        ("metrics.jsonl", b'{"iteration": 0, "loss": ' + b"9" * 400 + b', "entropy": {"a": 1}, "kl": "high"}\n'),
        ("metrics.jsonl", b'{"iteration": 0, "env_steps": 1e308, "steps_per_second": -1e308, "episode_return": "?"}\n'),
        ("events.jsonl", b'{"kind": 5}\n{"kind": "evaluation", "returns": "x"}\n{"kind": "advice", "flags": 3}\nzzz\n'),
        ("events.jsonl", b'{"kind": "evaluation", "iteration": null, "returns": [1, "a", NaN, 1e400]}\n'),
        ("events.jsonl", b'{"kind": "diverged", "unix_seconds": "noon", "message": {"a": 1}}\n'),
    ],
)
def test_a_broken_file_leaves_the_rest_to_be_shown(tmp_path: Path, name: str, content: bytes | None) -> None:
    run = make_run(tmp_path / "run", 3, events=[ADVICE])
    (run / name).unlink()
    if content is not None:
        (run / name).write_bytes(content)
    record = read(run)
    text = json.dumps([details(record), curves(record, 64)], allow_nan=False)
    assert "entropy-collapse" in text or name == "events.jsonl"
    if name in ("plan.json", "config.yaml") and content in (None, b"{", b"[]", b"env: [unclosed"):
        assert any(name in note for note in record.notes())


def test_a_record_without_steps_is_drawn_over_iterations_with_a_note(tmp_path: Path) -> None:
    lines = [{"iteration": i, "reward": float(i)} for i in range(4)]
    record = read(make_run(tmp_path / "run", lines))
    assert list(curves(record, 64)["axes"]) == ["iteration"]
    assert any("drawn over iterations" in note for note in record.notes())


def test_clock_jumps_are_noted(tmp_path: Path) -> None:
    events = [event("checkpoint", 5000), event("checkpoint", 10)]
    run = make_run(tmp_path / "run", 3, events=events)
    ahead = time.time() + 10_000
    os.utime(run / "metrics.jsonl", (ahead, ahead))
    notes = " ".join(read(run).notes())
    assert "the clock was set back by 4,990 s" in notes
    assert "lie in the future" in notes


def test_more_metrics_than_anybody_logs_are_cut_with_a_note(tmp_path: Path) -> None:
    columns = Columns()
    columns.extend([{"iteration": 0, **{f"m{i}": 1.0 for i in range(3000)}}])
    assert len(columns.names()) < 1500
    assert columns.left_out


@pytest.mark.parametrize(
    ("expected", "lines", "events"),
    [
        ("planned", 0, []),
        ("crashed", 5, []),
        ("crashed", 5, [event("checkpoint", 3, "scheduled")]),
        ("finished", 20, []),
        ("finished", 5, [event("finished", 4)]),
        ("stopped", 5, [event("finished", 4, reason="return reached")]),
        ("interrupted", 5, [event("interrupted", 4)]),
        ("interrupted", 5, [event("checkpoint", 4, "asked for by a signal")]),
        ("diverged", 5, [event("diverged", 4)]),
        ("crashed", 7, [event("diverged", 4), event("resume", 4)]),
    ],
)
def test_the_status_of_a_run_follows_from_its_record(
    tmp_path: Path, expected: str, lines: int, events: list[dict[str, Any]]
) -> None:
    assert read(make_run(tmp_path / "run", lines, events=events)).summary()["status"] == expected


def test_a_run_is_running_while_its_lock_is_held_by_anybody(tmp_path: Path) -> None:
    run = RunDir(make_run(tmp_path / "run", 5))
    assert run.is_locked() is False
    ready, leave = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        with run.lock():
            os.write(ready[1], b"x")
            os.read(leave[0], 1)
        os._exit(0)
    try:
        os.read(ready[0], 1)
        assert read(run.path).status() == "running"
    finally:
        os.write(leave[1], b"x")
        os.waitpid(child, 0)
    assert read(run.path).status() == "crashed"
    with run.lock():
        assert read(run.path).status() == "running"
        assert run.is_locked(), "asking must not free the lock of the asking process"


def test_nothing_outside_the_folder_is_read_through_links(tmp_path: Path) -> None:
    secret = tmp_path / "secret.jsonl"
    append(secret, line(0, episode_return=666.0))
    runs = tmp_path / "runs"
    run = make_run(runs / "run", 0)
    (run / "metrics.jsonl").unlink()
    (run / "metrics.jsonl").symlink_to(secret)
    make_run(tmp_path / "elsewhere" / "other", 3)
    (runs / "linked").symlink_to(tmp_path / "elsewhere" / "other")
    (runs / "nested").mkdir()
    (runs / "nested" / "linked").symlink_to(tmp_path / "elsewhere")
    folder = Folder(runs)
    assert folder.run_names() == (["run"], 2)
    assert read(run).columns.rows == 0
    for name in (
        "../secret.jsonl",
        "run/../../secret.jsonl",
        "/etc/passwd",
        "linked/plan.json",
        "run/metrics.jsonl",
        "",
        ".",
    ):
        with pytest.raises(OSError):
            folder.open_file(name)


def test_a_pipe_in_place_of_a_record_does_not_stop_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", 0)
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert read(run).columns.rows == 0


def test_runs_in_folders_of_the_folder_are_found(tmp_path: Path) -> None:
    for name in ("b", "sweep/trial-1", "sweep/deep/x", "too/deep/to/find"):
        make_run(tmp_path / name, 1)
    assert Folder(tmp_path).run_names()[0] == ["b", "sweep/deep/x", "sweep/trial-1"]
