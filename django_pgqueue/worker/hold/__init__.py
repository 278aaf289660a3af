"""Keep the leases of this process, and show the messages that have begun."""
