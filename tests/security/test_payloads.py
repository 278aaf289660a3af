"""Payloads of all sizes and shapes: what comes back is what was sent, or it was refused and nothing is there."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.test import Client, override_settings
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_pgqueue import channel_set, complete, dequeue, enqueue, peek
from django_pgqueue.codecs import is_sealed_body
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.cases import cases
from tests.support.sessions import Session

MB = 1024 * 1024
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
ANY_TEXT = st.text(st.characters())  # with NUL and halves of surrogate pairs
NUMBERS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)


def documents(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        NUMBERS | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=20,
    )


FUZZ = settings(
    max_examples=100, derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
# A body that begins with the mark of a codec is refused: tests/lifecycle/test_codecs.py.
BODIES = st.binary(max_size=10_000).filter(lambda body: not is_sealed_body(body))


@pytest.fixture(autouse=True)
def _channel(db: None) -> None:
    channel_set(channel="default")


def there_and_back(payload: Any, body: bytes | None = None) -> Any:
    enqueue("h", payload, body=body)
    [delivery] = dequeue()
    complete(delivery)
    kept = ArchivedMessage.objects.get(pk=delivery.id)
    assert kept.payload == delivery.payload
    assert (None if kept.body is None else bytes(kept.body)) == delivery.body
    return delivery


@FUZZ
@given(payload=documents(TEXTS), body=st.none() | BODIES)
def test_json_values_come_back_as_they_were(payload: Any, body: bytes | None) -> None:
    with transaction.atomic():
        delivery = there_and_back(payload, body)
        transaction.set_rollback(True)
    assert delivery.body == body
    if "e+" not in json.dumps(payload).lower():  # numeric keeps the value, Python then sees an integer
        assert delivery.payload == payload


@FUZZ
@given(payload=documents(ANY_TEXT), headers=st.dictionaries(ANY_TEXT, ANY_TEXT, max_size=2))
def test_any_text_is_either_kept_or_refused(payload: Any, headers: dict[str, str]) -> None:
    """NUL and lone surrogates are no text for PostgreSQL. One error for all of them, and nothing half done."""
    given = json.dumps([payload, headers], ensure_ascii=False)
    if "\\u0000" in given or any(0xD800 <= ord(character) < 0xE000 for character in given):
        with pytest.raises(InvalidMessage, match=r"^the (payload|headers) contains?[^\n]+$"), transaction.atomic():
            enqueue("h", payload, headers=headers)
        assert not Message.objects.exists()
        return
    with transaction.atomic():
        enqueue("h", payload, headers=headers)
        [delivery] = dequeue()
        assert delivery.headers == headers
        complete(delivery)
        transaction.set_rollback(True)


@override_settings(DJANGO_PGQUEUE={"MAX_PAYLOAD": 64 * MB})
@cases("size", [0, 1, 7_999, 8_000, 8_001, MB, 16 * MB])
def test_sizes_from_nothing_to_sixteen_megabytes(size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    text = "ß" * min(size // 2, 2 * MB)
    delivery = there_and_back({"text": text}, body)
    assert delivery.body == body
    assert delivery.payload == {"text": text}


def test_pickled_bytes_stay_bytes() -> None:
    """Nothing unpickles: this one would end the test."""
    pickled = b"cos\n_exit\n(I66\ntR."
    assert there_and_back(None, pickled).body == pickled


def test_sql_refuses_what_python_would(empty: Session) -> None:
    for payload, sqlstate in (
        (r'"\u0000"', "22P05"),
        (r'"\ud800"', "22P02"),
        ("{", "22P02"),
        ("[" * 100_000, "54001"),
        ("NaN", "22P02"),
    ):
        with pytest.raises(psycopg.Error) as refused:
            empty.execute("SELECT pgqueue_enqueue('h', %s::text::jsonb)", [payload])
        assert refused.value.sqlstate == sqlstate
    assert empty.execute("SELECT count(*) FROM pgqueue_message").fetchone() == (0,)


# No Python reads it, and PostgreSQL does: 3.13 reads up to 9,900 levels, a server with the usual stack takes 10,000.
TOO_DEEP = "[" * 10_000 + "]" * 10_000
UNREADABLE = {
    "deep": {"payload": TOO_DEEP},
    "digits": {"payload": "1" * 5_000},
    "deep headers": {"headers": TOO_DEEP},
    "headers that are none": {"headers": "[1]"},
    "long ago": {"created_at": "4000-01-01 BC"},
}


def sneak_in(**columns: str) -> int:
    """By SQL, which takes what Python could not have sent; some of it only as a change of a row that is there."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgqueue_message (channel_id, handler) SELECT id, 'sneaked' FROM pgqueue_channel "
            "WHERE name = 'default' RETURNING id"
        )
        [(message,)] = cursor.fetchall()
        for name, value in columns.items():
            cursor.execute(f"UPDATE pgqueue_message SET {name} = %s WHERE id = %s", (value, message))
        return message


@cases("columns", UNREADABLE.values())
def test_a_message_that_python_cannot_read_is_a_dead_letter_and_the_others_are_delivered(
    columns: dict[str, str],
) -> None:
    first, bad, last = enqueue("h").id, sneak_in(**columns), enqueue("h").id
    assert [found.id for found in peek(limit=3)] == [first, last]
    assert sorted(delivery.id for delivery in dequeue(limit=3)) == [first, last]
    [letter] = DeadLetter.objects.defer("payload", "headers", "dequeue_at")
    assert (letter.id, letter.reason, letter.details["type"]) == (bad, "unreadable", "Unreadable")


@pytest.mark.parametrize("columns", [{"payload": TOO_DEEP}, {"headers": "1" * 5_000}], ids=["deep", "digits"])
def test_the_admin_shows_what_python_cannot_read(admin_client: Client, columns: dict[str, str]) -> None:
    bad = sneak_in(**columns)
    page = admin_client.get(reverse("admin:pgqueue_message_change", args=[bad]))
    assert page.status_code == 200
    assert next(iter(columns.values()))[:2_900] in page.content.decode()
    assert dequeue() == []
    assert admin_client.get(reverse("admin:pgqueue_deadletter_change", args=[bad])).status_code == 200
