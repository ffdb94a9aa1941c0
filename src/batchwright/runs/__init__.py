"""Training runs: the loop, start, resume and finish, checkpoints, evaluation. Knows a learner by one protocol."""
