"""Collect the metrics for prometheus_client (the extra ``prometheus``)."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from django_pgqueue.contrib.prometheus.families import families

KINDS = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


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
            names = list(family.samples[0].labels) if family.samples else []
            metric = KINDS[family.kind](family.name.removesuffix("_total"), family.help, labels=names)
            for sample in family.samples:
                metric.add_metric([sample.labels[name] for name in names], sample.value)
            yield metric
