"""The dashboard of a large queue: as many queries and as much time as that of a small one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pgqueue import measure
from tests.admin.browser.chromium import Tab
from tests.admin.browser.cost import ORDERS, spent
from tests.admin.browser.test_dashboard import PAGE
from tests.support.paths import REPOSITORY
from tests.support.sql import sql

pytestmark = pytest.mark.django_db(transaction=True)

# Milliseconds of CPU of a page, in the server and in Python: unlike the time until the answer they are the same
# whatever else runs on this machine.
LONGEST = 300
QUEUES = """
INSERT INTO pgqueue_channel (queue, name) SELECT 'queue' || n, 'first' FROM generate_series(0, 9) AS n
ON CONFLICT DO NOTHING
"""
CHANNELS = """
INSERT INTO pgqueue_channel (queue, name, max_concurrency)
SELECT 'queue' || mod(n, 10), 'shop' || n, CASE WHEN mod(n, 3) = 0 THEN 5 END FROM generate_series(1, %s) AS n
"""
# Over the day until now, most of them of few channels.
ARCHIVE = """
INSERT INTO pgqueue_archived_message (
    id, queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, leased_at,
    archived_at, outcome)
SELECT -%s - g.n, 'queue' || mod(g.channel, 10), 'shop' || g.channel, 'h', '{}', 0, 1, 5, g.at, g.at, g.at,
    g.at, 'completed'
FROM (
    SELECT n, 1 + floor(power(random(), 2) * %s)::integer AS channel,
        d.day + (clock_timestamp() - d.day) * (n / %s::float) AS at
    FROM generate_series(1, %s) AS n, (SELECT date_trunc('day', clock_timestamp(), 'UTC') AS day) AS d
) AS g
"""
READY = """
INSERT INTO pgqueue_message (channel_id, handler)
SELECT c.id, 'h' FROM pgqueue_channel AS c, generate_series(1, 5) AS n WHERE c.name LIKE 'shop%'
"""
MEASURE = """
SELECT pgqueue_measure_settled(clock_timestamp() - interval '25 hours', %s::pg_snapshot, pg_current_snapshot())
"""


def fill_large(rows: int, channels: int, *, batch: int = 1_000_000) -> None:
    """``batch``: what is measured at once."""
    sql(QUEUES)
    sql(CHANNELS, channels)
    sql(READY)
    for first in range(0, rows, batch):
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_snapshot()::text")
            [before] = cursor.fetchone()
        count = min(batch, rows - first)
        sql(ARCHIVE, first, channels, count, count)
        sql(MEASURE, before)
    measure(timedelta(0))


def queries(client: Client) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(PAGE).status_code == 200
    return len(captured)


def test_its_queries_and_blocks_do_not_grow_with_the_archive(admin_client: Client) -> None:
    """50,000 archived messages; what it reads is the same as with a fifth of them."""
    fill_large(10_000, 200)
    few = queries(admin_client)
    before = blocks(admin_client)
    sql(ARCHIVE, 1_000_000, 200, 40_000, 40_000)
    measure(timedelta(0))
    assert queries(admin_client) == few
    assert blocks(admin_client) < before * 1.5 + 100


def blocks(client: Client) -> int:
    """Blocks that a page reads, of whatever table."""
    seen = "SELECT sum(heap_blks_read + heap_blks_hit) FROM pg_statio_user_tables WHERE relname LIKE 'pgqueue%'"
    with connection.cursor() as cursor:
        counts = []
        for look in (lambda: None, lambda: client.get(PAGE)):
            look()
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(seen)
            counts.append(int(cursor.fetchone()[0]))
    return counts[1] - counts[0]


@pytest.fixture
def worker(environment: dict[str, str]) -> Iterator[None]:
    command = [sys.executable, "testproject/manage.py", "runqueueworker", "--processes", "2", "--concurrency", "2"]
    path = f"{REPOSITORY}:{REPOSITORY / 'testproject'}"
    process = subprocess.Popen(
        command, env={**environment, "PYTHONPATH": path}, cwd=REPOSITORY, stderr=subprocess.DEVNULL
    )
    yield
    process.terminate()
    process.wait(60)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_archived_messages_and_a_thousand_channels(
    tab: Tab, site: str, log_in: Callable[..., None], admin_client: Client, worker: None
) -> None:
    few = queries(admin_client)
    fill_large(1_000_000, 1_000)
    assert queries(admin_client) == few
    log_in()
    times = []
    for order in ORDERS:
        tab.open(f"{site}{PAGE}?order={order}")
        times.append(tab.run("performance.getEntriesByType('navigation')[0].serverTiming[0].duration"))
    assert tab.run("document.querySelectorAll('#pgqueue-channels tbody tr').length") == 20
    assert tab.run("document.querySelectorAll('#pgqueue-workers tbody tr').length") == 2
    assert tab.run("document.querySelectorAll('.pgq-chart svg').length") == 4
    assert tab.complaints() == []
    print(f"\nmilliseconds until the answer: {sorted(times)}")
    for order in ORDERS:
        cost = sum(spent(lambda order=order: admin_client.get(PAGE, {"order": order})))
        assert cost < LONGEST, (order, cost)
