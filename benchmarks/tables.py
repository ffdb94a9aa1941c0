"""Writes docs/benchmarks.md from benchmarks/results/*.json; what was not measured is said to be so.

python benchmarks/tables.py [--results benchmarks/results] [--output docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from batchwright.watch.statistics import bootstrap_interval, interquartile_mean
from checker_tables import checkers
from defaults_tables import defaults
from forecast_tables import batch_sweep, forecasts, noise
from markdown_table import figure, measured_on, table
from memory_tables import memory_beside_sb3
from process_tables import processes
from tuning_tables import against, beside_zoo, kills, measure, surfaces

HERE = Path(__file__).resolve().parent
COMPARED_WITH = ("sb3 usual", "sb3 envpool", "sbx usual", "sbx envpool")

HEAD = """# Benchmarks

<!-- Written by `python benchmarks/tables.py` from benchmarks/results/*.json. Do not edit. -->

Each table is generated from a file in `benchmarks/results`, which one command writes; where there is no file, nothing
was measured, and the page says so. How the peers' environment is made and what is identical between contenders is in
`benchmarks/README.md`."""


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} x"


def learning(rows: list[dict[str, Any]]) -> str:
    """Deterministic returns of the tuned presets over seeds, beside the figure to reach."""
    cells = [
        [
            f"`{row['preset']}`",
            row["env"],
            f"{row['env_steps']:,}",
            figure(row["median"]),
            f"{figure(row['low'])} to {figure(row['high'])}",
            f"{row['success']:.0%} (lowest {row['success_low']:.0%})" if "success" in row else "",
            str(row["seeds"]),
            f"{row['aim']:g} ({row['aim_from']})",
            "yes" if row["reached"] else "no",
            f"{row['median_seconds']:,.0f}",
        ]
        for row in rows
    ]
    columns = ["preset", "environment", "steps", "median return", "spread", "success", "seeds", "aim", "reached"]
    columns.append("seconds")
    words = (
        "Return of the last policy, exploration off, over 50 episodes that training never saw: the median over seeds, "
        "and the lowest and highest seed. Seconds are the median of one run's training."
    )
    return f"{words}\n\n{table(columns, cells)}"


def speed(report: dict[str, Any]) -> str:
    """Steps per second beside the peers', a table per setting, then the floors."""
    parts = [
        "Environment steps per second of PPO training at identical settings; imports, compilation and the first "
        "iteration left out. Ratios are ratios of medians.",
        measured_on(report),
    ]
    for setting in report["settings"]:
        title = "{env}, {num_envs} x {rollout_steps}, minibatch {minibatch}, {epochs} epochs".format(**setting)
        parts += [f"### {title}", table(_speed_columns(), _speed_rows(setting["contenders"]))]
        parts += [
            f"{name}: {len(found['failures'])} runs failed; the last: {found['failures'][-1]}"
            for name, found in setting["contenders"].items()
            if found["failures"]
        ]
    floors = [
        [row["setting"], row["contender"], row["peer"], times(row["ratio"]), times(row["reached"]), row["verdict"]]
        for row in report["floors"]
    ]
    if floors:
        parts += ["### Floors", table(["setting", "contender", "peer", "at least", "reached", ""], floors)]
    return "\n\n".join(parts)


def _speed_columns() -> list[str]:
    return ["", "steps/s, median", "lowest to highest", *(f"to {peer}" for peer in COMPARED_WITH)]


def _speed_rows(contenders: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, found in contenders.items():
        figures = ["failed", "-"]
        if found["median"] is not None:
            figures = [f"{found['median']:,.0f}", f"{min(found['speeds']):,.0f} to {max(found['speeds']):,.0f}"]
        rows.append([name, *figures, *(times(found["ratios"].get(peer)) for peer in COMPARED_WITH)])
    return rows


def wallclock(report: dict[str, Any]) -> str:
    """Seconds of whole processes to solved."""
    # Files from before the caches were emptied do not say it.
    empty = report.get("cache") == "empty"
    parts = [
        "Seconds from the start of the process to solved (mean return of the last 100 training episodes), imports "
        "included. "
        + (
            "All caches were empty at every start: Batchwright compiled its programs and measured its engines."
            if empty
            else "Batchwright had its compiled programs and its choice of engine from an earlier start; the first "
            "start takes longer."
        ),
        measured_on(report),
    ]
    for env, threshold in report["thresholds"].items():
        runs = [run for run in report["runs"] if run["env"] == env]
        if runs:
            columns = ["", "seconds, median", "lowest to highest", "steps, median", "seeds solved"]
            parts += [f"### {env} to {threshold:g}", table(columns, _wallclock_rows(runs))]
    targets = [
        [
            row["env"],
            row["peer"],
            f"{row['target']:.2f}",
            ("below " if row.get("at_most") else "") + _share(row["reached"]),
            row["verdict"],
        ]
        for row in report["targets"]
    ]
    if targets:
        parts += ["### Share of the peer's time", table(["", "peer", "at most", "reached", ""], targets)]
    if any(row.get("at_most") for row in report["targets"]):
        parts.append("A peer that spent the Zoo's steps unsolved would have needed longer: the share is below that.")
    if report.get("note"):
        parts.append(report["note"])
    return "\n\n".join(parts)


def _wallclock_rows(runs: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for name in dict.fromkeys(run["contender"] for run in runs):
        mine = [run for run in runs if run["contender"] == name]
        solved = [run for run in mine if run["solved"]]
        unsolved = [run["seconds"] for run in mine if not run["solved"]]
        figures = [f"not solved in {statistics.median(unsolved):.0f}" if unsolved else "-", "-", "-"]
        if solved:
            seconds = [run["seconds"] for run in solved]
            steps = [run["steps"] for run in solved if run["steps"] is not None]
            figures = [
                f"{statistics.median(seconds):.1f}",
                f"{min(seconds):.1f} to {max(seconds):.1f}",
                f"{statistics.median(steps):,.0f}" if steps else "-",
            ]
        rows.append([name, *figures, f"{len(solved)} of {len(mine)}"])
    return rows


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def limit(report: dict[str, Any]) -> str:
    """How near whole iterations come to the sum of their parts, and speed against the number of environments."""
    near = [
        [
            row["env"],
            row["engine"],
            row["setting"],
            f"{row['steps_per_second']:,.0f}",
            f"{1000 * row['environments_seconds']:.1f}",
            f"{1000 * row['update_seconds']:.1f}",
            f"{1000 * row['iteration_seconds']:.1f}",
            f"{row['share_of_limit']:.2f}",
        ]
        for row in report["limits"]
    ]
    columns = ["", "engine", "envs x steps, minibatch, epochs", "steps/s", "environments ms", "update ms"]
    growing = [
        [row["env"], row["engine"], f"{row['num_envs']:,}", f"{row['steps_per_second']:,.0f}"]
        for row in report["growing"]
    ]
    return "\n\n".join(
        [
            "The limit is environments alone plus compiled update alone; the share is that sum over a whole iteration.",
            table([*columns, "iteration ms", "share"], near),
            "### Speed against the number of environments",
            table(["", "engine", "envs", "steps/s"], growing),
        ]
    )


def startup(report: dict[str, Any]) -> str:
    """How long the quick commands take from the shell."""
    rows = [
        [
            f"`{row['command']}`",
            f"{row['median_seconds']:.3f}",
            f"{row['fastest_seconds']:.3f} to {row['slowest_seconds']:.3f}",
            f"{row['processor_seconds']:.3f}",
            f"{row['target_seconds']:g}",
            "yes" if row["met"] else "no",
        ]
        for row in report["results"]
    ]
    columns = ["command", "seconds, median", "lowest to highest", "processor seconds", "target", "met"]
    return f"{measured_on(report)}\n\n{table(columns, rows)}"


def claims(report: dict[str, Any]) -> str:
    """Claims made for batches of whole episodes beside what was measured."""
    settings, pieces = report["settings"], report["pieces"]
    parts = [measured_on(report) + " CartPole-v1, engine `jax`, ppo with the planner's defaults, medians over seeds."]
    if "gradients" in pieces:
        parts.append(_gradient_claim(settings, pieces["gradients"]))
    learned = {n.removeprefix("learning: "): runs for n, runs in pieces.items() if n.startswith("learning: ")}
    if learned:
        parts.append(_learning_claim(settings, learned))
    corrupt = {n.removeprefix("outliers: "): runs for n, runs in pieces.items() if n.startswith("outliers: ")}
    if corrupt and learned:
        parts.append(_outlier_claim(settings, learned, corrupt))
    return "\n\n".join(parts)


def _gradient_claim(settings: dict[str, Any], seeds: list[list[dict[str, Any]]]) -> str:
    rows = []
    for stage in range(len(settings["stages"])):
        at = [rows_of_seed[stage] for rows_of_seed in seeds]
        ways = ("1 episode", "minibatch of 64", "10 episodes")
        one, part, ten = (statistics.median(row[way] for row in at) for way in ways)
        lower = [1 - row["10 episodes"] / row["1 episode"] for row in at]
        against = [1 - row["minibatch of 64"] / row["1 episode"] for row in at]
        rows.append(
            [
                f"{settings['stages'][stage]:,}",
                f"{statistics.median(row['return'] for row in at):.0f}",
                *(f"{value:.3f}" for value in (one, part, ten)),
                _percent(lower),
                _percent(against),
            ]
        )
    columns = ["after steps", "return", "1 episode", "minibatch of 64", "10 episodes", "10 for 1", "64 for 1"]
    return (
        "### Gradient variance\n\nClaim: 60-80% lower. Summed variance of the policy's gradient at one policy, over "
        f"30 independent rollouts, {len(seeds)} seeds; the last two columns are the reduction against one episode, "
        "with the lowest and the highest seed. At equal data the mean of ten gradients of one episode has the "
        "variance of the one of ten: what differs is that ten updates were made meanwhile.\n\n" + table(columns, rows)
    )


def _percent(shares: list[float]) -> str:
    return f"{statistics.median(shares):.0%} ({min(shares):.0%} to {max(shares):.0%})"


def _learning_claim(settings: dict[str, Any], learned: dict[str, list[dict[str, Any]]]) -> str:
    rows = []
    for mode, runs in learned.items():
        data = [run["equal_data"] for run in runs if "equal_data" in run]
        updates = [run["equal_updates"] for run in runs if "equal_updates" in run]
        solved = [run["solved"] for run in runs if "solved" in run]
        rows.append(
            [
                mode,
                _spread([at["return"] for at in data]),
                f"{statistics.median(at['updates'] for at in data):,.0f}",
                _spread([at["return"] for at in updates]) if updates else "-",
                f"{statistics.median(at['steps'] for at in updates):,.0f}" if updates else "-",
                f"{len(solved)} of {len(runs)}",
                f"{statistics.median(at['steps'] for at in solved):,.0f}" if solved else "-",
                f"{statistics.median(at['updates'] for at in solved):,.0f}" if solved else "-",
                f"{statistics.median(at['processor_seconds'] for at in solved):,.1f}" if solved else "-",
            ]
        )
    steps, made = settings["equal_steps"], settings["equal_updates"]
    columns = ["mode", f"return at {steps:,} steps", "updates made", f"return at {made:,} updates", "steps used"]
    columns += ["solved", "steps to it", "updates to it", "processor seconds to it"]
    return (
        "### Reuse and convergence\n\nClaims: 4 x reuse; 2-3 x faster to a stable policy. Reuse is a setting: 4 "
        "epochs are 4 updates per transition, and what they bring stands here. Returns of 20 episodes with "
        f"exploration off, median (lowest to highest). Solved: the mean of the last 100 training episodes reaches "
        f"{settings['solved']:g} within {settings['most_steps']:,} steps; medians of the runs that did. Processor "
        "seconds hold collecting and updating, as other work shared the machine.\n\n" + table(columns, rows)
    )


def _outlier_claim(
    settings: dict[str, Any], learned: dict[str, list[dict[str, Any]]], corrupt: dict[str, list[dict[str, Any]]]
) -> str:
    rows = []
    for mode, runs in corrupt.items():
        clean = [run["equal_data"]["return"] for run in learned[mode] if "equal_data" in run]
        rows.append([mode, _spread(clean), _spread([run["equal_data"]["return"] for run in runs])])
    return (
        f"### Outlier episodes\n\nClaim: robust. {settings['outlier_share']:.0%} of the training episodes pay "
        f"{settings['outlier_reward']:g} in every step instead of 1; returns at {settings['equal_steps']:,} steps on "
        "the unspoilt task.\n\n" + table(["mode", "without outliers", "with outliers"], rows)
    )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def doctor(report: dict[str, Any]) -> str:
    """How often the cause of a harmful fault is named, the alarms on harmless ones, and what was named instead."""
    sets = {name: report["sets"][name]["summary"] for name in _FAULT_SETS if name in report["sets"]}
    lines = (
        ("cause named first", "75%", "named_first", "harmed_runs"),
        ("cause among the first three alarms", "90%", "among_first_three", "harmed_runs"),
        ("silent on a harmed run", "at most 5%", "silent", "harmed_runs"),
        ("alarm on a harmless run", "at most 5%", "false_alarms", "harmless_runs"),
        ("first flags repair a harmed run", "60%", "repaired", "repaired_runs"),
        ("what `--try` chose repairs it", "80%", "tried", "tried_runs"),
    )
    rows = [[text, aim, *(_of(found, share, count) for found in sets.values())] for text, aim, share, count in lines]
    kinds = [
        [kind, *(_of(found["kinds"].get(kind, {}), "named_first", "harmed_runs") for found in sets.values())]
        for kind in sorted({kind for found in sets.values() for kind in found["kinds"]})
    ]
    titles = [f"set `{name}`" for name in sets]
    sizes = "; ".join(f"`{name}`: {found['faults']} faults in {found['bases']} bases" for name, found in sets.items())
    return "\n\n".join(
        [
            "One fault at one grade is planted in each run. A run is harmed where its return in the last tenth of "
            "training has lost more than 25% of what healthy runs of its base gain, and lies below every one of them; "
            "otherwise it counts as a harmless run with an odd number, on which an alarm is false. The cause is named "
            "where a finding that was fixed beforehand (`benchmarks/doctor_faults.py`) stands among the alarms. A base "
            "is an environment and an algorithm, with or without preset.",
            "`unseen` and `further` (`benchmarks/doctor_unseen.py`) are tasks, seeds and grades that no threshold was "
            "set on, four healthy seeds of each base, faults of the environment under every algorithm but return "
            "decomposition. `unseen` judged the doctor first; what it missed was mended, and `further`, trained after "
            "that, judged it once. Each stands as it was judged. One look came before `unseen`: while it was being "
            "trained, the healthy runs of `a2c keys` showed alarms for terminations without a reason, and that finding "
            "learned to count terminations. After `further` a rule was added (a run whose last episodes are all its "
            "best is healthy), which would leave one false alarm out. Random terminations are not planted where "
            "rewards are negative: the sooner an episode ends the more it returns.",
            "The rules were chosen on `fresh-again` and `judging`, shown as the present doctor sees them. `fresh` has "
            "the same cases as `fresh-again` with other seeds and judged an earlier rule; its figures are those of "
            f"then. `--try` was run on {sets['further']['tried_runs']} of the harmed runs of `further`. Runs: {sizes}.",
            table(["", "aim", *titles], rows),
            "Per algorithm, in the sets that have several:",
            table(
                ["set", "algorithm", "named first", "among three", "silent", "alarms on harmless runs"],
                _algorithm_rows(sets),
            ),
            "Cause named first, by kind of fault:",
            table(["kind of fault", *titles], kinds),
            "### Per fault",
            "Named instead: the first alarm where it is not the cause. Repairs count faults that a flag can mend.",
            table(["set", "fault", "grade", *_FAULT_COLUMNS], _fault_rows(report)),
        ]
    )


def _of(found: dict[str, Any], share: str, count: str) -> str:
    """A share with the number of runs behind it."""
    return f"{_in_percent(found[share])} of {found[count]}" if found.get(count) else "not measured"


_FAULT_SETS = ("further", "unseen", "fresh-again", "judging", "fresh")
_FAULT_COLUMNS = ("base", "harmed", "cause at place", "named first instead", "repaired")


def _algorithm_rows(sets: dict[str, Any]) -> list[list[str]]:
    """Shares of each algorithm in the sets that have several."""
    return [
        [
            name,
            algo,
            _of(found, "named_first", "harmed_runs"),
            _of(found, "among_first_three", "harmed_runs"),
            _of(found, "silent", "harmed_runs"),
            _of(found, "false_alarms", "harmless_runs"),
        ]
        for name in sets
        if "algorithms" in sets[name] and len(sets[name]["algorithms"]) > 1
        for algo, found in sets[name]["algorithms"].items()
    ]


def _fault_rows(report: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name in _FAULT_SETS:
        for row in report["sets"].get(name, {"rows": []})["rows"]:
            first = f"`{row['alarms'][0]}`" if row["alarms"] else "silent" if row["harmed"] else "-"
            if "fault" not in row and not row["alarms"]:
                continue
            instead = "-" if row["harmed"] and row["place"] == 1 else first
            place = str(row["place"] or "none") if row["harmed"] else "-"
            repaired = {None: "-", True: "yes", False: "no"}[row.get("repaired")]
            harmed = "yes" if row["harmed"] else "no"
            fault = [row.get("fault", "none"), row.get("grade") or "-"]
            rows.append([name, *fault, row["base"], harmed, place, instead, repaired])
    return rows


def _in_percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def speed_replay(report: dict[str, Any]) -> str:
    """Time of one step of SAC, update included, beside the peers and the products of its layers alone."""
    rows = []
    for threads, found in report.items():
        for name in ("batchwright", "sb3", "sbx", "bound"):
            took = found["median_seconds_per_step"][name]
            ours = found["median_seconds_per_step"]["batchwright"]
            label = "products alone" if name == "bound" else name
            cells = [f"{1e3 * took[clock]:.1f}" for clock in ("cpu", "wall")]
            ratios = [times(took[clock] / ours[clock]) for clock in ("cpu", "wall")]
            rows.append([threads, label, cells[0], ratios[0], cells[1], ratios[1]])
    one = next(iter(report.values()))
    text = (
        f"SAC on {one['env']}: 256-256 units, 256 transitions per update, one update per step; medians of "
        f"{one['repeats']} turns of {one['steps']} steps, load average {one['load_average']:.0f} at the end. "
        f"The products of one update are {one['update_megaflops']:.0f} MFLOP. On a busy machine CPU time is the "
        "figure, wall time is not."
    )
    shares = [f"{found['share_of_bound_during_updates']:.2f} with {threads}" for threads, found in report.items()]
    columns = ["", "", "CPU ms per step", "against ours", "wall ms per step", "against ours"]
    share = f"Products alone take this share of the wall time of our updates, collection left out: {', '.join(shares)}."
    return f"{text}\n\n{table(columns, rows)}\n\n{share}"


def entropy(report: dict[str, Any]) -> str:
    """Returns of PPO by task and form of the entropy bonus."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for key, run in report.items():
        env, steps, form, _ = key.split("|")
        groups.setdefault((env, steps, form), []).append(run)
    rows = []
    for (env, steps, form), runs in groups.items():
        last, training = ([run[name] for run in runs] for name in ("mean", "training_mean"))
        spread = f"{min(last):.3g} to {max(last):.3g}"
        shown = f"{statistics.median(training):.3g} ({min(training):.3g} to {max(training):.3g})"
        left = statistics.median(run["entropy_last"] for run in runs)
        middle = f"{statistics.median(last):.3g}"
        rows.append([env, f"{int(steps):,}", form, str(len(runs)), middle, spread, shown, f"{left:.2f}"])
    text = (
        "PPO with the tuned preset of each task but for the entropy bonus. Last evaluation: 20 episodes, exploration "
        "off; training: the mean return of all training episodes, which is higher where a form learns sooner."
    )
    columns = ["task", "steps", "form", "seeds", "median return", "lowest to highest", "training", "entropy left"]
    return text + "\n\n" + table(columns, rows)


FORMS = ("plain", "default", "balanced", "learned")


def components(report: dict[str, Any]) -> str:
    """What each form of reward components reaches on each task, beside the plain sum."""
    rows, shares, missing = [], [], []
    for name, task in report["tasks"].items():
        runs = {form: report["runs"].get(name, {}).get(form, []) for form in FORMS}
        missing += [name] if not all(runs.values()) else []
        if not runs["plain"]:
            continue
        judged = task["judged_by"]
        scores = {form: np.array([run[judged] for run in found], float) for form, found in runs.items()}
        seeds = min(len(found) for found in scores.values() if len(found))
        cells = [
            f"{figure(float(interquartile_mean(found)))} ({_interval(found)})" if len(found) else "-"
            for found in scores.values()
        ]
        rows.append([name, f"{task['steps']:,}", task["target"], judged, str(seeds), *cells])
        shares.append([name, *_shares_of_plain(scores, report["random"][name][judged])])
    text = (
        "PPO on the plain sum of the reward, with one value per component and the stated weights (the default), with "
        "`--component-balance`, and with weights learned towards the target. Interquartile mean over seeds of the last "
        "evaluation (20 episodes, exploration off), with its 95% bootstrap interval. Settings of the learned weights "
        "were chosen on other seeds."
    )
    second = (
        "The same as a share of the plain sum, counted from what an untrained policy reaches. Where the plain sum "
        "reaches no more than that, there is no share."
    )
    pieces = [text, measured_on(report), table(["task", "steps", "target", "judged by", "seeds", *FORMS], rows)]
    pieces += [second, table(["task", *FORMS[1:]], shares)]
    return "\n\n".join([*pieces, f"Not or not wholly measured yet: {', '.join(missing)}."] if missing else pieces)


def _interval(scores: np.ndarray) -> str:
    low, high = bootstrap_interval([scores], interquartile_mean) or (float(scores[0]),) * 2
    return f"{figure(low)} to {figure(high)}"


def _shares_of_plain(scores: dict[str, np.ndarray], untrained: float) -> list[str]:
    plain = float(interquartile_mean(scores["plain"])) - untrained
    if plain <= 0.01 * max(1.0, abs(untrained)):
        return ["-"] * (len(FORMS) - 1)
    return [
        f"{(float(interquartile_mean(scores[form])) - untrained) / plain:.2f}" if len(scores[form]) else "-"
        for form in FORMS[1:]
    ]


def rrd(report: dict[str, Any]) -> str:
    """Returns of SAC on delayed rewards, by task, steps and variant; then one of the four batch numbers changed."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for key, run in report.items():
        env, steps, name, _ = key.split("|")
        groups.setdefault((env, steps, name), []).append(run)
    moved = {(env, steps) for env, steps, name in groups if " " in name.partition(", ")[0]}
    tasks = [_rrd_row(*key, runs) for key, runs in groups.items() if key[:2] not in moved]
    text = (
        "Last evaluation, 20 episodes, exploration off, returns of true rewards; 128-128 units, one update of 128 "
        "transitions per step, 256 timesteps in subsequences of 64, one environment; as many updates after as many "
        "steps as the column in turn says."
    )
    columns = ["task", "steps", "rewards", "in turn", "seeds", "median return", "lowest to highest", "median seconds"]
    parts = [text, table(columns, tasks)]
    numbers = [_rrd_row(*key, runs) for key, runs in groups.items() if key[:2] in moved]
    if numbers:
        parts += ["### One number moved at a time", table(columns, numbers)]
    return "\n\n".join(parts)


def _rrd_row(env: str, steps: str, name: str, runs: list[dict[str, Any]]) -> list[str]:
    means = [run["mean"] for run in runs]
    spread = f"{min(means):,.0f} to {max(means):,.0f}"
    seconds = statistics.median(run["seconds"] for run in runs)
    name, _, turn = name.partition(", ")
    text = [env, f"{int(steps):,}", name, turn.removesuffix(" in turn") or "100", str(len(means))]
    return [*text, f"{statistics.median(means):,.1f}", spread, f"{seconds:.0f}"]


def beside_sbx(algo: str, report: dict[str, Any]) -> str:
    """Returns after the same steps at equal settings, seed by seed."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for key, run in sorted(report.items()):
        name, steps, sizes, _ = key.split("|")
        groups.setdefault((sizes, steps, name), []).append(run)
    rows = []
    for (sizes, steps, name), runs in groups.items():
        means = [run["mean"] for run in runs]
        each = ", ".join(f"{mean:,.0f}" for mean in means)
        seconds = statistics.median(run["seconds"] for run in runs)
        rows.append([name, f"{int(steps):,}", sizes, f"{statistics.median(means):,.0f}", each, f"{seconds:.0f}"])
    text = (
        f"{algo} on HalfCheetah-v5: two layers, learning rate 3e-4, one update per step, 5,000 random steps first. "
        "Mean return of 10 episodes, exploration off, for each seed; one thread each, two runs at a time."
    )
    columns = ["", "steps", "layers, transitions per update", "median return", "each seed", "median seconds"]
    return text + "\n\n" + table(columns, rows)


def torture(report: dict[str, Any]) -> str:
    """What was attacked and what survived, by part and by kind of attack."""
    parts: dict[str, list[dict[str, Any]]] = {}
    for one in report["rounds"]:
        parts.setdefault(one["part"], []).append(one)
    rows = []
    for name, rounds in parts.items():
        tried, survived, calls = (f"{sum(one[key] for one in rounds):,}" for key in ("tried", "survived", "calls"))
        if name == "kills":
            tried += f" ({sum(sum(one['codes'].values()) for one in rounds):,} kills)"
        seeds = ", ".join(str(one["seed"]) for one in rounds)
        rows.append(
            [_ATTACKED.get(name, name), tried, survived, calls, seeds, max(one["measured"] for one in rounds)[:10]]
        )
    text = (
        "A killed run survives when its record, its parameters and its evaluation are, to the bit, those of a run that "
        "was left alone. Everything else survives when each command ends with exit code 0, 2 or 3 and at most one "
        "message, without a traceback and in time, when nothing outside the run directory has changed, no code of the "
        "run directory was run, and no row of its record is lost. Each attack is drawn from a seed and its number, and "
        "can be repeated alone."
    )
    pieces = [text, table(["", "tried", "survived", "commands called", "seeds", "measured"], rows)]
    missing = [what for name, what in _ATTACKED.items() if name not in parts]
    pieces += [f"Not in this file yet: {', '.join(missing)}."] if missing else []
    for name, rounds in parts.items():
        sums: dict[str, np.ndarray] = {}
        for kind, counts in (pair for one in rounds for pair in one["by_kind"].items()):
            sums[kind] = sums.get(kind, np.zeros(2, int)) + counts
        kinds = [[kind, f"{tried:,}", f"{survived:,}"] for kind, (tried, survived) in sorted(sums.items())]
        pieces += [f"### {_ATTACKED.get(name, name).capitalize()}", table(["", "tried", "survived"], kinds)]
    return "\n\n".join(pieces)


_ATTACKED = {
    "kills": "killed runs",
    "damages": "damaged runs",
    "strangers": "malicious run directories",
    "calls": "fuzzed commands and settings files",
    "environments": "nasty environments",
}


def lerobot_memory(report: dict[str, Any]) -> str:
    """Traced memory beside the peak that real updates took."""
    rows = []
    for case in report["cases"]:
        mode = case["precision"] + (", checkpointed" if case["gradient_checkpointing"] else "")
        shape = f"{case['cameras']} x {case['image_size']}"
        traced, counted = (f"{case[name] / 1e6:,.0f}" for name in ("traced_bytes", "counted_bytes"))
        rows.append([case["policy"], shape, mode, str(case["samples"]), traced, counted, f"{case['error']:+.1%}"])
    columns = ["policy", "cameras x pixels", "mode", "samples", "traced MB", "counted MB", "difference"]
    worst = max(abs(case["error"]) for case in report["cases"])
    return (
        f"LeRobot {report['lerobot']}, PyTorch {report['torch']}, on a CPU. Counted is the peak of PyTorch's CPU "
        "allocator over an update, weights and optimiser state included. The small policies have fewer and narrower "
        f"layers (`SIZES` in the script). The largest difference of {len(rows)} cases is {worst:.1%}.\n\n"
        + table(columns, rows)
    )


def agents(report: dict[str, Any]) -> str:
    """Returns of agents with shared parameters, beside a peer's."""
    rows = []
    for trainer, title in (("batchwright", "Batchwright"), ("sb3", "Stable-Baselines3")):
        found = sorted((row for row in report["rows"] if row["trainer"] == trainer), key=lambda row: row["seed"])
        means = [row["mean"] for row in found]
        each = ", ".join(f"{mean:.2f}" for mean in means)
        seconds = sum(row["seconds"] for row in found) / len(found)
        rows.append([title, each, f"{sum(means) / len(means):.2f}", f"{found[0]['agent_steps']:,}", f"{seconds:.0f}"])
    settings, versions = report["settings"], report["rows"][-1]["versions"]
    peer = next(row["versions"] for row in report["rows"] if row["trainer"] == "sb3")
    return (
        f"`{settings['env']}` ({versions['mpe2']}), three agents with one policy, PPO with the same numbers for both: "
        f"{settings['num_envs']} environments x {settings['rollout_steps']} steps, minibatches of "
        f"{settings['minibatch_transitions']}, {settings['epochs']} epochs, {settings['total_steps']:,} environment "
        f"steps. Stable-Baselines3 {peer['stable-baselines3']} gets the agents as rows of a vector environment "
        "(`peers/agents_sb3.py`). Mean return of an agent over 200 episodes after training, the same episodes for "
        f"both, exploration off; agents that act at random return {report['random']:.2f}. Our steps include those "
        "that are spent on resets, so we train on fewer transitions. Seconds are those of training on one core with "
        "other programs on the machine.\n\n"
        + table(["trainer", "return by seed", "mean", "transitions", "seconds"], rows)
    )


def lerobot_claims(report: dict[str, Any]) -> str:
    """Speed and stability of ACT by batch and workers, beside the source's figures; the worth of the probe's advice."""
    load = report["load"].values()
    return "\n\n".join(
        [
            f"LeRobot {report['lerobot']}, PyTorch {report['torch']}, {report['cores']} cores without a GPU, other "
            f"programs running (load {min(load):.0f} to {max(load):.0f}). The [source](sources.md) claims speed and "
            '"stability" of batch sizes without saying what stability is. Measured: samples per CPU second of ACT at '
            "its real size (one camera of 96 x 96) relative to 16; the loss on all frames of a toy task after 192 "
            "samples, mean and range of the seeds; and the planned share of 12 GiB at the source's 3 cameras of "
            "224 x 224.",
            _claimed_batches(report["batch"]),
            "Loader processes, batches of 8, one camera of 128 x 128, without images that LeRobot decodes and throws "
            "away. The source claims 40%, 80%, 95% and 93% use of a GPU with 2, 8, 16 and 24 workers on 32 cores. "
            'The update is that of a small ACT on one core ("cpu") or on all ("cores", what PyTorch does by itself), '
            'or a wait that takes no core, as a GPU would ("wait", 1.5 times as fast as the loader without processes). '
            "The probe advised before training was measured; training is the median of 5 rounds, each number of "
            "workers in turn. Busy is the share of time in the update.",
            _claimed_workers(report["workers"]),
            "\n".join(_advice_worth(part, found) for part, found in report["workers"].items()),
            _chunk_defect(report["workers"]),
        ]
    )


def _claimed_batches(batches: list[dict[str, Any]]) -> str:
    rates = {row["samples"]: row["samples_per_cpu_second"] for row in batches}
    rows = []
    for row in batches:
        losses = row["losses"]
        cells = [f"{row['claimed_speed']:.0%}", f"{rates[row['samples']] / rates[16]:.0%}"]
        cells += [f"{row['claimed_stability']:.0%}", f"{sum(losses) / len(losses):.3f}"]
        cells += [f"{min(losses):.3f} to {max(losses):.3f}", f"{row['memory_use_of_12_gib']:.0%}"]
        rows.append([str(row["samples"]), *cells])
    seeds = f"of {len(batches[0]['losses'])} seeds"
    columns = ["samples", "claimed speed", "speed", "claimed stability", "loss after 192 samples", seeds, "of 12 GiB"]
    return table(columns, rows)


def _claimed_workers(parts: dict[str, Any]) -> str:
    rows = [
        [
            part.replace("-", ", "),
            str(row["workers"]) + (" (advised)" if row["workers"] == found["advised_workers"] else ""),
            f"{row['loader_samples_per_second']:.1f}",
            f"{row['samples_per_second']:.1f}",
            "{:.1f} to {:.1f}".format(*row["lowest_to_highest"]),
            f"{row['busy_share']:.0%}",
        ]
        for part, found in parts.items()
        for row in found["rows"]
    ]
    columns = ["dataset, update", "workers", "loader samples/s", "training samples/s", "lowest to highest", "busy"]
    return table(columns, rows)


def _advice_worth(part: str, found: dict[str, Any]) -> str:
    return (
        f"- {part.replace('-', ', ')}: advised workers {found['advised_workers']}, "
        f"{found['advised_over_worst']:.2f} times the worst choice, {found['advised_over_best']:.0%} of the best."
    )


def _chunk_defect(parts: dict[str, Any]) -> str:
    images = next(found for part, found in parts.items() if part.startswith("images"))
    return (
        f"The image dataset decodes {images['decoded_images']} images for a sample of one camera, "
        f"{1000 * images['sample_seconds']:.0f} ms; without the unused ones it takes "
        f"{1000 * images['sample_seconds_here']:.1f} ms. The probe named that on images and not on video."
        if all((DEFECT in " ".join(found["findings"])) == part.startswith("images") for part, found in parts.items())
        else "The probe was wrong about images that are decoded and thrown away."
    )


DEFECT = "chunk_size x cameras"


# (title, file, command that writes it, text of its record)
SECTIONS: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    (
        "Learning",
        "learning.json",
        "python benchmarks/learning.py --json benchmarks/results/learning.json",
        learning,
    ),
    ("Defaults", "defaults.json", "python benchmarks/defaults.py --peers-python PYTHON", defaults),
    ("Speed", "speed.json", "python benchmarks/speed.py", speed),
    ("Wall-clock", "wallclock.json", "python benchmarks/wallclock.py", wallclock),
    ("Limit", "limit.json", "python benchmarks/limit.py --json benchmarks/results/limit.json", limit),
    ("Claims of batch training", "claims.json", "python benchmarks/claims.py", claims),
    ("Forms of the entropy bonus", "entropy.json", "python benchmarks/entropy.py", entropy),
    ("Reward components", "components.json", "python benchmarks/components.py", components),
    (
        "Memory beside RecurrentPPO",
        "memory_beside_sb3.json",
        "python benchmarks/memory_beside_sb3.py --peers-python PYTHON",
        memory_beside_sb3,
    ),
    ("Several agents", "agents.json", "python benchmarks/agents.py --python-peer PYTHON", agents),
    ("Doctor", "doctor.json", "python benchmarks/doctor.py judge --json benchmarks/results/doctor.json", doctor),
    ("Gradient noise scale", "noise_scale.json", "python benchmarks/noise_scale.py", noise),
    ("Sizes at equal data", "batch_sweep.json", "python benchmarks/batch_sweep.py", batch_sweep),
    ("Forecasts", "forecasts.json", "python benchmarks/forecasts.py", forecasts),
    ("Replay: speed", "speed_replay.json", "python benchmarks/speed_replay.py", speed_replay),
    ("Replay: SAC beside SBX", "sac_beside_sbx.json", "python benchmarks/beside_sbx.py", partial(beside_sbx, "SAC")),
    (
        "Replay: TD3 beside SBX",
        "td3_beside_sbx.json",
        "python benchmarks/beside_sbx.py --algo td3 --steps 100000",
        partial(beside_sbx, "TD3"),
    ),
    ("Replay: delayed rewards", "rrd.json", "python benchmarks/rrd.py", rrd),
    (
        "LeRobot: memory",
        "lerobot_memory.json",
        "PYTHONPATH=src .venv-lerobot/bin/python benchmarks/lerobot_memory.py "
        "--json benchmarks/results/lerobot_memory.json",
        lerobot_memory,
    ),
    (
        "LeRobot: batch and workers",
        "lerobot_claims.json",
        "PYTHONPATH=src .venv-lerobot/bin/python benchmarks/lerobot_claims.py "
        "--json benchmarks/results/lerobot_claims.json",
        lerobot_claims,
    ),
    ("Tuning: against other tuners", "tune_against.json", "python benchmarks/tune_against.py", against),
    (
        "Tuning: beside the Zoo",
        "tune_beside_zoo.json",
        "python benchmarks/tune_beside_zoo.py --peers-python PYTHON",
        beside_zoo,
    ),
    ("Tuning: searches on random surfaces", "tune_surfaces.json", "python benchmarks/tune_surfaces.py", surfaces),
    ("Tuning: what it promises", "tune_measure.json", "python benchmarks/tune_measure.py", measure),
    ("Tuning: kills", "tune_kills.json", "python benchmarks/tune_kills.py", kills),
    ("Several processes", "processes.json", "python benchmarks/processes.py curves | kills | reduce", processes),
    (
        "Other trainers",
        "checkers.json",
        "PYTHONPATH=src .venv-peers/bin/python benchmarks/checkers.py --json benchmarks/results/checkers.json",
        checkers,
    ),
    ("Attacks", "torture.json", "make torture", torture),
    ("Start-up", "startup.json", "python benchmarks/startup.py --json benchmarks/results/startup.json", startup),
)


def page(results: Path) -> str:
    """The whole page; a section without its file says so."""
    parts = [HEAD]
    for title, name, command, text_of in SECTIONS:
        parts.append(f"## {title}\n\nCommand: `{command}`")
        path = results / name
        if not path.exists():
            parts.append(f"Not measured: there is no `benchmarks/results/{name}` yet.")
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        parts.append(text_of(record))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--output", type=Path, default=HERE.parent / "docs" / "benchmarks.md")
    stated = parser.parse_args()
    stated.output.write_text(page(stated.results), encoding="utf-8")
    print(f"written: {stated.output}")


if __name__ == "__main__":
    main()
