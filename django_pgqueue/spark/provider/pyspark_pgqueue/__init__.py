"""Spark looks in packages named ``pyspark_*`` for a DefaultSource: this one makes ``format("pgqueue")`` work."""
