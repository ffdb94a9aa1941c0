"""On-policy learning: PPO, A2C and REINFORCE. Read `on_policy_learner.py` first."""
