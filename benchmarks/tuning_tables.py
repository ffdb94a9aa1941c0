"""The tables of docs/benchmarks.md about tuning; see tables.py."""

from __future__ import annotations

from statistics import mean, median
from typing import Any

from markdown_table import figure, measured_on, table


def setting_text(setting: dict[str, Any] | None) -> str:
    if setting is None:
        return "no winner"
    return (
        ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in setting.items()
        )
        or "default"
    )


def against(report: dict[str, Any]) -> str:
    """Each contender's choice over fresh seeds, and how likely `tune` beats it."""
    cells = []
    for row in report.get("rows", []):
        low, high = row["iqm_interval"] or (row["iqm"], row["iqm"])
        better = row.get("tune_better")
        span = row.get("tune_better_interval") or (better, better)
        cells.append(
            [
                row["env"],
                row["contender"],
                figure(row["iqm"]),
                f"{figure(low)} to {figure(high)}",
                "-" if row["final_iqm"] is None else figure(row["final_iqm"]),
                "-" if better is None else f"{better:.2f} ({span[0]:.2f} to {span[1]:.2f})",
                f"{row['env_steps']:,}" if row["contender"] != "default" else "-",
                f"{row['minutes']:g}" if row["contender"] != "default" else "-",
            ]
        )
    words = (
        "PPO, 8 environments, our trainer for all. No tuner spends more environment steps than 62 trainings, on "
        "everything that it trains; what it chose is then trained with 10 seeds that it never saw. Score: the mean "
        "training return over the steps of a training. P is the probability that a run of what `tune` chose beats one "
        "of this row; only an interval beside 0.5 means something. Minutes are of a busy machine."
    )
    columns = [
        "environment",
        "contender",
        "IQM of the score",
        "95% interval",
        "last return",
        "P(tune better)",
        "steps",
        "minutes",
    ]
    words = f"{words} {report['note']}" if "note" in report else words
    return f"{words} {measured_on(report)}\n\n{table(columns, cells)}" if cells else f"{words}\n\nNot measured yet."


def beside_zoo(report: dict[str, Any]) -> str:
    """Each side's choice over fresh seeds, trained by that side."""
    names = {"score": "mean training return over the training", "final": "last evaluation, 10 episodes"}
    cells = []
    for row in report.get("rows", []):
        low, high = row["tune_better_interval"] or (row["tune_better"],) * 2
        cells.append(
            [
                row["env"],
                names[row["figure"]],
                *(f"{figure(row[side])} ({figure(row[f'{side}_interval'][0])} to {figure(row[f'{side}_interval'][1])})"
                  for side in ("tune", "zoo")),
                f"{row['tune_better']:.2f} ({low:.2f} to {high:.2f})",
                f"{row['tune_steps']:,} / {row['zoo_steps']:,}",
                f"{row['tune_minutes']:g} / {row['zoo_minutes']:g}",
            ]
        )  # fmt: skip
    words = (
        "`tune` and its trainer beside RL Baselines3 Zoo and Stable-Baselines3: TPE over the Zoo's space from the "
        "numbers that it ships for the environment, the last evaluation as its objective, as many steps; evaluations "
        "are not counted. IQM over 10 fresh seeds of what each chose. Minutes are of a busy machine."
    )
    words = f"{words} {report['note']}" if "note" in report else words
    columns = ["environment", "figure", "tune", "Zoo", "P(tune better)", "steps of the search", "minutes"]
    return f"{words} {measured_on(report)}\n\n{table(columns, cells)}" if cells else f"{words}\n\nNot measured yet."


def surfaces(report: dict[str, Any]) -> str:
    """The true scores of what each search chose on random surfaces."""
    ways = {
        "surface": "`tune` (`--search surface`)",
        "local": "`tune --search local`: no screening",
        "tpe": "TPE over the Zoo's space",
        "random": "random search over the Zoo's space",
        "default": "the default",
    }
    found = report["true_scores"]
    cells = [
        [
            label,
            f"{mean(found[way]):.2f}",
            f"{median(found[way]):.2f}",
            f"{min(found[way]):.2f} to {max(found[way]):.2f}",
            "-" if way == "surface" else f"{sum(a > b for a, b in zip(found['surface'], found[way], strict=True))}",
        ]
        for way, label in ways.items()
        if way in found
    ]
    words = (
        f"No training: {report['surfaces']} random functions of the settings of PPO, made by hand, with noise of "
        f"{report['noise']} and more. Each search gets the units of 62 trainings, `tune` 60 with judging; its numbers "
        "were chosen on other surfaces. Score: the true value of what was chosen."
    )
    columns = [
        "search",
        "mean",
        "median",
        "lowest to highest",
        f"surfaces of {report['surfaces']} where `tune` is above",
    ]
    return f"{words}\n\n{table(columns, cells)}"


def measure(report: dict[str, Any]) -> str:
    parts = [measured_on(report)]
    for row in report.get("twice", {}).values():
        words = {True: "equal", False: "not equal"}
        parts.append(
            f"`{row['command']}` twice, times aside: the {row['ledger_lines']} lines of the ledgers are "
            f"{words[row['same_ledger']]}, `tuned.yaml` is {words[row['same_preset']]} byte for byte, the reports are "
            f"{words[row['same_report']]}."
        )
    planted = report.get("planted", {})
    nothing = [row for name, row in planted.items() if name.startswith("nothing")]
    if planted:
        cells = [[name, setting_text(row["winner"])] for name, row in planted.items() if not name.startswith("nothing")]
        cells += (
            [["nothing matters", f"no winner in {sum(r['winner'] is None for r in nothing)} of {len(nothing)}"]]
            if nothing
            else []
        )
        parts.append("Environments in which it is known what helps:\n\n" + table(["planted", "found"], cells))
    if report.get("forecast"):
        cells = [
            [
                name.rsplit(" ", 1)[0],
                f"{row['forecast']['units']} / {row['units']}",
                f"{row['forecast']['seconds']:.0f}",
                f"{row['unit_seconds']:.0f}",
                f"{row['unit_seconds'] / row['forecast']['seconds'] - 1:+.0%}",
            ]
            for name, row in report["forecast"].items()
        ]
        parts.append(
            "Forecasts beside what it took:\n\n"
            + table(["environment", "units at most / made", "forecast, s", "took, s", "off by"], cells)
        )
    if report.get("budget"):
        cells = [
            [name, f"{row['seconds']:.0f}", f"{row['longest_unit_seconds']:.1f}", str(row["skipped"])]
            for name, row in report["budget"].items()
        ]
        parts.append("Time budgets:\n\n" + table(["tuning", "took, s", "longest unit, s", "units left out"], cells))
    if report.get("shared"):
        parts.append(_shared(report["shared"]))
    return "\n\n".join(parts)


def _shared(found: dict[str, dict[str, Any]]) -> str:
    """Seconds of a setting, by how it was trained."""
    cells = []
    ways = ("one process", "two workers", "cold processes", "long, one process", "long, two workers")
    for name in ways:
        rows = [row for key, row in found.items() if key.startswith(name)]
        if rows:
            per_setting = [
                [f"{row[kind] / row['settings']:.2f}" for row in rows] for kind in ("seconds", "cpu_seconds")
            ]
            loads = ", ".join(f"{row['load']:.1f}" for row in rows)
            settings = ", ".join(str(row["settings"]) for row in rows)
            cells.append([name, settings, *(", ".join(values) for values in per_setting), loads])
    words = (
        "Settings of CartPole, 8,192 steps each, 131,072 where they are long, from the start of a process, nothing "
        "compiled before. The second worker loads what the first one compiled:"
    )
    columns = ["", "settings", "seconds each", "processor seconds each", "load of the machine"]
    return f"{words}\n\n" + table(columns, cells)


def kills(report: dict[str, Any]) -> str:
    tunings = report["tunings"]
    cells = [
        [
            str(number),
            str(len(row["kills"])),
            ", ".join(str(kill["units"]) for kill in row["kills"]) or "-",
            "yes" if row["equal"] and row["same_preset"] else "no",
            str(row["units_twice"]),
            str(row["trained_again"]),
        ]
        for number, row in enumerate(tunings, 1)
    ]
    words = (
        f"{report['kills']} SIGKILLs at random moments over {len(tunings)} tunings of {report['units_of_a_tuning']} "
        f"units. {measured_on(report)}"
    )
    columns = [
        "tuning",
        "kills",
        "units finished at each",
        "equal to one without kills",
        "units twice",
        "finished units trained again",
    ]
    return f"{words}\n\n{table(columns, cells)}"
