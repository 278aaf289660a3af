"""What the queue is said to work with, and whether it does; `python -m tests.compatibility` runs the matrix."""
