"""Compose the page from the data that was read."""

from __future__ import annotations

from datetime import datetime

from django_pgqueue.spark.report.compare import Comparison
from django_pgqueue.spark.report.html import page
from django_pgqueue.spark.report.read import Data
from django_pgqueue.spark.report.sections.changes import changes
from django_pgqueue.spark.report.sections.lake import Holdings, lake
from django_pgqueue.spark.report.sections.queue import queue
from django_pgqueue.spark.report.sections.retries import retries
from django_pgqueue.spark.report.sections.sla import sla
from django_pgqueue.spark.report.sections.summary import summary
from django_pgqueue.spark.report.sections.tenants import tenants

# The number of queues that have plots; the tables have all queues.
MOST_QUEUES = 6


def compose(data: Data, compared: Comparison, holdings: Holdings, made_at: datetime) -> str:
    """Return the HTML page. The first MOST_QUEUES queues get a section each."""
    plotted = data.queues[:MOST_QUEUES]
    sections = [summary(data)]
    if data.queues:
        sections.append(changes(compared))
        sections += [queue(data, name, number) for number, name in enumerate(plotted, 1)]
        sections += [tenants(data), retries(data), sla(data)]
    sections.append(lake(holdings))
    return page("Queue report", _period(data), sections, _made(made_at))


def compose_channel(data: Data, compared: Comparison, holdings: Holdings, made_at: datetime) -> str:
    """Return the HTML page of one channel. It names no other channel, so the tenant may read it."""
    [name] = data.queues
    sections = [
        summary(data, of_channel=True),
        changes(compared, of_channel=True),
        queue(data, name, 1, of_channel=True),
        retries(data),
        sla(data),
    ]
    exported = f" Exported {holdings.exported_at:%d %b %Y %H:%M}." if holdings.exported_at else ""
    return page(f"Report of {name}", _period(data) + exported, sections, _made(made_at))


def _made(at: datetime) -> str:
    return f"Made {at:%d %b %Y %H:%M} UTC by pgqueue-django."


def _period(data: Data) -> str:
    if not data.queues:
        return "The lake has no metrics of this period."
    first, last = f"{data.days[0]:%d %b %Y}", f"{data.days[-1]:%d %b %Y}"
    line = f"{first if first == last else f'{first} – {last}'}. Plots by {data.grain}; days and times are UTC."
    if len(data.queues) > MOST_QUEUES:
        line += f" The {MOST_QUEUES} busiest of {len(data.queues):,} queues have plots."
    return line
