"""Serve the operator of a worker: its row, probes, signals, systemd and log."""
