"""The doctor follows a log that grows."""

import threading
import time
from pathlib import Path

import pytest

from batchwright.commands.doctor_command import follow
from run_batchwright import refusal, run_line

writers = pytest.importorskip("tensorboardX")


def write_updates(folder: Path, first: int, last: int, entropy: float) -> None:
    with writers.SummaryWriter(str(folder)) as writer:
        for update in range(first, last):
            step = 2048 * (update + 1)
            writer.add_scalar("losses/entropy", entropy, step)
            writer.add_scalar("losses/approx_kl", 2.0, step)
            writer.add_scalar("losses/policy_loss", 0.01, step)
            writer.add_scalar("losses/clipfrac", 0.9, step)
            writer.add_scalar("charts/episodic_return", 1.0, step)


def test_a_growing_log_is_read_again_and_its_findings_are_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"

    def train() -> None:
        time.sleep(0.1)
        write_updates(log, 0, 20, 1.0)
        time.sleep(0.2)
        write_updates(log, 20, 40, 1.0)

    training = threading.Thread(target=train)
    training.start()
    assert follow(str(log), "cleanrl", idle_seconds=0.8, poll_seconds=0.05) == 0
    training.join()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("doctor: update")]
    assert lines, "a KL of 2 must be found"
    names = [line.split(": ")[2] for line in lines]
    assert len(names) == len(set(names))


def test_a_log_that_never_comes_is_refused(tmp_path: Path) -> None:
    assert "TensorBoard" in refusal(f"doctor --follow {tmp_path} --from cleanrl --idle-seconds 1").err
    assert "not JSON" in run_line(f"doctor --follow {tmp_path} --json").err
