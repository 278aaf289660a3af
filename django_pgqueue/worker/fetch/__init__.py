"""Fetch messages for this process: from a NOTIFY to a dequeue."""
