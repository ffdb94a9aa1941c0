"""The playbook beside Optuna's TPE and random search on random response surfaces, at equal units: no training.

python benchmarks/tune_surfaces.py [--surfaces 24] [--from 300] [--ways surface local none tpe random]
A call adds its ways to those that the JSON file holds for the same surfaces.
A surface gives each setting of PPO a score: a best rollout, number of updates, learning rate (which depends on both),
network, discount and so on, drawn anew for each, and noise that differs by setting and seed. It stands for no
environment: what it shows is whether a search finds what is there, in seconds instead of hours. What each chose is
compared by its true score. Tuners get 62 units, the playbook 60 with judging. Needs the extra `tune`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median
from typing import Any

from batchwright.core.machine import probe_machine
from batchwright.envs.catalog import describe
from batchwright.envs.task_facts import task_facts
from batchwright.tuning import tuning_budget, tuning_flow
from batchwright.tuning.playbook import play
from batchwright.tuning.search_space import SearchSpace, Setting, default_space
from batchwright.tuning.setting_moves import Batch
from batchwright.tuning.unit_runs import UnitPlanner

RESULTS = Path(__file__).parent / "results" / "tune_surfaces.json"
ENVS, UNITS, PROBED = 8, 60, 2
NETS = {"tiny": "64", "small": "64,64", "medium": "256,256"}
FLAGS: dict[str, Any] = {
    "env": "Reacher-v4",
    "algo": "ppo",
    "num_envs": ENVS,
    "learner_threads": 1,
    "engine": "envpool",
}
FLAGS |= {"eval_every": 0, "minibatch_transitions": 64, "rollout_steps": 256}
"""Names the plan whose space is searched; nothing of it is trained."""


class Surface:
    """One draw: the true score of a setting, and the score of a unit."""

    def __init__(self, number: int, noise: float, numbers: Setting) -> None:
        source = random.Random(number)
        draw = source.gauss
        self.number, self.noise, self.numbers = number, noise, numbers
        self.rollout, self.updates = draw(8.5, 1.5), draw(-1.0, 1.5)  # log2 of transitions, of updates per transition
        self.rate, self.rate_wide = draw(-8.3, 0.6), -abs(draw(0, 0.3))
        self.wide, self.relu, self.both = draw(0.3, 0.4), draw(0, 0.3), draw(0, 0.3)
        self.horizon, self.trace = draw(-4.0, 1.0), draw(-3.2, 0.8)  # logarithms of 1 - gamma and of 1 - lambda
        self.clip, self.entropy = draw(-1.5, 0.4), draw(-6, 2)
        self.switches = {name: draw(-0.15, 0.3) for name in ("normalize_obs", "normalize_rewards")}
        self.switches["baseline"] = -abs(draw(1, 0.5))
        self.linear, self.minibatch_norm, self.no_norm = draw(-0.15, 0.3), draw(0, 0.2), -abs(draw(0, 0.5))

    def true(self, setting: Setting) -> float:
        value = {**self.numbers, **setting}
        rollout = ENVS * value["rollout_steps"]
        updates = math.log2(value["epochs"] / min(value["minibatch_transitions"], rollout)) - self.updates
        apart = math.log2(rollout) - self.rollout
        wide, relu = value["hidden"] == "256,256", value["activation"] == "relu"
        rate = self.rate + self.rate_wide * wide - 0.3 * updates  # more updates want smaller ones
        found = -0.5 * abs(math.log(value["learning_rate"]) - rate) ** 1.5
        found -= 0.12 * updates**2 + 0.08 * apart**2 + 0.04 * updates * apart
        found += self.wide * wide + self.relu * relu + self.both * wide * relu
        found -= 0.25 * abs(math.log(max(1e-4, 1 - value["gamma"])) - self.horizon) ** 1.5
        found -= 0.15 * abs(math.log(max(1e-3, 1 - value["gae_lambda"])) - self.trace) ** 1.5
        found -= 0.3 * abs(math.log(value["clip_range"]) - self.clip)
        found -= 0.05 * abs(math.log(max(1e-5, value["entropy_start"])) - self.entropy)
        found += sum(effect for name, effect in self.switches.items() if value[name] is False)
        found += self.linear * (value["learning_rate_schedule"] != "constant")
        norms = {"minibatch": self.minibatch_norm, "none": self.no_norm}
        return float(found + norms.get(value["advantage_norm"], 0.0))

    def score(self, setting: Setting, seed: int) -> float:
        words = json.dumps([setting, seed, self.number], sort_keys=True)
        true = self.true(setting)
        return true + self.noise * random.Random(words).gauss(0, 1) * (1 + 0.3 * abs(true))


def tuned(surface: Surface, space: SearchSpace, search: str) -> Setting:
    """What the playbook chooses: its winner, or the default."""
    options = tuning_flow.TuneOptions(steps=1000 * UNITS, unit_steps=1000, search=search)
    ways = tuning_budget.strategies(tuning_flow.base_strategy(options), True, 0)
    speed = tuning_budget.Speed(1e-4, 0.5, 0.1, 1.0, 0.1)
    budget = tuning_budget.Budget(options.steps, None, speed, 1, space)
    found = tuning_budget.allocate(
        budget, ways, wanted_steps=1000, length_is_stated=True, iteration_steps=10, multiple=1
    )
    steps = play(space, {name: surface.numbers[name] for name in space.names}, replace(found.strategy))
    reply: Any = None
    while True:
        try:
            step = steps.send(reply)
        except StopIteration as end:
            return dict(end.value["winner"] or {})
        reply = None
        if isinstance(step, Batch):
            known = {"final": None, "reason": "", "tenths": list(range(10)), "noise": 0.0}
            reply = [
                {"score": surface.score(unit.setting, unit.seed), "seed": unit.seed, **known} for unit in step.units
            ]


def searched(surface: Surface, sampler: str) -> Setting:
    """The best unit of TPE or random search over the Zoo's space: as in tune_against.py, whose score was highest."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}[sampler](seed=0)
    study, scored = optuna.create_study(direction="maximize", sampler=made), []
    for number in range(UNITS + PROBED):
        trial = study.ask()
        rollout, batch = 2 ** trial.suggest_int("n_steps_pow", 5, 12), 2 ** trial.suggest_int("batch_size_pow", 2, 10)
        setting = {
            "rollout_steps": rollout // ENVS,
            "minibatch_transitions": min(batch, rollout),
            "gamma": 1 - trial.suggest_float("one_minus_gamma", 1e-4, 0.03, log=True),
            "gae_lambda": 1 - trial.suggest_float("one_minus_gae_lambda", 1e-4, 0.1, log=True),
            "learning_rate": trial.suggest_float("learning_rate", 1e-5, 2e-3, log=True),
            "entropy_start": trial.suggest_float("ent_coef", 1e-8, 0.1, log=True),
            "clip_range": trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3, 0.4]),
            "epochs": trial.suggest_categorical("n_epochs", [1, 5, 10, 20]),
            "hidden": NETS[trial.suggest_categorical("net_arch", list(NETS))],
            "activation": trial.suggest_categorical("activation_fn", ["tanh", "relu"]),
        }
        score = surface.score(setting, number)
        study.tell(trial, score)
        scored.append((score, number, setting))
    return max(scored)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--surfaces", type=int, default=24)
    parser.add_argument("--from", dest="first", type=int, default=300)
    parser.add_argument("--noise", type=float, default=0.4)
    parser.add_argument("--ways", nargs="+", default=["surface", "local", "none", "tpe", "random"])
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    plan = UnitPlanner(FLAGS, probe_machine(), task_facts(describe(FLAGS["env"]))).plan({}, 0, 32_768)[1]
    space, numbers = default_space(plan), {name: plan[name] for name in plan.quantities}
    surfaces = [Surface(number, given.noise, numbers) for number in range(given.first, given.first + given.surfaces)]
    asked = {"surfaces": given.surfaces, "first": given.first, "noise": given.noise}
    report = json.loads(given.output.read_text()) if given.output.exists() else {}
    if {name: report.get(name) for name in asked} != asked:
        report = {**asked, "true_scores": {}}
    found = report["true_scores"]
    found["default"] = [round(surface.true({}), 4) for surface in surfaces]
    for way in given.ways:
        search = searched if way in ("tpe", "random") else lambda one, way: tuned(one, space, way)
        found[way] = [round(surface.true(search(surface, way)), 4) for surface in surfaces]
        print(f"{way}: mean {mean(found[way]):.3f}, median {median(found[way]):.3f}", flush=True)
    given.output.write_text(json.dumps({**report, "measured": datetime.now(UTC).isoformat("T", "seconds")}) + "\n")


if __name__ == "__main__":
    main()
