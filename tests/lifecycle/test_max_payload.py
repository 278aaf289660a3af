"""A message that is too large is refused before it is sent, and no error quotes a payload."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import override_settings

from django_pgqueue import (
    NewMessage,
    complete,
    dead_letter,
    defer,
    dequeue,
    edit,
    enqueue,
    enqueue_many,
    redrive,
    retry,
)
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.models import Message
from django_pgqueue.sql.call import call
from tests.support.cases import cases
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

SECRET = "canary-4b7e"
SMALL = override_settings(DJANGO_PGQUEUE={"MAX_PAYLOAD": 1_000})


def shown(error: BaseException) -> str:
    """As a log shows it, with all that led to it."""
    return "".join(traceback.format_exception(error))


def text_of(size: int) -> str:
    """A value that takes so many bytes as JSON."""
    text = SECRET + "x" * (size - len(SECRET) - 2)
    assert len(json.dumps(text)) == size
    return text


@SMALL
@cases(
    "message",
    [
        {"payload": text_of(1_001)},
        {"body": SECRET.encode() * 100},
        {"headers": {"h": text_of(1_001)}},
        {"payload": text_of(500), "body": b"x" * 301, "headers": {"h": "y" * 192}},
        {"payload": "é" * 200},
    ],
)
def test_a_message_that_is_too_large_is_refused(message: dict[str, Any], django_assert_num_queries: Any) -> None:
    for attempt in (lambda: enqueue("h", **message), lambda: enqueue_many([NewMessage(handler="h", **message)])):
        with django_assert_num_queries(0), pytest.raises(InvalidMessage, match="MAX_PAYLOAD") as found:
            attempt()
        assert SECRET not in shown(found.value)
    assert not Message.objects.exists()


@SMALL
def test_values_that_just_fit_are_taken() -> None:
    assert enqueue("h", text_of(1_000)).created
    assert enqueue("h", text_of(500), body=b"x" * 300, headers={"h": "y" * 191}).created


@SMALL
@cases("verb", ["complete", "defer", "dead_letter", "retry", "edit", "redrive"])
def test_results_states_details_and_errors_have_the_same_limit(verb: str) -> None:
    enqueue("h")
    large = text_of(1_001)
    [delivery] = dequeue()
    attempts = {
        "complete": lambda: complete(delivery, results=[large]),
        "defer": lambda: defer(delivery, state=large),
        "dead_letter": lambda: dead_letter(delivery, reason="r", details=large),
        "retry": lambda: retry(delivery, errors=[{"e": large}]),
        "edit": lambda: edit(delivery.id, large),
        "redrive": lambda: redrive([delivery.id], payload=large),
    }
    with refused(InvalidMessage, "MAX_PAYLOAD") as found:
        attempts[verb]()
    assert SECRET not in shown(found.value)
    assert complete(delivery) == {delivery.id}


def large(megabytes: int) -> str:
    return f"to_jsonb(repeat('{SECRET[:8]}', {megabytes * 1024 * 128}))"


ASK = "SELECT pgqueue_raise(refusal) FROM"


@cases(
    "statement",
    [
        f"{ASK} pgqueue_enqueue('h', {large(65)})",
        f"{ASK} pgqueue_enqueue('h', p_body => decode(repeat('ab', {65 * 1024 * 1024}), 'hex'))",
        f"{ASK} pgqueue_enqueue_many(ARRAY['h'], ARRAY[{large(65)}])",
        f"INSERT INTO pgqueue_message (channel_id, handler, payload) SELECT id, 'h', {large(65)} FROM pgqueue_channel",
        f"{ASK} pgqueue_enqueue('h', {large(33)}, p_headers => jsonb_build_object('h', {large(33)}))",
    ],
)
def test_the_table_has_a_limit_of_its_own(statement: str) -> None:
    with refused(DatabaseError, "more than 64 MB") as found:
        sql(statement)
    assert SECRET[:8] * 20 not in shown(found.value)
    assert not Message.objects.exists()


@pytest.mark.parametrize("payload", [f'{{"a": "{SECRET}", }}', f'["{SECRET}", "\\u0000"]', "[" * 7_000 + f'"{SECRET}"'])
def test_the_words_of_postgresql_about_a_value_are_not_shown(payload: str) -> None:
    with refused(InvalidMessage) as found:
        call("default", "SELECT pgqueue_enqueue('h', %s::text::jsonb)", (payload,))
    assert SECRET not in shown(found.value)
