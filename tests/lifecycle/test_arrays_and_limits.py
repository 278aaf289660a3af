"""Arrays that do not pair up, and limits that are no limits, are refused."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, transaction

from django_pgqueue import complete, dequeue, enqueue
from django_pgqueue.models import Message
from tests.support.cases import cases
from tests.support.refusals import refusal
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


# Arrays that do not pair up, and limits that are no limits.

ONE_MORE = {
    "p_payloads": "ARRAY['1', '2', '3']::jsonb[]", "p_channels": "ARRAY['full']", "p_queues": "ARRAY['default']",
    "p_bodies": "ARRAY['x']::bytea[]", "p_headers": "ARRAY['{}']::jsonb[]", "p_priorities": "ARRAY[1]",
    "p_dequeue_ats": "ARRAY[now()]", "p_delays": "ARRAY[interval '1 hour']", "p_max_attempts": "ARRAY[1, 2, 3]",
    "p_backoffs": "ARRAY[interval '1 s']", "p_backoff_factors": "ARRAY[2.0]::float8[]",
    "p_backoff_longests": "ARRAY[interval '1 s']", "p_dedupe_keys": "ARRAY['k']",
}  # fmt: skip


@cases("name", ONE_MORE)
def test_arrays_of_unequal_length_are_refused_by_name(name: str) -> None:
    payloads = "" if name == "p_payloads" else "p_payloads => NULL, "
    call = f"pgqueue_enqueue_many(p_handlers => ARRAY['h', 'h'], {payloads}{name} => {ONE_MORE[name]})"
    assert f"{name} has {3 if '3' in ONE_MORE[name] else 1} element(s), p_handlers has 2" in refusal(call)["message"]
    assert not Message.objects.exists()


@cases(
    ("verb", "more"),
    [
        ("complete", "'{}'::jsonb[]"),
        ("defer", "'{}'::timestamptz[]"),
        ("defer", "NULL, '{}'::interval[]"),
        ("defer", "NULL, NULL, '{}'::jsonb[]"),
        ("retry", "'{}'::jsonb[]"),
        ("retry", "NULL, '{}'::interval[]"),
        ("dead_letter", "'{}'::text[]"),
        ("dead_letter", "NULL, '{}'::jsonb[]"),
    ],
)
def test_a_settlement_whose_arrays_do_not_pair_up_is_an_error_and_the_lease_stays(verb: str, more: str) -> None:
    enqueue("h")
    [delivery] = dequeue()
    for tokens, rest in (([delivery.token], f", {more}"), ([delivery.token, delivery.token], "")):
        if verb in ("retry", "dead_letter") and not rest:
            rest = ", NULL"
        with pytest.raises(DatabaseError, match=r"element\(s\), p_ids has 1") as raised, transaction.atomic():
            sql(f"SELECT pgqueue_{verb}(%s, %s{rest})", [delivery.id], tokens)
        assert raised.value.__cause__.sqlstate == "PGQ07"
    assert complete(delivery) == {delivery.id}
