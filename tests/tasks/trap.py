"""No process may import this."""

raise AssertionError("a path in a message was imported")
