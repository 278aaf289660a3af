"""A year of departures from New York, each of them a message: the demo of django_pgqueue on real data."""
