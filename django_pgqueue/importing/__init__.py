"""Move the waiting jobs of another queue, whose tables are in the same database, into messages."""
