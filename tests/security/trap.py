"""A process that imports this because a message says so has lost."""

raise AssertionError("a message had a module imported")
