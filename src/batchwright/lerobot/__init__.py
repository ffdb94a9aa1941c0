"""The dataset regime: LeRobot's own training with planned numbers, in LeRobot's own interpreter."""
