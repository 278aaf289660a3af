"""The queue beside a model of it: plain dictionaries that were written from docs/reference, not from the SQL."""
