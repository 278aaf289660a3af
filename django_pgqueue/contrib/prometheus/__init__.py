"""Expose metrics for Prometheus: SQL reads the state of the queue at each scrape.

So any of many processes can be scraped, and nothing is counted twice. ``text`` and ``views`` need no package;
``collector`` is for projects that use prometheus_client.
"""
