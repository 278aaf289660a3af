"""Metrics for Prometheus: the state of the queue, asked by SQL at each scrape.

So it does not matter which of many processes is scraped, and nothing is counted twice. ``text`` and ``views`` need
nothing; ``collector`` is for projects that use prometheus_client.
"""
