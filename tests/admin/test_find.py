"""Find a message: by age, channel and handler, and by a value in its payload."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_pgqueue import NewMessage, channel_set, complete, dead_letter, dequeue, enqueue, enqueue_many, retry
from django_pgqueue.admin import base, payload_search
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message
from tests.admin.conftest import address, make_dead
from tests.support.cases import cases
from tests.support.markdown import DOCS, blocks
from tests.support.sessions import Connect
from tests.support.sql import sql

TABLES = {"message": "pgqueue_message", "archivedmessage": "pgqueue_archived_message",
          "deadletter": "pgqueue_dead_letter"}  # fmt: skip


def rows(client: Client, model: str, **query: object) -> list[int]:
    return [row.pk for row in client.get(address(model), query).context["cl"].result_list]


@pytest.fixture
def indexed() -> None:
    for table in TABLES.values():
        sql(f"CREATE INDEX {table}_payload ON {table} USING gin (payload jsonb_path_ops)")


def place(model: str, *payloads: Any) -> list[int]:
    """Messages with these payloads, live, archived or dead."""
    ids = [enqueue("mail.send", payload).id for payload in payloads]
    if model != "message":
        taken = dequeue(limit=len(ids))
        complete(taken) if model == "archivedmessage" else dead_letter(taken, reason="refused")
    return ids


@pytest.mark.parametrize("model", TABLES)
def test_a_value_in_the_payload_finds_its_messages(admin_client: Client, indexed: None, model: str) -> None:
    number, text, deep, other = place(
        model, {"customer": 42, "n": 1}, {"customer": "42"}, {"order": {"country": "DE"}}, {"customer": 4}
    )
    assert rows(admin_client, model, q="payload.customer=42") == [text, number]
    assert rows(admin_client, model, q='payload.customer="42"') == [text]
    assert rows(admin_client, model, q=" payload.order.country = DE ") == [deep]
    assert rows(admin_client, model, q="payload.customer=5") == []
    assert rows(admin_client, model, q='payload.order={"country": "DE"}') == [deep]
    assert rows(admin_client, model, q=f"{other}") == [other]


@pytest.mark.parametrize("model", TABLES)
def test_a_part_is_found_where_nothing_has_the_whole_text(admin_client: Client, model: str) -> None:
    channel_set(channel="acme-berlin")
    enqueue("crm.push", dedupe_key="invoice-4711", channel="acme-berlin")
    error = {"type": "ConnectionError", "message": "refused by api.crm.example"}
    retry(dequeue(), errors=[error], delays=[timedelta(0)])
    if model != "message":
        taken = dequeue()
        complete(taken) if model == "archivedmessage" else dead_letter(taken, reason="refused")
    [other] = place(model, {})
    [found] = set(rows(admin_client, model)) - {other}
    for term in ("crm.pu", "voice-47", "me-ber", "connectionerr", "api.crm"):
        assert rows(admin_client, model, q=term) == [found], term
    assert found in rows(admin_client, model, q=str(found)[:-1] or str(found))
    assert rows(admin_client, model, q="nothing of these") == []


def test_parts_are_searched_in_the_newest_rows_alone(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST_SEARCHED", 1)
    first, second = place("message", {}, {})
    assert rows(admin_client, "message", q="mail.s") == [second]
    assert rows(admin_client, "message", q="mail.send") == [second, first]


@pytest.mark.parametrize("model", TABLES)
def test_without_the_index_payloads_are_not_searched_and_it_is_said_how(admin_client: Client, model: str) -> None:
    place(model, {"customer": 42})
    response = admin_client.get(address(model), {"q": "payload.customer=42"})
    assert response.context["cl"].result_count == 0
    said = next(message.message for message in response.context["messages"])
    sql(said.partition("creates it with: ")[2].replace(" CONCURRENTLY", ""))
    assert rows(admin_client, model, q="payload.customer=42")


def test_an_index_that_is_half_done_is_none(admin_client: Client, indexed: None) -> None:
    place("message", {"customer": 42})
    sql("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'pgqueue_message_payload'::regclass")
    assert rows(admin_client, "message", q="payload.customer=42") == []


@cases(
    "term",
    ["payload.a=\0", "payload.a=\ud800", 'payload.a="\\u0000"', "payload.a=NaN", "payload.a=" + "[" * 100_000,
     "payload.a=" + "9" * 10_000, "payload..=", "payload.=", "payload.a=' OR 1=1 --", "payload.a=%s"],
)  # fmt: skip
def test_nonsense_finds_nothing_and_breaks_nothing(admin_client: Client, indexed: None, term: str) -> None:
    place("message", {"a": 1})
    sent = term.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    response = admin_client.get(address("message"), {"q": sent}, follow=True)
    assert response.status_code == 200
    if "\0" not in term:  # which Django's own form refuses
        assert rows(admin_client, "message", q=sent) == []


def test_of_very_many_matches_some_are_shown_and_that_is_said(
    admin_client: Client, indexed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_search, "MOST_FOUND_ROWS", 20)
    enqueue_many(NewMessage(handler="h", payload={"n": 1}) for _ in range(30))
    response = admin_client.get(address("message"), {"q": "payload.n=1"})
    assert response.context["cl"].result_count == 20
    assert "More than 20 payloads match" in response.content.decode()


def test_the_search_reads_the_index(indexed: None) -> None:
    enqueue_many(NewMessage(handler="h", payload={"customer": n}) for n in range(5_000))
    sql("ANALYZE pgqueue_message")
    [wanted, text] = payload_search.payload_terms("payload.customer=42") or []
    plan = sql(
        f"EXPLAIN SELECT t.id FROM pgqueue_message AS t WHERE t.payload @> '{wanted}'::jsonb"
        f" OR t.payload @> '{text}'::jsonb LIMIT 1001"
    )
    assert "pgqueue_message_payload" in str(plan)


def test_messages_are_found_by_their_age(admin_client: Client) -> None:
    old, new = enqueue("h").id, enqueue("h").id
    Message.objects.filter(pk=old).update(created_at=timezone.now() - timedelta(hours=2))
    assert rows(admin_client, "message", age="hour") == [new]
    assert rows(admin_client, "message", age="over-hour") == [old]
    assert rows(admin_client, "message", age="day") == [new, old]
    assert rows(admin_client, "message", age="over-week") == []


def test_dead_letters_are_found_by_channel_handler_and_age(admin_client: Client) -> None:
    channel_set(channel="acme")
    [one] = make_dead(channel="acme", handler="mail.bounce")
    [two] = make_dead()
    DeadLetter.objects.filter(pk=two.pk).update(dead_at=timezone.now() - timedelta(days=2))
    assert rows(admin_client, "deadletter", channel="acme") == [one.pk]
    assert rows(admin_client, "deadletter", handler="mail.send") == [two.pk]
    assert rows(admin_client, "deadletter", age="over-day") == [two.pk]


def test_the_archive_is_found_by_channel_and_handler(admin_client: Client) -> None:
    channel_set(channel="acme")
    enqueue("mail.bounce", channel="acme")
    enqueue("mail.send")
    complete(dequeue(limit=2))
    [one] = ArchivedMessage.objects.filter(channel="acme").values_list("pk", flat=True)
    assert rows(admin_client, "archivedmessage", channel="acme") == [one]
    assert rows(admin_client, "archivedmessage", handler="mail.bounce") == [one]


def test_the_page_of_a_channel_leads_to_what_was_settled(admin_client: Client) -> None:
    channel = Channel.objects.get(pk=channel_set(channel="acme & co", queue="mails"))
    text = admin_client.get(address("channel", channel.pk)).content.decode()
    for model in ("archivedmessage", "deadletter"):
        assert f'href="{address(model)}?queue=mails&amp;channel=acme+%26+co"' in text


@pytest.mark.django_db(transaction=True)
def test_the_statements_of_the_page_make_payloads_searchable(connect: Connect) -> None:
    page = DOCS / "how-to" / "production.md"
    session = connect(autocommit=True)
    try:
        for block in blocks(page):
            if block.language == "psql":
                for statement in re.split(r";\n|\\gexec\n", block.text):
                    # psql runs what the rows of a SELECT say.
                    rows = session.execute(statement.encode()) if statement.strip() else None
                    for (generated,) in rows if rows is not None and rows.description else ():
                        connect(autocommit=True).execute(generated)
        assert all(payload_search.is_indexed(table[8:], using="default") for table in TABLES.values())
    finally:
        for table in TABLES.values():
            session.execute(f"DROP INDEX IF EXISTS {table}_payload")
