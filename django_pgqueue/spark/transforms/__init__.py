"""Compute the lake's metrics from its messages."""
