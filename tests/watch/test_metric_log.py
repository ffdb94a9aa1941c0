"""The record of a run: what is written is read again to the last digit, whatever happened to the end of the file."""

import json
import math
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.core.files import DiskFull
from batchwright.watch.json_lines import encode
from batchwright.watch.metric_log import (
    NOT_LOGGED,
    Difference,
    EventLog,
    MetricLog,
    first_difference,
    is_time_valued,
    read_events,
    read_metrics,
)


def write(path: Path, count: int, start: int = 0) -> None:
    with MetricLog(path) as log:
        for iteration in range(start, start + count):
            log.record({"iteration": iteration, "env_steps": 64 * (iteration + 1), "loss": 1 / (iteration + 3)})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_a_line_is_one_json_object_that_starts_with_the_counters(path: Path) -> None:
    with MetricLog(path) as log:
        log.record({"loss": 0.1, "env_steps": 64, "iteration": 0, "note": "a\nb"})
    assert path.read_text() == '{"iteration": 0, "env_steps": 64, "loss": 0.1, "note": "a\\nb"}\n'


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_read_with_the_bits_it_was_written_with(value: float) -> None:
    again = json.loads(encode({"value": value}))["value"]
    assert np.float64(again).tobytes() == np.float64(value).tobytes()


def test_the_same_values_give_the_same_bytes_whatever_their_type() -> None:
    third = np.float32(1) / np.float32(3)
    lines = {
        encode({"iteration": np.int64(3), "x": third}),
        encode({"iteration": 3, "x": float(third)}),
        encode({"iteration": np.array(3), "x": np.float64(third)}),
        encode({"iteration": 3, "x": np.array(third)}),
    }
    assert lines == {b'{"iteration": 3, "x": 0.3333333432674408}\n'}


def test_floats_that_json_lacks_are_null_and_named(path: Path) -> None:
    with MetricLog(path) as log:
        values = {"loss": math.nan, "kl": np.float32("inf"), "entropy": 0.5, "heads": [1.0, -math.inf]}
        log.record({"iteration": 0, "env_steps": 1, **values})
    assert "NaN" not in path.read_text()
    assert "Infinity" not in path.read_text()
    expected = {"iteration": 0, "env_steps": 1, "loss": None, "kl": None, "entropy": 0.5, "heads": [1.0, None]}
    assert read_metrics(path) == [expected | {"nonfinite": ["loss", "kl", "heads"]}]


def test_a_line_is_visible_to_a_reader_at_once(path: Path) -> None:
    log = MetricLog(path)
    log.record({"iteration": 0, "env_steps": 1})
    assert len(read_metrics(path)) == 1
    log.sync()
    log.close()
    log.close()


def test_a_record_without_counters_or_out_of_order_is_a_mistake_of_the_program(path: Path) -> None:
    write(path, 3)
    with MetricLog(path) as log:
        with pytest.raises(KeyError):
            log.record({"iteration": 3})
        with pytest.raises(ValueError, match="iteration 2 after 2"):
            log.record({"iteration": 2, "env_steps": 1})
    assert len(read_metrics(path)) == 3


def test_torn_blank_and_foreign_lines_are_passed_over_and_counted(path: Path) -> None:
    write(path, 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"\n  \n" + b"\xff\xfe\n" + b"[1]\n" + b'{"a": 1}\n' + lines[1] + lines[1][:20])
    records = read_metrics(path)
    assert [record["iteration"] for record in records] == [0, 1]
    assert records.unreadable == 4


def test_a_run_without_records_reads_as_empty(path: Path) -> None:
    assert read_metrics(path) == []
    path.write_bytes(b"")
    assert read_metrics(path) == []


@pytest.mark.parametrize("torn_bytes", range(1, 45))
def test_a_line_torn_at_any_byte_spoils_neither_its_neighbour_nor_the_next(path: Path, torn_bytes: int) -> None:
    write(path, 3)
    whole = path.read_bytes()
    line_bytes = len(whole) - whole[:-1].rfind(b"\n") - 1
    path.write_bytes(whole[: len(whole) - line_bytes + min(torn_bytes, line_bytes - 1)])
    with MetricLog(path) as log:
        log.cut_after(1)
    write(path, 1, start=2)
    assert path.read_bytes() == whole


def test_a_last_line_that_only_lacks_its_end_is_kept(path: Path) -> None:
    write(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    MetricLog(path).close()
    assert path.read_bytes() == whole


@pytest.mark.parametrize(("iteration", "left"), [(-1, 0), (0, 1), (4, 5), (9, 10), (99, 10)])
def test_cutting_drops_the_later_iterations_and_says_how_many(path: Path, iteration: int, left: int) -> None:
    write(path, 10)
    whole = path.read_bytes()
    with MetricLog(path) as log:
        assert log.cut_after(iteration) == 10 - left
        assert len(read_metrics(path)) == left
        for again in range(left, 10):
            log.record({"iteration": again, "env_steps": 64 * (again + 1), "loss": 1 / (again + 3)})
    assert path.read_bytes() == whole


def test_lines_that_were_mixed_are_put_in_order_and_kept_as_they_were(path: Path) -> None:
    write(path, 10)
    whole = path.read_bytes()
    mixed = b"".join(sorted(whole.splitlines(keepends=True), reverse=True))
    path.write_bytes(mixed)
    with MetricLog(path) as log:
        kept = log.put_in_order()
        assert kept is not None
        assert kept.read_bytes() == mixed
        assert path.read_bytes() == whole
        assert log.put_in_order() is None


def test_a_line_without_end_is_skipped_in_pieces(path: Path) -> None:
    write(path, 3)
    whole = path.read_bytes()
    os.truncate(path, 10**8)  # a hole, read as zeros
    with path.open("ab") as file:
        file.write(b"\n" + whole.splitlines(keepends=True)[0])
    assert [record["iteration"] for record in read_metrics(path)] == [0, 1, 2, 0]
    os.truncate(path, 10**8)
    assert [record["iteration"] for record in read_metrics(path)] == [0, 1, 2]
    MetricLog(path).close()
    assert path.read_bytes() == whole


def test_long_lines_are_found_from_the_end(path: Path) -> None:
    with MetricLog(path) as log:
        for iteration in range(3):
            log.record({"iteration": iteration, "env_steps": 1, "text": "x" * 200_000})
    with MetricLog(path) as log, pytest.raises(ValueError, match="iteration 2 after 2"):
        log.record({"iteration": 2, "env_steps": 1})


def test_a_full_disk_is_reported(path: Path) -> None:
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    with MetricLog(path) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, largest[1]))
        try:
            with pytest.raises(DiskFull, match=r"metrics\.jsonl"):
                log.record({"iteration": 0, "env_steps": 1})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert path.read_bytes() == b"", "the part that was written is removed again"


def test_events_carry_kind_iteration_message_time_and_details(tmp_path: Path) -> None:
    with EventLog(tmp_path / "events.jsonl") as log:
        log.record("checkpoint", 7, "saved", path="checkpoints/7", seconds=math.inf)
    event = read_events(tmp_path / "events.jsonl")[0]
    moment = event.pop("unix_seconds")
    assert moment > 1.7e9
    expected = {"kind": "checkpoint", "iteration": 7, "message": "saved", "path": "checkpoints/7", "seconds": None}
    assert event == expected | {"nonfinite": ["seconds"]}


def test_what_the_machine_decides_is_recognised_by_its_suffix() -> None:
    assert is_time_valued("collect_seconds")
    assert is_time_valued("steps_per_second")
    assert all(map(is_time_valued, ("memory_bytes", "machine_memory_bytes", "memory_limit_bytes", "accelerator_use")))
    assert not is_time_valued("reuse")
    assert not is_time_valued("loss")
    assert not is_time_valued("seconds_of_wisdom")


def records(**changed: float) -> list[dict[str, float]]:
    rows = [{"iteration": i, "env_steps": i, "loss": 0.5, "kl": 0.0, "update_seconds": 0.1} for i in range(3)]
    rows[1].update(changed)
    return rows


def test_records_that_differ_in_time_alone_are_the_same() -> None:
    assert first_difference(records(), records(update_seconds=9.0)) is None
    assert first_difference([], []) is None
    assert first_difference(records(loss=math.nan), records(loss=math.nan)) is None


def test_the_first_difference_is_named_in_the_last_digit_and_in_the_sign_of_zero() -> None:
    near = math.nextafter(0.5, 1)
    assert first_difference(records(), records(kl=1.0, loss=near)) == Difference(1, "loss", 0.5, near)
    assert first_difference(records(), records(kl=-0.0)) == Difference(1, "kl", 0.0, -0.0)
    assert str(first_difference(records(), records(kl=2.0))) == "iteration 1, kl: 0.0 and 2.0"


def test_a_metric_or_an_iteration_that_only_one_run_has_is_a_difference() -> None:
    assert first_difference(records(), records(extra=1.0)) == Difference(1, "extra", NOT_LOGGED, 1.0)
    assert first_difference(records()[:2], records()) == Difference(2, "iteration", NOT_LOGGED, 2)
    assert first_difference(records(), records()[1:]) == Difference(0, "iteration", 0, 1)


def test_the_last_line_can_be_completed_and_the_next_one_follows_it(path: Path) -> None:
    write(path, 2)
    with MetricLog(path) as log:
        log.amend({"eval_mean": 3.5, "eval_low": math.nan})
        log.record({"iteration": 2, "env_steps": 192})
    first, second, third = read_metrics(path)
    assert "eval_mean" not in first and third == {"iteration": 2, "env_steps": 192}
    assert (second["loss"], second["eval_mean"], second["nonfinite"]) == (1 / 4, 3.5, ["eval_low"])


def test_a_disk_that_fills_up_while_a_line_is_completed_leaves_it_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, 2)
    before, pwrite = path.read_bytes(), os.pwrite
    calls: list[int] = []

    def short(handle: int, data: bytes, offset: int) -> int:
        calls.append(len(data))
        return pwrite(handle, data[:-9] if len(calls) == 1 else data, offset)

    monkeypatch.setattr(os, "pwrite", short)
    with MetricLog(path) as log, pytest.raises(DiskFull):
        log.amend({"eval_mean": 3.5})
    assert path.read_bytes() == before
