"""Thousands of random commands and files: exit code 0 or 2, one message, never a traceback, each within a second."""

import json
import random
import string
import time
from collections import Counter
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchwright.config import aliases
from batchwright.config.load import resolve
from batchwright.config.presets import preset_names
from batchwright.config.schema import FIELDS, SECTIONS, TRAINERS
from batchwright.config.values import kind_of
from batchwright.core.errors import UserError
from run_batchwright import Answer, run

COMMANDS, FILES = 2000, 2000
LIMIT_SECONDS = 1.0

ODD_NUMBERS = ["0", "-1", "-0.5", "1.5", "1e3", "1e30", "1e400", "nan", "inf", "-inf", "0x10", "1_000", "", " ", "ten"]
ODD_NUMBERS += ["٣", "1,2", "9" * 60, "+5", "--", "1e-320", "true", "None", "\x00", "é"]
PRIMES = [2, 3, 7, 97, 1009, 10007, 104729, 999983, 99999989, 999999937]
HIGHLY_COMPOSITE = [720, 5040, 720720, 73513440, 735134400]


def some_count(rng: random.Random) -> str:
    """A whole number of any size, seldom an odd one."""
    return rng.choice(
        [
            lambda: str(rng.randint(1, 100)),
            lambda: str(2 ** rng.randint(0, 40)),
            lambda: str(rng.randint(1, 10 ** rng.randint(1, 13))),
            lambda: str(rng.choice(PRIMES)),
            lambda: str(rng.choice(HIGHLY_COMPOSITE)),
            lambda: str(rng.randint(1, 1000)),
            lambda: rng.choice(ODD_NUMBERS) if rng.random() < 0.3 else "64",
        ]
    )()


def some_value(rng: random.Random, name: str) -> str:
    kind, choices = kind_of(name), FIELDS[name].metadata["choices"]
    if choices:
        return rng.choice([*choices, *choices, *choices, "nobody"])
    if kind is int:
        return some_count(rng)
    if kind is float:
        return rng.choice([f"{rng.random():.3g}", str(10 ** rng.randint(-8, 6)), "0.5", some_count(rng)])
    if kind is tuple:
        return ",".join(some_count(rng) for _ in range(rng.randint(1, 4)))
    return rng.choice(["name", "", "-", "a b", "é", "x" * 300])


def some_command(rng: random.Random) -> list[str]:
    """Words of `plan` that make sense more often than not."""
    words: list[str] = ["plan"]
    start = rng.choice(["", "", "", "ppo", "a2c", "reinforce", "sac", "dqn", "rrd", "policy", "preset"])
    if start in ("ppo", "a2c", "reinforce", "sac", "dqn"):
        words += ["--algo", start]
    elif start == "rrd":
        words += ["--algo", rng.choice(["sac", "dqn"]), "--redistribute", "rrd"]
    elif start == "policy":
        words += ["--policy", rng.choice(["act", "smolvla"])]
    elif start == "preset":
        words += ["--preset", rng.choice(preset_names())]
    regime = "dataset" if start == "policy" else "replay" if start in ("sac", "dqn", "rrd") else "on-policy"
    fitting = [n for n, f in FIELDS.items() if regime in f.metadata["regimes"] and n not in ("env", "algo", "policy")]
    for name in rng.sample(fitting, rng.randint(0, 6)):
        flag = "--" + name.replace("_", "-")
        if kind_of(name) is bool:
            words.append(rng.choice([flag, f"--no-{flag[2:]}"]))
        elif rng.random() < 0.5:
            words.append(f"{flag}={some_value(rng, name)}")
        else:
            words += [flag, some_value(rng, name)]
    if rng.random() < 0.2:
        words += rng.choice([["--explain"], ["--json"], ["--json", "--explain"]])
    if rng.random() < 0.3:
        words += ["--for", rng.choice(TRAINERS)]
    if rng.random() < 0.1:
        stray = rng.choice(["", "--", "-x", "--nobody", "--num-envs", "extra", "-1", "--=", "=", "\udcff"])
        words.insert(rng.randint(1, len(words)), stray)
    return words


def assert_civil(answer: Answer, seconds: float, asked: object) -> None:
    told = f"{asked!r}\n{answer.out[-300:]}\n{answer.err[-600:]}"
    assert answer.code in (0, 2), told
    assert "Traceback" not in answer.err, told
    assert seconds < LIMIT_SECONDS, f"{seconds:.1f} s: {told}"
    if answer.code == 2:
        assert answer.err.startswith("error: "), told
        assert len(answer.err) < 2000, told
        if isinstance(asked, list) and "--json" in asked:
            assert json.loads(answer.out)["error"], told
        else:
            assert answer.out == "", told
    else:
        assert "None" not in answer.out.replace("'None'", ""), told
        assert "nan" not in answer.out.split("machine:")[0], told


def timed(words: list[str]) -> tuple[Answer, float]:
    """The answer and the processor time it took, which other work on the machine does not lengthen."""
    start = time.process_time()
    answer = run(*words)
    return answer, time.process_time() - start


def test_random_flags_are_planned_or_refused() -> None:
    run("plan", "nobody-v0")  # a stray word is looked up as an environment: loads the engines, which takes seconds once
    rng, codes = random.Random(20250), Counter()
    for _ in range(COMMANDS):
        words = some_command(rng)
        answer, seconds = timed(words)
        assert_civil(answer, seconds, words)
        codes[answer.code] += 1
    assert min(codes[0], codes[2]) > COMMANDS / 8  # the draw reaches plans and refusals


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    words=st.lists(
        st.sampled_from(["--" + name.replace("_", "-") for name in FIELDS] + ["--for", "--preset", "--json", "--hold"])
        | st.integers(-3, 10**13).map(str)
        | st.text(max_size=8)
        | st.sampled_from(["sac", "ppo", "act", "reuse", "rl_games", "balanced"]),
        max_size=8,
    )
)
def test_words_in_any_order_are_planned_or_refused(words: list[str]) -> None:
    if any(word and not word.startswith("-") and word[0] not in "0123456789" for word in words[:1]):
        words = ["--num-envs", *words]  # a first plain word is an environment, and those are tested elsewhere
    if {"-h", "--help"} & set(words):
        return
    answer, _ = timed(["plan", "--total-steps", "7", *[word for word in words if ":" not in word]])
    assert answer.code in (0, 2)
    assert "Traceback" not in answer.err


# Files


def some_key(rng: random.Random) -> str:
    known = [*aliases.known_keys(), *SECTIONS, *aliases.FOREIGN_SECTIONS]
    return rng.choice(
        [
            lambda: rng.choice(known),
            lambda: rng.choice(known).upper(),
            lambda: rng.choice(list(FIELDS)),
            lambda: rng.choice(list(FIELDS)),
            lambda: "".join(rng.choices(string.ascii_lowercase + "_", k=rng.randint(1, 9))),
            lambda: rng.choice(["<<", "? ", "'", "1", "null", "~", "!!str num_envs", "&k num_envs", '"num\\x5fenvs"']),
        ]
    )()


def some_scalar(rng: random.Random) -> str:
    return rng.choice(
        [
            lambda: some_count(rng),
            lambda: rng.choice(
                ["true", "no", "null", "~", ".nan", ".inf", "-.inf", "''", '"8"', "1:30", "010", "0b11"]
            ),
            lambda: rng.choice(
                ["2024-01-01", "2024-99-99", "2001-12-14t21:59:43.10-05:00", "!!binary aGk=", "!!int x"]
            ),
            lambda: rng.choice(["!!set {a, b}", "!!omap [a: 1]", "!!python/name:os.system", "!foo 3", "!!float '1'"]),
            lambda: rng.choice(
                ["*x", "&x 3", "&x", "[1, 2", "{a: 1}", "[[1]]", "|\n  text", ">-\n  8", "[1, [2, {a: b}]]"]
            ),
            lambda: rng.choice(["0x" + "f" * 400, "9" * rng.randint(30, 4400), "1" + "_0" * 50, "-" + "8" * 200]),
            lambda: rng.choice([*preset_names(), "ppo", "sac", "dqn", "act", "reuse", "total-steps", "bf16"]),
        ]
    )()


def some_lines(rng: random.Random) -> bytes:
    lines = []
    for _ in range(rng.randint(1, 5)):
        indent = rng.choice(["", "", "", "  ", "\t", "    "])
        lines.append(f"{indent}{some_key(rng)}:{rng.choice([' ', ' ', ' ', '', '  '])}{some_scalar(rng)}")
        if rng.random() < 0.2:
            lines.append(f"{rng.choice(['trainer', 'task', 'experience', 'nobody'])}:")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def some_tree(rng: random.Random, depth: int) -> object:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(
            [rng.randint(-5, 10**9), rng.random(), "x", None, True, float("nan"), 10 ** rng.randint(20, 500)]
        )
    if rng.random() < 0.3:
        return [some_tree(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {some_key(rng): some_tree(rng, depth - 1) for _ in range(rng.randint(0, 4))}


def some_bomb(rng: random.Random) -> bytes:
    levels, width = rng.randint(3, 14), rng.randint(2, 9)
    name = rng.choice(["num_envs", "env", "obs_shape", "preset", "redistribute", "nobody"])
    if rng.random() < 0.5:
        parts = [f"&a{i} [{', '.join([f'*a{i - 1}' if i else '1'] * width)}]" for i in range(levels)]
    else:
        merged = [f"&a{i} {{<<: [{', '.join([f'*a{i - 1}'] * width)}]}}" for i in range(1, levels)]
        parts = ["&a0 {k: 1}", *merged]
    return f"{name}: [{', '.join(parts)}]".encode()


def some_nest(rng: random.Random) -> bytes:
    return (rng.choice(["[", "{a: ", "- ", "? ", "&a [", "!!x ", "[a, "]) * rng.choice([3, 9, 60, 400])).encode()


def some_file(rng: random.Random) -> bytes:
    return rng.choice(
        [
            lambda: some_lines(rng),
            lambda: some_lines(rng),
            lambda: some_lines(rng),
            lambda: yaml.safe_dump(some_tree(rng, 3), default_flow_style=rng.choice([True, False])).encode(),
            lambda: rng.randbytes(rng.randint(0, 80)),
            lambda: "".join(rng.choices("{}[]:,-&*!|>'\"%@`#? \n\tab1", k=rng.randint(1, 60))).encode(),
            lambda: some_bomb(rng),
            lambda: some_nest(rng),
        ]
    )()


def test_random_files_are_read_or_refused(tmp_path: Path) -> None:
    rng, file, codes = random.Random(4096), tmp_path / "fuzz.yaml", Counter()
    for _ in range(FILES):
        content = some_file(rng)
        file.write_bytes(content)
        start = time.process_time()
        try:
            resolve(config_file=file)
            codes["read"] += 1
        except UserError as error:
            assert "fuzz.yaml" in error.message or error.fixes, (content, error)
            assert len(str(error)) < 2000, (content, error)
            codes["refused"] += 1
        assert time.process_time() - start < LIMIT_SECONDS, content
    assert codes["read"] > FILES / 50


def test_random_files_go_through_the_command(tmp_path: Path) -> None:
    rng, file = random.Random(8192), tmp_path / "fuzz.yaml"
    for _ in range(FILES // 5):
        content = b"total_steps: 5000\n" * rng.randint(0, 1) + some_lines(rng)
        if b"env" in content.lower().replace(b"envs", b""):
            continue  # names of environments are tested elsewhere: looking one up loads engines
        file.write_bytes(content)
        answer, seconds = timed(["plan", "--config", str(file)])
        assert_civil(answer, seconds, content)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_arbitrary_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "fuzz.yaml"
    file.write_bytes(content)
    try:
        resolve(config_file=file)
    except UserError:
        return


@pytest.mark.parametrize(
    "line",
    [
        "plan --num-envs 99999989 --rollout-steps 999999937 --num-agents 999983 --for rl_games",
        "plan --num-envs 73513440 --rollout-steps 735134400 --num-agents 720720 --for rl_games",
        "plan --num-envs 73513439 --rollout-steps 735134400 --num-agents 720720 --seq-length 735134400 --for rl_games",
        "plan --rollout-steps 999999937 --seq-length 999999936",
        "plan --num-envs 100000000 --rollout-steps 1000000000 --minibatches 1000000000000",
        "plan --policy act --samples-per-step 999983 --accumulation 999979",
        "plan --policy act --samples-per-update 999999937",
        "plan --algo sac --obs-shape 1000000,1000000,1000000 --total-steps 1000000000000",
    ],
)
def test_the_largest_legal_numbers_are_answered_within_a_second(line: str) -> None:
    answer, seconds = timed(line.split())
    assert_civil(answer, seconds, line)
