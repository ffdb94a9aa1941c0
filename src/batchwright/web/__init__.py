"""Seeing runs: the live page, and the report of one file. Reads run directories; writes reports."""
