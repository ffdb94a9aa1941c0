"""What the pages show of commands that train is what they print, figures aside: one folder and one order per page.

Outputs of the README's commands, on whatever page, are checked by test_readme.py; those of commands that answer at
once, figure by figure, by test_docs_outputs.py.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from batchwright.adapters.rl_games import fit
from batchwright.core.errors import UserError
from batchwright.runs.engine_choice import Costs
from batchwright.store.episode_table import EpisodeTable
from page_blocks import REPOSITORY, Shown, bare_blocks, first_missing, shown_blocks, text_blocks
from run_batchwright import run_line
from small_runs import TerminatedAfter, start
from test_readme import readme_commands

README = {command.removeprefix(".venv/bin/batchwright ") for command in readme_commands()}


def pages() -> dict[str, list[Shown]]:
    """The commands to run, by page; those of a block run together, as later ones read what earlier ones write."""
    found: dict[str, list[Shown]] = {}
    for block in shown_blocks():
        held = all(one.answers_at_once or one.command in README or not one.lines for one in block)
        if not held and block[0].page != "README.md":
            found.setdefault(block[0].page, []).extend(block)
    return found


@pytest.mark.parametrize("page", sorted(pages()))
def test_what_a_page_shows_of_a_training_is_printed(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(REPOSITORY / "examples", "examples")
    PREPARED.get(page, lambda: None)()
    for one in pages()[page]:
        missing = first_missing(one.lines, _printed(one))
        assert missing is None, f"{page} shows a line that `batchwright {one.command}` does not print:\n{missing}"


def _printed(one: Shown) -> list[str]:
    if one.command == "watch":
        return _served()
    run_dir = re.search(r"--run-dir (\S+)", one.command)
    stops = any(line.startswith("interrupted after") for line in one.lines) and run_dir is not None
    with TerminatedAfter(Path(run_dir[1]), 3) if stops and run_dir else contextlib.nullcontext():
        answer = run_line(one.command)
    assert "Traceback" not in answer.err
    return [*answer.out.splitlines(), *answer.err.splitlines()]


def _served() -> list[str]:
    """What `watch` prints until Ctrl-C."""
    Path("runs").mkdir()
    words = [sys.executable, "-m", "batchwright.cli", "watch"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = [server.stdout.readline() for _ in range(2)]
    _wait_for_page(found[0].split(": ", 1)[1].strip())  # before, nobody hears a Ctrl-C that background jobs ignore
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0
    return found


def _wait_for_page(address: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except urllib.error.HTTPError:  # it answers, and wants the cookie that a browser keeps
            return
        except OSError:
            assert time.monotonic() < deadline, f"{address} does not answer"
            time.sleep(0.05)


def _hidden_randomness() -> None:
    text = Path("examples/own_environment.py").read_text(encoding="utf-8")
    drawn = text.replace("self.np_random.uniform(-2, 2)", "random.uniform(-2, 2)")
    assert drawn != text
    Path("hidden.py").write_text("import random\n" + drawn, encoding="utf-8")


def _recordings() -> None:
    """`wide`: 40 episodes of 6 to 45 steps, 1,060 observations of 12 KiB; `demos`: 50 episodes of one return."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    for name, episodes, width in (("wide", 40, 3072), ("demos", 50, 3)):
        Path(name).mkdir()
        with h5py.File(f"{name}/all.hdf5", "w") as file:
            for k in range(episodes):
                demo, steps = file.create_group(f"data/demo_{k}"), 6 + k
                demo["obs/ee_pos"] = rng.standard_normal((steps, width)).astype(np.float32)
                demo["actions"] = rng.standard_normal((steps, 2)).astype(np.float32)
                reward = rng.standard_normal(steps) if name == "wide" else np.eye(steps)[-1]
                demo["rewards"] = reward.astype(np.float32)


PREPARED: dict[str, Callable[[], object]] = {
    "docs/training/recorded.md": _recordings,
    "docs/training/repeatable.md": _hidden_randomness,
    "docs/tuning.md": lambda: Path("slow.yaml").write_text("learning_rate: 3.0e-5\n", encoding="utf-8"),
}
"""Files that a page speaks of."""


FORMULAS = ("docs/training/algorithms.md", "docs/training/replay.md", "docs/training/rrd.md")
SKETCHES = ("docs/glossary.md", "docs/training/speed.md", "docs/training/engines.md", "docs/training/run-directory.md")
COMMANDS = ("docs/cluster.md", "docs/tuning.md")
HELD_BELOW = ("[INFO]: Batch", "measured steps/s", "error: the checkpoint's", "{")


def test_a_block_without_its_command_is_no_output_or_is_held_here() -> None:
    """Whoever shows an output writes `$ batchwright ...` above it, so that it is run."""
    free = (*FORMULAS, *SKETCHES, *COMMANDS, "README.md")
    unknown = [(page, line) for page, line in bare_blocks() if page not in free and not line.startswith(HELD_BELOW)]
    assert unknown == []
    outputs = re.compile(r"evaluation: |iteration +\d|Batch +\d|run directory: |error: |fix: |report: ")
    shown = [(page, line) for page, line in bare_blocks() if outputs.match(line) and page != "README.md"]
    assert [line for _, line in shown if not line.startswith(HELD_BELOW)] == []


def _block(page: str, start_of: str) -> str:
    (found,) = [block for block in text_blocks(REPOSITORY / page) if block.startswith(start_of)]
    return found


def test_what_fit_prints_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"horizon_length": 16, "minibatch_size": 32768, "mini_epochs": 5}
    fit({"params": {"config": config}}, 16, tuned_num_envs=4096)  # the author's: 16 x 4096 / 32768 = 2
    assert _block("docs/other-trainers.md", "[INFO]") == capsys.readouterr().out


def test_the_line_of_measured_engines_is_shown() -> None:
    asked = {("envpool", 8): 62_454.0, ("envpool", 16): 82_514.0, ("gymnasium-sync", 8): 16_608.0}
    head, _, rates = _block("docs/training/engines.md", "measured").partition(": ")
    assert head == "measured steps/s (on one core, computed for 2)"  # of more than one core; tests/runs holds that
    assert Costs("CartPole-v1", 2, 1 << 30, asked=asked).describe() + "\n" == f"measured steps/s: {rates}"


def test_the_refusal_of_another_buffer_is_shown() -> None:
    with pytest.raises(UserError) as refused:
        EpisodeTable(151).take(EpisodeTable(76).to_array())
    assert f"error: {refused.value}\n" == _block("docs/training/replay.md", "error: the checkpoint's")


def test_records_of_plans_episodes_and_advice_have_the_keys_that_are_shown(tmp_path: Path) -> None:
    start(tmp_path / "run", learning_rate=0.5, total_steps=64 * 40)
    shown = json.loads(_block("docs/training/run-directory.md", '{"iteration"'))
    line = (tmp_path / "run" / "episodes.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert list(json.loads(line)) == list(shown)
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    advice = next(event for event in events if event["kind"] == "advice")
    words = re.findall(r'"(\w+)"', _block("docs/doctor.md", '{"kind": "advice"'))
    assert set(words) - {"advice"} <= set(advice)
    keys = re.findall(r'^.?"(\w+)"|[,\]}] "(\w+)"', _block("docs/index.md", '{"regime"'), re.MULTILINE)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text(encoding="utf-8"))
    assert {one or other for one, other in keys} - {"unit", "reason", "source"} <= set(plan)
