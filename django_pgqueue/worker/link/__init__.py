"""Between a process and its parent: how it is started, and what they say to each other."""
