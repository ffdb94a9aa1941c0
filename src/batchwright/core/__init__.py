"""Errors, the machine, random streams, the run directory."""
