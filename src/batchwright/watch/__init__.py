"""What a run tells: the metric log, the progress a user sees, writers for other tools, statistics of returns."""
