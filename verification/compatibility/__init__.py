"""The versions that the queue promises to work with; `python -m verification.compatibility` runs the matrix."""
