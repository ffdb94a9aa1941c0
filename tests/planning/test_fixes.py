"""Every fix that an error offers as flags can be pasted behind the command, and then it works."""

import random
import shlex

import pytest

from run_batchwright import Answer, refusal, run_line


def follow_fixes(line: str, rng: random.Random, most: int = 4) -> Answer:
    """The answer after pasting one of the offered fixes each time, until the command is accepted."""
    answer = run_line(line)
    for _ in range(most):
        if answer.code == 0:
            return answer
        fixes = answer.err.split("fix: ")[1].strip().split("   or   ")
        flags = [fix for fix in fixes if fix.startswith("--")]
        line = f"{line} {rng.choice(flags)}"
        answer = run_line(line)
    assert answer.code == 0, f"no way out of {line}: {answer.err}"
    return answer


CONTRADICTIONS = [
    "plan --minibatches 3 --minibatch-transitions 100",
    "plan --minibatches 3000 --minibatch-transitions 100",
    "plan --minibatches 5000 --num-envs 1 --rollout-steps 1",
    "plan --minibatches 3 --minibatch-transitions 7 --num-envs 10 --rollout-steps 30 --seq-length 4",
    "plan --num-envs 1000 --rollout-steps 24 --minibatches 3 --minibatch-transitions 6000 --for rl_games",
    "plan --num-envs 1000 --rollout-steps 24 --minibatch-transitions 7000 --for rl_games",
    "plan --rollout-steps 30 --seq-length 8",
    "plan --rollout-steps 999999937 --seq-length 999999936",
    "plan --algo sac --redistribute rrd --rrd-timesteps-per-update 16 --subsequence-timesteps 32",
    "plan --algo sac --subsequence-timesteps 32",
    "plan --algo sac --warmup-steps 100 --total-steps 50",
    "plan --algo sac --obs-shape 256,256,3 --ram-gb 8 --replay-transitions 1000000",
    "plan --algo ppo --redistribute rrd",
    "plan --policy act --samples-per-step 7 --accumulation 2 --samples-per-update 24",
    "plan --policy act --processes 4 --samples-per-update 3",
    "plan --algo a2c --minibatches 4 --for sb3",
    "plan --num-envs 0",
    "plan --epochs 1000001",
    "plan --num-envs 2.5",
    "plan --workers -1 --policy act",
    "plan --preset balancd",
    "plan --algo poo",
    "plan --gamma 1.5",
    "plan --policy smolvla --gpu-memory-gb 2",
    "plan --rollout-episodes 4 --episode-steps 5 --minibatches 3 --minibatch-transitions 9",
]


@pytest.mark.parametrize("line", CONTRADICTIONS)
@pytest.mark.parametrize("choice", range(3))
def test_a_pasted_fix_works(line: str, choice: int) -> None:
    refusal(line)
    follow_fixes(line, random.Random(choice))


def test_pasted_fixes_lead_out_of_any_contradiction_of_minibatches() -> None:
    rng, refused = random.Random(7), 0
    for _ in range(150):
        words = {
            "num-envs": rng.choice([1, 2, 3, 7, 10, 64, 1000]),
            "rollout-steps": rng.randint(1, 60),
            "minibatches": rng.randint(1, 40),
            "minibatch-transitions": rng.randint(1, 300),
        }
        if rng.random() < 0.5:
            words["seq-length"] = rng.randint(1, 9)
        line = "plan " + " ".join(f"--{name} {value}" for name, value in words.items())
        line += rng.choice(["", " --for rl_games"])
        refused += run_line(line).code == 2
        follow_fixes(line, rng)
    assert refused > 90  # the draw does reach contradictions


def test_both_rivals_are_named_and_each_alone_is_a_fix() -> None:
    for one, other in (("rollout-steps 5", "rollout-episodes 6"), ("total-steps 9", "total-episodes 8")):
        rest = " --rollout-episodes 3" if "total" in one else ""
        answer = refusal(f"plan --{one} --{other}{rest}")
        assert f"--{one}" in answer.err
        assert f"--{other}" in answer.err
        assert "contradict" in answer.err


def test_a_fix_takes_back_what_a_preset_or_a_file_said_by_its_own_name(tmp_path) -> None:
    assert "leave out --preset balanced" in refusal("plan --preset balanced --algo sac").err
    file = tmp_path / "mine.yaml"
    file.write_text("algo: sac\nepochs: 3\n")
    assert "remove epochs at mine.yaml:2" in refusal(f"plan --config {shlex.quote(str(file))}").err


def test_an_algorithm_beside_a_policy_is_told_to_leave_one_out() -> None:
    answer = refusal("plan --algo ppo --policy act")
    assert "leave out --algo   or   leave out --policy" in answer.err
