"""From the lake's messages to its metrics and its forecast, with Spark SQL."""
