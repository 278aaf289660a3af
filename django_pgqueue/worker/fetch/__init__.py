"""From a NOTIFY to a dequeue: how messages come to this process."""
