"""Wishes: what a user may ask for, how it is read, and where each value came from."""
