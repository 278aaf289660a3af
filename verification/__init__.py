"""Harnesses that verify the queue as a whole: faults, models, pairs of calls, versions, benchmarks."""
