"""Reward models learned from recorded episodes."""
