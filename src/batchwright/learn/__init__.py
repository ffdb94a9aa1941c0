"""Objectives and returns as pure functions of arrays."""
