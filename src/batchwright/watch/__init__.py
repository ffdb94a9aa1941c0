"""Observing a run: the metric log, the progress display, writers for other tools, statistics of returns."""
