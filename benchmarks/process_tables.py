"""Tables of several processes for tables.py."""

from __future__ import annotations

import statistics
from typing import Any

from markdown_table import figure, measured_on, table

COUNTS = (2, 4, 8, 16, 32, 64)


def processes(report: dict[str, Any]) -> str:
    """Learning curves, kills, and the cost of the exchange; parts that were not measured say so."""
    parts = [measured_on(report)]
    parts.append(_curves(report["curves"]) if "curves" in report else "Learning curves: not measured.")
    parts.append(_kills(report["kills"]) if "kills" in report else "Kills: not measured.")
    parts += _reduce(report["reduce"]) if "reduce" in report else ["Exchange: not measured."]
    return "\n\n".join(parts)


def _curves(entry: dict[str, Any]) -> str:
    rows = []
    for count in sorted({run["processes"] for run in entry["runs"]}):
        runs = [run for run in entry["runs"] if run["processes"] == count]
        cells = [str(count), str(len(runs))]
        for name in ("mean_training_return", "last_evaluation"):
            values = [run[name] for run in runs]
            cells.append(f"{figure(statistics.median(values))} ({figure(min(values))} to {figure(max(values))})")
        rows.append(cells)
    columns = ["processes", "seeds", "mean return of training episodes", "last evaluation"]
    words = (
        f"`{entry['command']}` at equal totals: median, lowest and highest seed. All processes shared one core of a "
        "busy machine, which changes no figure of this table and says nothing of speed."
    )
    return f"{words}\n\n{table(columns, rows)}"


def _kills(entry: dict[str, Any]) -> str:
    killed = entry["kills"]
    longest = max(kill["seconds_to_end"] for kill in killed)
    by_first = sum(kill["process"] == 0 for kill in killed)
    moments = ", ".join(str(kill["after_records"]) for kill in killed)
    same = "equal" if entry["equal"] and entry["equal_episodes"] else "not equal"
    return (
        f"One run of 2 processes and {entry['iterations']} iterations was killed with SIGKILL {len(killed)} times, "
        f"process 0 {by_first} times and process 1 {len(killed) - by_first} times, after records {moments}; resumed "
        f"each time. The command ended with its message within {longest:.1f} s. Its record and its episodes at the end "
        f"are {same} to those of a run without kills."
    )


def _reduce(entry: dict[str, Any]) -> list[str]:
    sums = entry["sums"]
    measured = [
        [f"{row['numbers']:,}", f"{row['median_ms']:.2f}", " to ".join(f"{ms:.2f}" for ms in row["quartiles_ms"])]
        for row in sums
    ]
    cores = "one core, which they shared" if entry["cores"] == 1 else f"{entry['cores']} cores of a busy machine"
    words = (
        f"One sum over 2 processes on {cores}, loopback, median and quartiles of {entry['rounds']}, with what it takes "
        "to start the program and to wait for it:"
    )
    shares = [
        [
            row["run"],
            f"{row['iteration_ms']:.1f}",
            f"{row['reduce_ms']:.1f}",
            f"{row['reduce_ms'] / row['iteration_ms']:.0%}",
        ]
        for row in entry["shares"]
    ]
    share_columns = ["CartPole, 2 processes", "iteration, ms", "`reduce_seconds`, ms", "share"]
    return [
        f"{words}\n\n{table(['numbers', 'ms', 'quartiles, ms'], measured)}",
        f"Shares of the exchange in an iteration, medians of a run:\n\n{table(share_columns, shares)}",
        _calculated(sums),
    ]


def _calculated(sums: list[dict[str, Any]]) -> str:
    """What a ring would take: 2 (P - 1) messages, each of the P-th part of the numbers."""
    by_size = {row["numbers"]: row["median_ms"] for row in sums if row["numbers"] > 1}
    smallest, largest = min(by_size), max(by_size)
    latency = by_size[smallest] / 2  # a ring of two sends two messages one after the other
    per_number = max(0.0, (by_size[largest] - by_size[smallest]) / largest)
    rows = []
    for count in COUNTS:
        messages = 2 * (count - 1)
        cells = [f"{messages * latency + messages / count * size * per_number:.1f}" for size in by_size]
        rows.append([str(count), *cells])
    words = (
        "A single number took longer than 1,000 in this measurement; the cause was not looked for, and what follows "
        "starts from 1,000. A calculation, not a measurement: one sum over P processes by a ring of 2 (P - 1) messages "
        f"of {latency:.2f} ms, and {1e6 * per_number:.2f} ms per million numbers, both from the table above. "
        "Machines of a fast network have a shorter latency, processes with cores of their own too. In ms:"
    )
    return f"{words}\n\n{table(['processes', *(f'{size:,} numbers' for size in by_size)], rows)}"
