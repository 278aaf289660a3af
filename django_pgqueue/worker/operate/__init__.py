"""For those who operate the worker: its row, probes, signals, systemd and log."""
