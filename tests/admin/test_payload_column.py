"""The column of payloads in the lists of messages: short, cheap, and silent about what is encrypted."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from django_pgqueue import complete, dead_letter, dequeue, enqueue
from django_pgqueue.models import ArchivedMessage
from tests.admin.conftest import address
from tests.admin.test_find import TABLES
from tests.support.codecs import SECRET, Toy
from tests.support.sql import sql


def place(model: str, *payloads: Any) -> None:
    for payload in payloads:
        enqueue("mail.send", payload)
    if model != "message":
        taken = dequeue(limit=len(payloads))
        complete(taken) if model == "archivedmessage" else dead_letter(taken, reason="refused")


def listed(client: Client, model: str) -> str:
    response = client.get(address(model))
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("model", TABLES)
def test_a_list_shows_the_payload_with_the_whole_in_the_title(admin_client: Client, model: str) -> None:
    place(model, {"customer": 42, "text": "<b>"}, [1] * 200)
    text = listed(admin_client, model)
    shown = "{&quot;text&quot;: &quot;&lt;b&gt;&quot;, &quot;customer&quot;: 42}"
    assert f'title="{shown}"' in text
    assert f"<span>{shown}</span>" in text
    assert f'title="[{"1, " * 199}1]"' in text


@pytest.mark.parametrize("model", TABLES)
def test_a_large_payload_is_not_read_for_the_list(admin_client: Client, model: str) -> None:
    place(model, {"text": secrets.token_hex(200_000)})
    assert blocks(TABLES[model], lambda: listed(admin_client, model)) == 0
    assert "\N{NO-BREAK SPACE}KB</span>" in listed(admin_client, model)


def blocks(table: str, look: Any) -> int:
    """Blocks that are read of the table's large values, in whichever partition."""
    seen = f"""
    SELECT coalesce(sum(toast_blks_read + toast_blks_hit), 0)::integer FROM pg_statio_user_tables
    WHERE relname LIKE '{table}%'
    """
    counts = []
    for step in (lambda: None, look):
        step()
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(seen)
            counts.append(cursor.fetchone()[0])
    return counts[1] - counts[0]


@pytest.mark.parametrize("model", TABLES)
def test_what_is_encrypted_is_not_decoded_for_a_list(admin_client: Client, model: str, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": Toy()}
    place(model, {"said": SECRET}, {"said": SECRET * 100})
    text = listed(admin_client, model)
    assert text.count('<span class="quiet">encrypted</span>') == 2
    assert "data" not in text.partition('id="result_list"')[2].partition("</table>")[0]


def test_a_payload_that_was_not_archived_is_a_dash(admin_client: Client) -> None:
    place("archivedmessage", {"n": 1})
    sql("UPDATE pgqueue_archived_message SET payload = NULL")
    assert ArchivedMessage.objects.exists()
    assert '<td class="field-payload_listed">-</td>' in listed(admin_client, "archivedmessage")
