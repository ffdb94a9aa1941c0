"""Logs of other trainers as records of ours."""
