"""A run with real worker processes: what is started, what is done to it, and what is reported of it."""
