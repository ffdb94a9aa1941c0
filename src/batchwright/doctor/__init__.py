"""What is wrong with a run, from its metrics: one pure function per symptom, and the triage that ranks them."""
