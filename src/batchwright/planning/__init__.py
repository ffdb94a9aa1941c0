"""Facts: every batch-like number of a run with its unit, reason and source. Pure Python: no JAX in this room."""
