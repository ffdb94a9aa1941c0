"""The loops, and what they are built from."""
