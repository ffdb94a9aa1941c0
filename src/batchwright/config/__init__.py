"""Settings of a run: the schema, how they are read, and where each value came from."""
