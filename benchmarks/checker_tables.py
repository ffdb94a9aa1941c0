"""The table of docs/benchmarks.md about `batchwright check` and `fit`; see tables.py."""

from __future__ import annotations

from typing import Any

from markdown_table import measured_on, table

TITLES = {
    "rl_games": "rl_games",
    "rsl_rl": "RSL-RL",
    "sb3": "Stable-Baselines3",
    "skrl": "skrl",
    "cleanrl": "CleanRL's formula",
    "brax": "brax",
}
OUTCOMES = ("accepts", "refuses", "drops rows", "NaN")


def checkers(report: dict[str, Any]) -> str:
    """Verdicts beside what the libraries did, then fitted configs and the doctor."""
    rows = [
        [
            title,
            str(report[name]["version"] or "-"),
            str(report[name]["triples"]),
            *(str(report[name]["outcomes"].get(outcome, 0)) for outcome in OUTCOMES),
            str(len(report[name]["disagreements"])),
        ]
        for name, title in TITLES.items()
        if name in report
    ]
    seeds = sorted({str(report[name]["seed"]) for name in TITLES if name in report})
    words = (
        "Random numbers of environments, steps and minibatches, and what each library did with them; the rules were "
        f"found on other numbers (seed 19, these are of seed {', '.join(seeds)}). A verdict disagrees where outcome, "
        "dropped rows or message differ."
    )
    columns = ["trainer", "version", "triples", *OUTCOMES, "verdicts that disagree"]
    parts = [f"{words} {measured_on(report)}", table(columns, rows)]
    if "fit" in report:
        found = report["fit"]
        parts.append(
            f"Fitted configs: {found['cases']} (11 numbers of environments from 1 to 2048 x plain, central value, "
            f"LSTM, horizon 5, two agents). rl_games {found['version']} refuses {found['unfitted_refused']} of them "
            f"as they are, and trains {found['fitted_trained_2_epochs']} for 2 epochs once they are fitted."
        )
    if "doctor" in report:
        said = [f"- {name}: {lines[0].removeprefix('doctor: ')}" for name, lines in report["doctor"]["lines"].items()]
        parts.append("What the doctor says inside a training with a learning rate of 1:\n\n" + "\n".join(said))
    return "\n\n".join(parts)
