"""Run one call of a handler, from its function to an outcome."""
