"""The ground floor: errors, the machine, random streams, the run directory."""
