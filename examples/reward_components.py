"""A reward of two components, one a thousand times the other: the plain sum against balanced components."""

import sys

import batchwright
from batchwright.watch.metric_log import read_metrics


def main(total_steps: int) -> None:
    """Trains twice and prints how many of 16 targets each objective meets per episode."""
    for name, settings in {"plain sum": {"components": "none"}, "balanced components": {}}.items():
        result = batchwright.train("TwoObjectives-v0", total_steps=total_steps, engine="jax", quiet=True, **settings)
        last = list(read_metrics(result.run_dir / "metrics.jsonl"))[-1]
        large = last.get("component/large/return")
        returns = "" if large is None else f": large {large / 1000:.1f}, small {last['component/small/return']:.1f}"
        print(f"{name}: success rate {result.evaluation['success_rate']:.2f}{returns}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000)
