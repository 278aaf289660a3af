"""The page of one channel: what it costs the database."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pgqueue import NewMessage, channel_set, dequeue, enqueue, enqueue_many, measure
from django_pgqueue.models import Channel
from django_pgqueue.sql.call import call
from tests.admin.conftest import make_dead
from tests.admin.tenant_page import AT_ONCE, page_of, part, text_of


def queries(client: Client, channel: Channel) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(page_of(channel)).status_code == 200
    return len(captured)


def test_the_page_asks_no_more_when_there_is_more(admin_client: Client, tenant: Channel) -> None:
    def more(count: int) -> None:
        for place in range(count):
            channel_set(channel=f"c{Channel.objects.count()}", max_concurrency=1)
            enqueue(f"h{place}", channel="acme", priority=place)
        make_dead(count, channel="acme")
        dequeue(limit=count // 3)
        enqueue_many(NewMessage(handler=f"h{place}", channel="acme") for place in range(count))
        measure(AT_ONCE)

    more(4)
    queries(admin_client, tenant)  # The first page of a process asks for content types, which are kept.
    few = queries(admin_client, tenant)
    more(60)
    assert queries(admin_client, tenant) == few <= 70


def test_a_part_that_takes_too_long_is_left_out_and_the_others_are_shown(
    admin_client: Client, tenant: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("mail.send", channel="acme")
    dequeue(limit=1)
    monkeypatch.setattr("django_pgqueue.admin.tenant.blocks.LONGEST", 0.2)
    monkeypatch.setattr("django_pgqueue.admin.tenant.reads.LETTERS", "SELECT pg_sleep(5)")
    response = admin_client.get(page_of(tenant))
    assert response.status_code == 200
    shown = text_of(response.text)
    assert (
        "The database was too slow for these parts, and they are left out: Dead letters. Load the page again." in shown
    )
    assert "mail. send" in part(response.text, "leases").replace("mail.send", "mail. send")


FILL = """
INSERT INTO pgqueue_message (channel_id, handler, priority)
SELECT %s, 'h', mod(n, 3) FROM generate_series(1, %s) AS n
"""
BLOCKS = "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) FROM pg_statio_user_tables"


def blocks(client: Client, channel: Channel) -> int:
    """Blocks of the queue's tables and indexes that a page reads."""
    counts = []
    for read in (lambda: None, lambda: client.get(page_of(channel))):
        read()
        call("default", "SELECT 1 FROM (SELECT pg_stat_force_next_flush()) AS f")
        [(count,)] = call("default", f"{BLOCKS} WHERE relname LIKE 'pgqueue%%'")
        counts.append(int(count))
    return counts[1] - counts[0]


@pytest.mark.django_db(transaction=True)
def test_the_blocks_that_the_tenant_page_reads_do_not_grow_with_the_backlog(admin_client: Client) -> None:
    """100,000 messages, ten times as many as before: the page reads as many blocks."""
    tenant = Channel.objects.get(pk=channel_set(channel="acme", max_concurrency=50))
    with connection.cursor() as cursor:
        cursor.execute(FILL, [tenant.pk, 10_000])
        cursor.execute("ANALYZE pgqueue_message")
    dequeue(limit=50)
    measure(AT_ONCE)
    blocks(admin_client, tenant)
    before = blocks(admin_client, tenant)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [tenant.pk, 90_000])
        cursor.execute("VACUUM ANALYZE pgqueue_message")
    measure(AT_ONCE)
    assert blocks(admin_client, tenant) < before * 1.5 + 100
