"""Start a process, and exchange frames between it and its parent."""
