"""Run maintenance beside a worker: ticks, sweeps, schedules, pruning and measurements.

Each step has ``run_once(using)``, which does the step once on that database alias and returns its counts. The loop logs
the counts, and reads ``more`` (run again at once), ``part`` (of the interval, until the next run), ``promoted`` and
``fired`` (messages became ready) if they exist.
"""
