"""Compute the lake's metrics and its forecast from its messages, with Spark SQL."""
