"""Collect the metrics for prometheus_client (the extra ``prometheus``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from django_pgqueue.contrib.prometheus.families import families


class QueueCollector(Collector):
    """Collect the queue's metrics: ``REGISTRY.register(QueueCollector())``.

    ``using``: alias of the queue's database; None: the one that enqueue uses.
    """

    def __init__(self, using: str | None = None) -> None:
        self._using = using

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering does not query the database."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Measure and yield the metrics, with each scrape."""
        for family in families(using=self._using):
            metric = Metric(family.name.removesuffix("_total"), family.help, family.kind)
            for sample in family.samples:
                metric.add_sample(family.name + sample.suffix, sample.labels, sample.value)
            yield metric
