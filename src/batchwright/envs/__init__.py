"""Environments: one spec tree for spaces, one vector interface over every engine, our own tasks."""
