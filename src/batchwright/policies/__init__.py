"""Trained policies: load, call, evaluate, record a video."""
