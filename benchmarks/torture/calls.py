"""Fuzzed commands and settings files: exit code 0 or 2 and one message, never a traceback."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import damages
from caller import Caller
from kinds import recording
from sandbox import Sandbox, erase
from tally import Tally, problems_of
from test_fuzz import ODD_NUMBERS, some_command, some_file, some_lines

from batchwright.config.presets import preset_names
from batchwright.config.schema import FIELDS
from batchwright.config.values import kind_of
from batchwright.core.machine import probe_machine

SECONDS = 30.0
STRAY = ["", "-", "--", "-x", "--nobody", "--num-envs", "extra", "-1", "--=", "=", "\udcff", "é", "a" * 5000, "..", "/"]
STRAY += [
    "/dev/null",
    "/dev/zero",
    "/proc/self/mem",
    "~",
    "~nobody",
    "nobody-v0",
    "module:name",
    "a/b/c",
    "--help",
    "%s",
]
STRAY += ["--json", "--quiet", "--config", "--preset", "--seed=-1", "{}", "[]", "\n", "a\nb", "CartPole", "$HOME", "*"]
TINY = ("--total-steps", "64", "--num-envs", "2", "--rollout-steps", "8", "--hidden", "8", "--eval-episodes", "1",
        "--engine", "jax", "--preset", "none")  # fmt: skip
COMMANDS = (
    "plan CartPole-v1 --num-envs 8 --rollout-steps 16 --explain",
    "plan HalfCheetah-v5 --algo sac --redistribute rrd --json",
    "plan --policy act --dataset mine --samples-per-step 8 --for lerobot",
    "plan --algo dqn --obs-shape 84,84,4 --obs-dtype uint8 --action-size 6 --for sb3",
    "plan --num-envs 1000 --rollout-steps 24 --minibatches 4 --hold reuse --for rl_games",
    "presets", "presets balanced", "envs", "envs CartPole", "doctor --checklist",
    "doctor {run}", "doctor {run} --json", "doctor {run} --from sb3", "report {run} -o page.html",
    "report {run} {other}", "compare {run} {other}", "compare {run} {other} --json", "eval {run} --episodes 1",
    "eval {run} --episodes 1 --stochastic --json --seed 3", "resume {run}", "resume {run} --json --quiet",
    "rrd {data} --show", "rrd {data} --show --json", "watch nobody --port 1",
    "rrd {data} --total-updates 4 --updates-per-iteration 2 --hidden 8 --run-dir reward --quiet",
)  # fmt: skip


def run(tally: Tally, sandbox: Sandbox, count: int, seed: int, only: int | None) -> None:
    """So many calls in one warm process."""
    damages.prepare(sandbox, damages.RUNS[1])
    recording(sandbox.path)
    caller = Caller(sandbox.path, {}, memory_bytes=probe_machine().ram_bytes // 3)
    caller.command("plan", "nobody-v0", seconds=300)  # looks for environments once, which takes seconds
    sandbox.fresh_copy(damages.RUNS[0])
    places = {"{run}": str(sandbox.victim), "{data}": str(sandbox.path / "point.hdf5")}
    erase(sandbox.path / "other")
    places["{other}"] = str(shutil.copytree(sandbox.pristine / damages.RUNS[1], sandbox.path / "other", symlinks=True))
    try:
        for number in range(count) if only is None else (only,):
            draw = random.Random(f"{seed} calls {number}")
            kind = draw.choices(("flags", "files", "words", "training"), (55, 20, 24, 1))[0]
            words = list(_words(kind, draw, sandbox.path / "settings.yaml", places))
            answer = caller.command(*words, seconds=SECONDS)
            tally.calls += 1
            tally.codes[str(answer.code)] += 1
            codes = (0, 2, 3) if kind == "training" else (0, 2)
            problems = problems_of(answer, codes)
            problems += [f"changed outside: {path}" for path in sandbox.changes(but="cwd/")[:3]]
            shown = answer.text[-1500:] if problems else ""
            tally.count(kind, number, f"batchwright {' '.join(map(repr, words))[:600]}", problems, shown)
    finally:
        caller.close()


def _words(kind: str, draw: random.Random, file: Path, places: dict[str, str]) -> Iterator[str]:
    """The words of one call."""
    if kind == "flags":
        yield from some_command(draw)
    elif kind == "files":
        file.write_bytes(some_file(draw) if draw.random() < 0.5 else some_lines(draw))
        yield from ("plan", "--config", str(file))
    elif kind == "words":
        for word in _mutated(draw.choice(COMMANDS).split(), draw):
            yield places.get(word, word)
    else:
        yield from _training(draw)


def _mutated(words: list[str], draw: random.Random) -> list[str]:
    """A valid command with a few words dropped, doubled, swapped, cut, or replaced."""
    for _ in range(draw.choice((0, 1, 1, 1, 2, 3, 5))):
        at = draw.randrange(len(words)) if words else 0
        how = draw.randrange(7)
        if how == 0 or not words:
            words.insert(at, draw.choice(STRAY))
        elif how == 1 and at:
            del words[at]
        elif how == 2 and at:
            words[at] = draw.choice(STRAY + ODD_NUMBERS)
        elif how == 3:
            words.insert(at, words[at])
        elif how == 4:
            other = draw.randrange(len(words))
            words[at], words[other] = words[other], words[at]
        elif how == 5:
            words[at] = words[at][: draw.randrange(len(words[at]) + 1)]
        else:
            words += [f"--{draw.choice(list(FIELDS)).replace('_', '-')}", draw.choice(ODD_NUMBERS)]
    # A page that is served, and a run that nobody bounds, would end at the time limit only.
    is_endless = words[:1] == ["watch"] and "nobody" not in words
    return ["plan"] if is_endless else words


SMALL_VALUES = {int: ("1", "2", "3", "7", "8", "0"), float: ("0", "0.5", "1", "0.001", "1e-8", "10", "-1", "1e6")}


def _training(draw: random.Random) -> Iterator[str]:
    """A training of a few steps with random settings that fit the algorithm more often than not."""
    algo, env = draw.choice(
        [("ppo", "CartPole-v1"), ("a2c", "Pendulum-v1"), ("reinforce", "CartPole-v1"), ("ppo", "TwoObjectives-v0"),
         ("sac", "IdentityContinuous-v0"), ("td3", "Pendulum-v1"), ("dqn", "CartPole-v1"), ("dqn", "Pendulum-v1")]
    )  # fmt: skip
    regime = "replay" if algo in ("sac", "td3", "dqn") else "on-policy"
    left_out = ("env", "algo", "policy", "engine", "hidden", "total_steps", "obs_shape", "episode_steps")
    names = [n for n, f in FIELDS.items() if regime in f.metadata["regimes"] and n not in left_out]
    yield from ("train", env, "--algo", algo, "--quiet", *TINY)
    if regime == "replay":
        yield from ["--warmup-steps", "16", "--transitions-per-update", "4", "--replay-transitions", "64"]
    for name in draw.sample(names, draw.randint(1, 5)):
        flag, kind, choices = f"--{name.replace('_', '-')}", kind_of(name), FIELDS[name].metadata["choices"]
        if kind is bool:
            yield draw.choice((flag, f"--no-{flag[2:]}"))
        elif choices:
            yield from (flag, draw.choice(choices))
        else:
            yield from (flag, draw.choice(SMALL_VALUES.get(kind, ("x", "1", preset_names()[0]))))
