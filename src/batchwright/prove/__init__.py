"""Proof that runs repeat, and runs side by side."""
