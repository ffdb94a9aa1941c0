"""Plans for people who train with another trainer."""
