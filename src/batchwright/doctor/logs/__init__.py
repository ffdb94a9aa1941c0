"""Reads the logs of other trainers as records under our metric names."""
