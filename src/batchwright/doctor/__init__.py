"""Diagnoses a run from its metrics: one pure function per finding, and the triage that ranks them."""
