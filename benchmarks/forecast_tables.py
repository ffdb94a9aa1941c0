"""Tables of forecasts, of the gradient noise scale and of sizes at equal data, for tables.py."""

from __future__ import annotations

import statistics
from typing import Any

from markdown_table import figure, table

MIB = 1024**2
NEAR = {"memory": 0.10, "time": 0.20}


def forecasts(report: dict[str, Any]) -> str:
    """Memory and time: the forecast beside what it took."""
    return "\n\n".join(
        shown(report[part]) for part, shown in (("memory", _memory), ("time", _time)) if report.get(part)
    )


def _memory(rows: list[dict[str, Any]]) -> str:
    cells = [
        [row["run"], f"{row['memory_bytes'] / MIB:,.0f}", f"{row['peak_bytes'] / MIB:,.0f}", f"{row['error']:+.1%}"]
        for row in rows
    ]
    near = _near("memory", [row["error"] for row in rows])
    return (
        "Memory: `memory_bytes` of the plan beside the largest resident set that the kernel counted, on two cores with "
        "an empty cache of compiled programs. The twenty runs were made twice. The first time 17 were within 10%, and "
        "three were not (LunarLander with 1,024 environments -18%, REINFORCE +17%, DQN on LunarLander -15%); those "
        "and SAC on Hopper were mended: Box2D's worlds, REINFORCE, EnvPool under replay. This is the second time, on "
        f"another machine of the same kind: {near}\n\n" + table(["run", "forecast, MiB", "peak, MiB", "off by"], cells)
    )


def _time(rows: list[dict[str, Any]]) -> str:
    cells = []
    for row in rows:
        eta = f"{row['eta']} / {row['left']:.0f} at {row['eta_at']:.0%}" if "eta" in row else "-"
        off = f"{row['eta_error']:+.0%}" if "eta" in row else "-"
        parts = [row["run"], f"{row['forecast']:.1f}", f"{row['actual']:.1f}", f"{row['error']:+.0%}"]
        again = f"{row['remembered'] / row['actual'] - 1:+.0%}"
        cells.append([*parts, again, eta, off, f"{row['load']:.0f}"])
    columns = ["run", "forecast, s", "took, s", "off by", "remembered", "ETA / left, s", "off by", "load before"]
    etas = [row["eta_error"] for row in rows if "eta" in row]
    return (
        "Time: `plan ENV --forecast`, then the run, in seconds of CPU time on one core; the load before is that "
        "of two cores. The ETA of the shortest run is off because its episodes get longer, and with them fewer. "
        "`remembered` is the forecast for the same run afterwards, from its own record. "
        f"Before the run: {_near('time', [row['error'] for row in rows])} ETA: {_near('time', etas)}\n\n"
        + table(columns, cells)
    )


def _near(part: str, errors: list[float]) -> str:
    near = sum(abs(error) <= NEAR[part] for error in errors)
    return f"{near} of {len(errors)} within {NEAR[part]:.0%}, the largest error {max(map(abs, errors)):.0%}."


def noise(report: dict[str, Any]) -> str:
    """The noise scale between environments beside that of independent rollouts, policy and value."""
    cells = []
    for row in report["rows"]:
        for role in ("policy", "value"):
            found = row[role]
            truth, logged = (
                _spread(found, name, (f"{name}_low", f"{name}_high")) for name in ("independent", "logged")
            )
            ratio = "-" if found["ratio"] is None else f"{found['ratio']:.2f}"
            cells.append([f"{row['task']}, {role}", truth, logged, ratio, _count(found["minibatches"])])
    ratios = [row[role]["ratio"] for row in report["rows"] for role in ("policy", "value") if row[role]["ratio"]]
    near = sum(0.5 <= ratio <= 2.0 for ratio in ratios)
    return (
        "Noise over signal of the gradient, in transitions, of the layers that only the policy or only the values use, "
        "at parameters that are kept as they are. Logged is what a run writes down, from groups of environments; "
        "`minibatches` is what single minibatches of the first epoch say of the same rollouts. In brackets: two "
        f"standard errors. {near} of {len(ratios)} ratios lie between 0.5 and 2.\n\n"
        + table(["task", "independent rollouts", "logged", "ratio", "minibatches"], cells)
    )


def _spread(found: dict[str, Any], name: str, ends: tuple[str, str]) -> str:
    if found[name] is None:
        return "unknown"
    return f"{found[name]:,} ({found[ends[0]]:,} to {found[ends[1]]:,})"


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def batch_sweep(report: dict[str, Any]) -> str:
    """Returns by sizes of rollout and minibatch, and what the noise scale and the doctor said of these runs."""
    cells = []
    for name, runs in report["runs"].items():
        env, rollout, minibatch = name.split()
        last, whole = ([run[part] for run in runs] for part in ("last", "whole"))
        scales = [run["noise"]["policy"][0] for run in runs if run["noise"]["policy"]]
        said = sorted({finding for run in runs for finding in run["findings"]})
        shown = f"{figure(statistics.median(last))} ({figure(min(last))} to {figure(max(last))})"
        sizes = [env, f"{int(rollout):,}", f"{int(minibatch):,}", str(len(runs)), f"{runs[0]['updates']:,}"]
        scale = f"{statistics.median(scales):,.0f}" if scales else "unknown"
        cells.append([*sizes, shown, figure(statistics.median(whole)), scale, ", ".join(said)])
    columns = ["environment", "rollout", "minibatch", "seeds", "updates", "last fifth", "whole run", "noise scale"]
    return (
        "PPO with no preset at equal environment steps, epochs and learning rate: mean return of the training episodes "
        "in the last fifth and in the whole run, median and range over seeds, with the noise scale of the policy's "
        "gradient (median) and what the doctor says of the sizes.\n\n" + table([*columns, "doctor"], cells)
    )
