"""The page, of what was read."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from .holdings import Holdings
from .html import page
from .read import Data
from .sections.forecast import forecast
from .sections.lake import lake
from .sections.queue import queue
from .sections.retries import retries
from .sections.sla import sla
from .sections.summary import summary
from .sections.tenants import tenants

# So many queues have plots; all of them are in the tables.
MOST_QUEUES = 6


def compose(data: Data, expected: pa.Table, holdings: Holdings, made_at: datetime) -> str:
    plotted = data.queues[:MOST_QUEUES]
    sections = [summary(data)]
    if data.queues:
        sections += [queue(data, name, number) for number, name in enumerate(plotted, 1)]
        sections += [tenants(data), retries(data), sla(data), forecast(expected, plotted)]
    sections.append(lake(holdings))
    return page("Queue report", _period(data), sections, f"Made {made_at:%d %b %Y %H:%M} UTC by pgqueue-django.")


def _period(data: Data) -> str:
    if not data.queues:
        return "Nothing in this period."
    first, last = f"{data.days[0]:%d %b %Y}", f"{data.days[-1]:%d %b %Y}"
    told = f"{first if first == last else f'{first} – {last}'}. Plots by {data.grain}; days and times are UTC."
    if len(data.queues) > MOST_QUEUES:
        told += f" The {MOST_QUEUES} busiest of {len(data.queues):,} queues have plots."
    return told
