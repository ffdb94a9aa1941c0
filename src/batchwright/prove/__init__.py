"""Checks that runs repeat to the bit, and comparisons of runs."""
