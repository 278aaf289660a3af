"""What an upgrade does to a queue at work: all functions are replaced, and the table of messages gets a column."""
