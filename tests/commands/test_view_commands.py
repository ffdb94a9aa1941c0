"""`watch` and `report` as people type them: what is refused is refused in one message."""

import random
import socket
from pathlib import Path

import pytest

from batchwright.core.run_dir import RunDir
from run_batchwright import refusal, run, run_line


def make_run(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name, text in {
        "config.yaml": "env: CartPole-v1\n",
        "plan.json": '{"quantities": {}}',
        "metrics.jsonl": '{"iteration": 0, "env_steps": 8}\n',
    }.items():
        (folder / name).write_text(text)
    return folder


def test_a_report_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    one, two = make_run(tmp_path / "one"), make_run(tmp_path / "two")
    assert run("report", str(one)).out == f"report: {one / 'report.html'}\n"
    out = tmp_path / "new" / "both.html"
    assert run("report", str(one), str(two), "-o", str(out)).out == f"report: {out}\n"
    assert RunDir(one).report_path.is_file()
    assert out.is_file()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("report", "the following arguments are required: RUN"),
        ("report nowhere", "nowhere is not a run directory: it does not exist"),
        ("report ''", "is not a run directory"),
        ("report /", "is not a run directory"),
        ("report x -o", "expected one argument"),
        ("report x --output y", "Did you mean --out"),
        ("watch nowhere", "nowhere does not exist"),
        ("watch a b", "unrecognized arguments: b"),
        ("watch a --runs b", "both name the folder"),
        ("watch --port", "expected one argument"),
        ("watch --port many", "not a port"),
        ("watch --port 65536", "not a port"),
        ("watch --port -1", "not a port"),
        ("watch --port ²", "not a port"),
        ("watch --no-token", "unknown flag --no-token"),
        ("watch --host no.such.address.invalid --port 0", "cannot listen on"),
        ("watch --host '' --port x", "not a port"),
    ],
)
def test_bad_input_is_one_message(line: str, said: str) -> None:
    assert said in refusal(line).err


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"cannot listen on '127.0.0.1' port {port}" in refusal(f"watch {tmp_path} --port {port}").err


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal(f"watch {tmp_path / 'file'}").err
    assert "is not a run directory" in refusal(f"report {tmp_path / 'file'}").err
    make_run(tmp_path / "run")
    assert "cannot be written" in refusal(f"report {tmp_path / 'run'} -o {tmp_path / 'file' / 'x.html'}").err


def test_random_words_end_in_a_message_and_never_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "run")
    words = [
        "run",
        "",
        " ",
        "-",
        "--",
        "-o",
        "--out",
        "a/b",
        "..",
        "/",
        "\u00e9",
        "x" * 300,
        "run/plan.json",
        "-x",
        "*",
        "~",
    ]
    rng = random.Random(0)
    for _ in range(300):
        answer = run("report", *rng.choices(words, k=rng.randint(0, 4)))
        assert answer.code in (0, 2)
        assert answer.code == 0 or answer.err.startswith("error: ")
    for _ in range(200):
        # A port that is none: whatever else was said, nothing is served.
        answer = run("watch", *rng.choices(words, k=rng.randint(0, 3)), "--port", rng.choice(["x", "-1", "99999", ""]))
        assert answer.code == 2
        assert answer.err.startswith("error: ")


def test_the_help_of_both_tells_their_flags() -> None:
    assert "--port" in run_line("watch --help").out
    assert "--out" in run_line("report --help").out
