"""Two sessions, call by call: what the second does while the first has not committed."""
