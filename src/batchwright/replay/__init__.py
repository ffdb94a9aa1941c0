"""Replay learning: SAC, DQN and return decomposition. Read `replay_learner.py` first, then `replay_update.py`."""
