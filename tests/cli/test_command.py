"""The command as people use it: what is printed, where, and with which exit code."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from run_batchwright import plan, refusal, run, run_line

PLAIN = [sys.executable, "-m", "batchwright.cli"]


def test_help_names_every_command_and_no_words_are_help_too() -> None:
    for words in ([], ["--help"], ["-h"]):
        answer = run(*words)
        assert answer.code == 0
        assert all(f"\n  {command} " in answer.out for command in ("plan", "presets", "envs"))
    assert run("plan", "--help").code == 0
    assert run("--version").out.startswith("batchwright ")


def test_a_plan_prints_table_reasons_sources_and_picture() -> None:
    out = run_line("plan --num-envs 1000 --rollout-steps 24").out
    assert "24000 collected / 4" in out
    assert "pinned --num-envs" in out
    assert "4 minibatches of 6,000" in out
    assert out.index("quantity") < out.index("+---")


def test_explain_tells_what_larger_and_smaller_do() -> None:
    out = run_line("plan --explain").out
    for number in ("num_envs", "rollout_steps", "minibatch_transitions", "epochs", "gamma"):
        assert f"{number} =" in out
    assert out.count("larger:") == out.count("smaller:") >= 5


def test_json_has_the_documented_form() -> None:
    for line in ("plan", "plan --algo dqn --redistribute rrd", "plan --policy act", "plan --rollout-episodes 3"):
        found = run_line(f"{line} --json").json
        assert list(found) == ["regime", "algo", "quantities", "warnings", "alternatives", "task"]
        for quantity in found["quantities"].values():
            assert list(quantity) == ["value", "unit", "reason", "source"]
            assert quantity["source"] in ("pinned", "preset", "derived", "measured")


def test_the_table_the_json_and_python_agree() -> None:
    found = run_line("plan --num-envs 13 --rollout-steps 77 --json").json
    same = plan(num_envs=13, rollout_steps=77)
    assert found["quantities"] == {name: quantity.to_json() for name, quantity in same.quantities.items()}
    assert json.loads(same.to_json()) == found


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan --num-envs 0", "--num-envs: 0 is out of range; at least 1"),
        ("plan --num-envs -4", "-4 is out of range"),
        ("plan --num-envs 2.5", "not a whole number"),
        ("plan --num-envs 1e300", "out of range"),
        ("plan --num-envs 100000001", "100000001 is out of range; at most 100000000"),
        ("plan --num-envs nan", "not a number"),
        ("plan --num-envs inf", "not a number"),
        ("plan --num-envs ''", "not a number"),
        ("plan --num-envs eight", "'eight' is not a number"),
        ("plan --num-envs", "expected one argument"),
        ("plan --num-env 8", "Did you mean --num-envs"),
        ("plan --numenvs=8", "Did you mean --num-envs"),
        ("plan CartPole-v1 again", "unrecognized arguments: again"),
        ("plan CartPole-v1 ''", "unrecognized arguments"),
        ("plan ''", "the name is empty"),
        ("plan --gamma 2", "at most 1"),
        ("plan --algo pp", "Did you mean ppo"),
        ("plan --preset balancd", "Did you mean balanced"),
        ("plan --preset ''", "unknown preset"),
        ("plan --for torch", "invalid choice"),
        ("plan --hold breath", "unknown hold"),
        ("plan --obs-shape 3,q", "'q' is not a number"),
        ("plan --obs-shape ,", "not a number"),
        ("plan --config nobody.yaml", "No such file"),
        ("plan --rollout-steps 5 --rollout-episodes 5", "contradict each other"),
        ("plan --total-episodes 5 --rollout-steps 4", "counts episodes"),
        ("plan --total-episodes 5 --seq-length 4", "needs rollouts counted in steps"),
        ("plan --preset none balanced", "none stands alone"),
        ("plan --preset balanced balanced", "names a preset twice"),
        ("plan --preset balanced entropy-shrt", "unknown preset 'entropy-shrt'. Did you mean entropy-short"),
        ("plan --rollout-episodes 5 --seq-length 4", "needs rollouts counted in steps"),
        ("plan --rollout-episodes 5 --hold reuse", "needs rollouts counted in steps"),
        ("plan --workers 4", "belongs to dataset training; ppo is on-policy"),
        ("plan --algo sac --epochs 4", "belongs to on-policy training; sac is replay"),
        ("plan --policy act CartPole-v1", "learns from recorded data"),
        ("plan --algo ppo --redistribute rrd", "replay buffer"),
        ("paln", "unknown command 'paln'. Did you mean plan"),
        ("''", "unknown command ''"),
        ("presets shwo", "presets takes 'show NAME'"),
        ("presets show", "presets takes 'show NAME'"),
        ("presets show nobody", "unknown preset"),
        ("envs zzzzqqq", "unknown environment"),
    ],
)
def test_bad_input_is_one_message_with_a_fix_and_exit_code_2(line: str, said: str) -> None:
    answer = refusal(line)
    assert said in answer.err
    command, *rest = shlex.split(line)
    as_json = run(command, "--json", *rest)
    assert as_json.code == 2
    assert as_json.json["error"] in as_json.err
    assert as_json.err == answer.err


@pytest.mark.parametrize(
    ("name", "near"), [("CartPole-v9", "CartPole-v1"), ("Cartpole", "CartPole-v1"), ("Pendulm-v1", "Pendulum-v1")]
)
def test_an_unknown_environment_is_told_with_the_nearest_names(name: str, near: str) -> None:
    assert near in refusal(f"plan {name}").err


def test_an_environment_brings_its_facts_and_they_cannot_be_contradicted() -> None:
    out = run_line("plan CartPole-v1").out
    assert "ppo on CartPole-v1" in out
    assert "--gamma 0.992" in out
    assert "is defined by CartPole-v1 itself" in refusal("plan CartPole-v1 --obs-shape 9").err
    assert "sac is for continuous actions" in refusal("plan CartPole-v1 --algo sac").err
    assert run_line("plan CartPole-v1 --algo dqn --json").json["quantities"]["transition_bytes"]["value"] == 25
    assert run_line("plan Pendulum-v1 --algo sac --json").json["quantities"]["transition_bytes"]["value"] == 21


def test_presets_are_listed_and_shown_with_their_source() -> None:
    listed = run_line("presets")
    assert "balanced" in listed.out
    assert {"name", "summary", "source"} == set(run_line("presets --json").json[0])
    shown = run_line("presets show libero").out
    assert "source: Batch Size Parameters Explained" in shown
    assert "subsequence_timesteps: 32" in shown
    assert run_line("presets show libero --json").json["values"]["redistribute"] == "rrd"


def test_environments_are_listed_by_word() -> None:
    answer = run_line("envs cartpole --json")
    assert {"name", "engine", "note"} == set(answer.json[0])
    assert "CartPole-v1" in {entry["name"] for entry in answer.json}
    assert all("cartpole" in entry["name"].lower() for entry in answer.json)


def test_for_another_trainer_warnings_go_to_stderr_so_that_stdout_can_be_pasted() -> None:
    answer = run_line("plan --num-envs 10007 --rollout-steps 1 --for sb3")
    compile(answer.out, "pasted", "exec")
    assert "warning: 10007 transitions have no divisor" in answer.err
    with_json = run_line("plan --for rl_games --json").json
    assert with_json["for"]["trainer"] == "rl_games"


# As a process of its own


def ask(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([*PLAIN, *words], capture_output=True, timeout=60, check=False, **options)


def test_exit_codes_and_streams_of_the_process() -> None:
    fine, bad = ask("plan", "--num-envs", "64"), ask("plan", "--num-envs", "0", "--json")
    assert (fine.returncode, fine.stderr) == (0, b"")
    assert bad.returncode == 2
    assert json.loads(bad.stdout)["fixes"] == ["--num-envs 1"]
    assert bad.stderr.startswith(b"error: ")


def test_planning_imports_no_jax_no_gymnasium_and_no_numpy() -> None:
    code = (
        "import sys; from batchwright.cli import main; main(sys.argv[1:]);"
        "heavy = {'jax', 'gymnasium', 'numpy', 'envpool', 'torch'} & set(sys.modules); sys.exit(9 if heavy else 0)"
    )
    for words in (
        ["--help"],
        ["presets"],
        ["plan", "--num-envs", "64", "--rollout-steps", "32"],
        ["plan", "--preset", "mujoco", "--obs-shape", "17", "--json"],
        ["plan", "--policy", "act", "--for", "lerobot"],
    ):
        answer = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    for words in (["plan", "--explain"], ["presets"]):
        line = " ".join([*PLAIN, *words])
        answer = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {line} | true"], capture_output=True, text=True, check=False
        )
        assert answer.stderr == ""
        assert answer.returncode == 0


def test_names_that_a_terminal_cannot_write_are_no_traceback(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/d\xff\xc3\xa9.yaml"
    with open(file, "w", encoding="utf-8") as stream:  # noqa: PTH123 - the name is bytes
        stream.write("num_envs: 3\n")
    for environment in ({}, {"PYTHONIOENCODING": "ascii"}):
        answer = subprocess.run(
            [*map(os.fsencode, PLAIN), b"plan", b"--config", file],
            capture_output=True,
            env=os.environ | environment,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        assert b"num_envs" in answer.stdout
    assert ask("plan", os.fsdecode(b"\xff\xfe")).returncode == 2


@pytest.mark.parametrize(
    "line", ["plan --preset balanced entropy-short CartPole-v1", "plan CartPole-v1 --preset balanced"]
)
def test_the_environment_may_stand_behind_the_presets(line: str) -> None:
    answer = run_line(f"{line} --json")
    assert answer.json["task"]["name"] == "CartPole-v1"
    assert answer.json["quantities"]["rollout_episodes"]["value"] == 10


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("play runs/x", "fix: batchwright eval"),
        ("enjoy", "fix: batchwright eval"),
        ("sweep CartPole-v1", "fix: batchwright tune"),
        ("prove docs/nope", "is not a run directory: it does not exist"),
        ("train examples/own_environment.py", "fix: examples/own_environment.py:make_env"),
        ("compare CartPole-v1 --presets nonee none", "nonee"),
    ],
)
def test_a_word_of_another_tool_or_a_near_miss_leads_to_the_right_command(line: str, told: str) -> None:
    assert told in refusal(line).err
