"""The planner: every batch-like number of a run with its unit, reason and source. Pure Python, without JAX."""
