"""Tables of configuration refuse what no verb sets; the error names the rule."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.sql.call import call
from tests.support.cases import cases

pytestmark = pytest.mark.django_db
NEW = {
    "pgqueue_channel": "INSERT INTO pgqueue_channel (queue, name) VALUES ('default', 'c')",
    "pgqueue_queue": "INSERT INTO pgqueue_queue (name) VALUES ('q')",
    "pgqueue_schedule": "INSERT INTO pgqueue_schedule (name, handler, cron) VALUES ('s', 'h', '@daily')",
}
REFUSED = [
    ("pgqueue_channel", "full_policy = 'nonsense'", "pgqueue_channel_full_policy"),
    ("pgqueue_channel", "archive = 'nonsense'", "pgqueue_channel_archive"),
    ("pgqueue_queue", "archive = 'nonsense'", "pgqueue_queue_archive"),
    ("pgqueue_channel", "release_interval = '170000000 years'", "pgqueue_channel_release_longest"),
    ("pgqueue_channel", "context = '[1]'", "pgqueue_channel_context"),
    *(
        ("pgqueue_channel", f"{column} = '{far}'", "pgqueue_channel_times")
        for column in ("created_at", "changed_at", "paused_at", "paused_until", "released_at")
        for far in ("infinity", "4000-01-01 BC", "9999-01-01 00:00+00")
    ),
    ("pgqueue_queue", "paused_until = 'infinity'", "pgqueue_queue_times"),
    ("pgqueue_queue", "paused_at = '200000-01-01'", "pgqueue_queue_times"),
    ("pgqueue_schedule", "priority = -32768", "pgqueue_schedule_priority"),
    ("pgqueue_schedule", "headers = '[1]'", "pgqueue_schedule_headers"),
    ("pgqueue_schedule", "grace = '170000000 years'", "pgqueue_schedule_longest_grace"),
    ("pgqueue_schedule", "next_fire_at = 'infinity'", "pgqueue_schedule_times"),
]


@cases(("table", "change", "rule"), REFUSED)
def test_a_value_that_no_verb_sets_is_refused(table: str, change: str, rule: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(NEW[table])
        with pytest.raises(IntegrityError, match=rule), transaction.atomic():
            cursor.execute(f"UPDATE {table} SET {change}")
    with pytest.raises(InvalidMessage, match=f"the rule {rule} of the table {table}") as found, transaction.atomic():
        call("default", f"UPDATE {table} SET {change} RETURNING 1")
    assert found.value.__cause__ is None, "it would show the row"
