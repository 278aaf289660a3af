"""Keep the leases of this process alive, and show the messages that it has begun."""
