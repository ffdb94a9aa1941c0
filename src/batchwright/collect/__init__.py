"""Rollouts: by compiled engines inside one program, by host engines step by step."""
