"""What the queue is said to work with, and whether it does; `python -m verification.compatibility` runs the matrix."""
