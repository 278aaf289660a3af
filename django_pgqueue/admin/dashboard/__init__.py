"""Show the state of every queue on one page, which reads figures and no messages."""
