"""Writes docs/benchmarks.md from benchmarks/results/*.json; what was not measured is said to be so.

python benchmarks/tables.py [--results benchmarks/results] [--output docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMPARED_WITH = ("sb3 usual", "sb3 envpool", "sbx usual", "sbx envpool")

HEAD = """# Benchmarks

<!-- Written by `python benchmarks/tables.py` from benchmarks/results/*.json. Do not edit. -->

Each table is generated from a file in `benchmarks/results`, which one command writes; where there is no file, nothing
was measured, and the page says so. How the peers' environment is made and what is identical between contenders is in
`benchmarks/README.md`."""


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; all columns but the first are figures."""
    lines = ["| " + " | ".join(columns) + " |", "|---|" + "---:|" * (len(columns) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} x"


def figure(value: float) -> str:
    """A return with two digits after the point where it is small."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def measured_on(report: dict[str, Any]) -> str:
    """Date and machine of a record, with the load it was measured under."""
    machine = report.get("machine", {})
    name = machine.get("cpu") or machine.get("processor") or "unknown processor"
    parts = [f"{machine.get('cores', '?')} cores ({name})"]
    parts += [f"{machine['ram_gib']} GiB RAM"] if machine.get("ram_gib") else []
    parts += [f"load {machine['load_before']} before the start"] if "load_before" in machine else []
    when = f"{report['measured'][:10]}, " if report.get("measured") else ""
    return f"Measured {when}on {', '.join(parts)}."


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
        [row["env"], row["peer"], f"{row['target']:.2f}", _share(row["reached"]), row["verdict"]]
        for row in report["targets"]
    ]
    if targets:
        parts += ["### Share of the peer's time", table(["", "peer", "at most", "reached", ""], targets)]
    return "\n\n".join(parts)


def _wallclock_rows(runs: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for name in dict.fromkeys(run["contender"] for run in runs):
        mine = [run for run in runs if run["contender"] == name]
        solved = [run for run in mine if run["solved"]]
        figures = ["not solved", "-", "-"]
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


# (title, file, command that writes it, text of its record)
SECTIONS: tuple[tuple[str, str, str, Callable[[Any], str]], ...] = (
    (
        "Learning",
        "learning.json",
        "python benchmarks/learning.py --json benchmarks/results/learning.json",
        learning,
    ),
    ("Speed", "speed.json", "python benchmarks/speed.py", speed),
    ("Wall-clock", "wallclock.json", "python benchmarks/wallclock.py", wallclock),
    ("Limit", "limit.json", "python benchmarks/limit.py --json benchmarks/results/limit.json", limit),
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
