"""What this process has: leases that are extended, and messages that have begun."""
