"""Faults under load, recorded as a history that anyone can check: `python -m verification.chaos --help`."""
