"""Faults under load, recorded as a history that anyone can check: `python -m tests.chaos --help`."""
