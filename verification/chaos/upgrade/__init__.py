"""The effect of an upgrade on a queue at work: all functions are replaced, and the table of messages gets a column."""
