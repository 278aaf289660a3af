"""Pages and commands survive what no verb writes: rows from before the rules, or that a superuser wrote."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from django_pgqueue import complete, dead_letter, dequeue, enqueue, metrics
from django_pgqueue.lifecycle.figures import explain_channel, explain_message
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Queue, Schedule, Worker
from tests.admin.conftest import MODELS, Page, address
from tests.support.cases import cases
from tests.support.sql import sql

CANARY = """"'><canary></span></pre><img canary src=x onerror=alert(1)><script canary>alert(1)</script>"""
FAR = [
    "infinity",
    "-infinity",
    "200000-01-01 00:00+00",
    "4000-01-01 00:00+00 BC",
    "9999-12-31 23:59:59.999999+00",
    "0001-01-01 00:00+00",
]
TIMES = {
    "pgqueue_message": ("created_at", "dequeue_at", "leased_at", "cancelled_at"),
    "pgqueue_archived_message": ("created_at", "dequeue_at", "leased_at"),
    "pgqueue_dead_letter": ("created_at", "dequeue_at", "leased_at", "dead_at", "redriven_at"),
    "pgqueue_channel": ("created_at", "changed_at", "paused_at", "paused_until", "released_at"),
    "pgqueue_queue": ("paused_at", "paused_until"),
    "pgqueue_schedule": ("created_at", "next_fire_at", "last_fired_at"),
    "pgqueue_schedule_tick": ("tick_at", "fired_at"),
}
SPANS = {
    "pgqueue_message": ("backoff", "backoff_longest"),
    "pgqueue_dead_letter": ("backoff", "backoff_longest"),
    "pgqueue_channel": ("release_interval",),
    "pgqueue_schedule": ("grace",),
}


@pytest.fixture
def rows() -> dict[str, Any]:
    """One of each, and tables without their rules: their primary keys, by the admin's name of the model."""
    Queue.objects.create(name="default")
    for _ in range(3):
        enqueue("h", {"n": 1})
    done, dead, again = dequeue(limit=3, worker="w")
    complete(done)
    dead_letter(dead, reason="refused")
    waiting = enqueue("h").id
    schedule = Schedule.objects.create(name="nightly", handler="h", cron="@daily", next_fire_at=timezone.now())
    sql(
        "INSERT INTO pgqueue_schedule_tick (schedule, tick_at, outcome, error) SELECT 'nightly', now(), 'refused', %s",
        CANARY,
    )
    sql("""
        DO $$ DECLARE r record; BEGIN
            FOR r IN SELECT conrelid::regclass AS t, conname FROM pg_constraint
                WHERE contype = 'c' AND conrelid IN (SELECT oid FROM pg_class WHERE relname LIKE 'pgqueue%')
            LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', r.t, r.conname); END LOOP;
        END $$""")
    return {
        "message": [again.id, waiting],
        "archivedmessage": [done.id],
        "deadletter": [dead.id],
        "channel": [Channel.objects.get().pk],
        "queue": ["default"],
        "schedule": [schedule.pk],
    }


def look(client: Client, rows: dict[str, Any]) -> None:
    for model, keys in rows.items():
        for page in (address(model), *(address(model, key) for key in keys)):
            response = client.get(page)
            assert response.status_code == 200, page
            assert Page(response.content.decode()).canaries() == []
    for key in rows["channel"]:
        response = client.get(reverse("admin:pgqueue_channel_tenant", args=[key]))
        assert response.status_code == 200
        assert Page(response.content.decode()).canaries() == []
    for query in ({"all": "1"}, {"o": "1"}, {"status__exact": "1"}):
        assert client.get(address("message"), query).status_code in (200, 302)
    assert client.get(reverse("admin:pgqueue_dashboard_changelist")).status_code == 200
    for key in (*rows["message"], *rows["archivedmessage"], *rows["deadletter"]):
        assert explain_message(key)
        call_command("pgqueue", "explain", "message", str(key), stdout=StringIO())
    assert explain_channel(channel="default") is not None
    call_command("pgqueue", "retry", "message", "--all", "--dry-run", stdout=StringIO())
    for things in ("queues", "channels", "messages", "dead", "schedules", "limits", "breakers", "workers"):
        call_command("pgqueue", things, "--json", stdout=StringIO())
    call_command("pgqueue", "stats", stdout=StringIO())
    assert metrics()


@pytest.mark.django_db
@cases("far", FAR)
@cases("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_a_time_that_python_does_not_have_takes_no_page_away(
    admin_client: Client, rows: dict[str, Any], far: str, zone: str
) -> None:
    for table, columns in TIMES.items():
        sql(f"UPDATE {table} SET {', '.join(f'{column} = %s' for column in columns)}", *[far] * len(columns))
    with override_settings(TIME_ZONE=zone):
        look(admin_client, rows)
    for staffs_zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        with timezone.override(staffs_zone):
            assert list(Message.objects.values_list("dequeue_at"))
            assert list(DeadLetter.objects.all())
            assert admin_client.get(address("message")).status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("span", ["170000000 years", "-170000000 years", "1000000000 days"])
def test_a_duration_that_python_does_not_have_takes_no_page_away(
    admin_client: Client, rows: dict[str, Any], span: str
) -> None:
    for table, columns in SPANS.items():
        sql(f"UPDATE {table} SET {', '.join(f'{column} = %s' for column in columns)}", *[span] * len(columns))
    look(admin_client, rows)


DEEP = "[" * 10_000 + "]" * 10_000
ODD = ["null", "[]", "[1, [2]]", '"text"', "17", "true", "1" * 5_000, DEEP, '{"traceparent": [1], "a": {"b": null}}']


@pytest.mark.django_db
@cases("odd", ODD)
def test_json_of_any_kind_in_any_column_takes_no_page_away(
    admin_client: Client, rows: dict[str, Any], odd: str
) -> None:
    for table, columns in {
        "pgqueue_message": ("payload", "headers", "state", "errors"),
        "pgqueue_archived_message": ("payload", "headers", "state", "errors", "result"),
        "pgqueue_dead_letter": ("payload", "headers", "state", "errors", "details"),
        "pgqueue_schedule": ("payload", "headers"),
        "pgqueue_channel": ("context",),
    }.items():
        sql(
            f"UPDATE {table} SET {', '.join(f'{column} = %s::text::jsonb' for column in columns)}",
            *[odd] * len(columns),
        )
    look(admin_client, rows)


@pytest.mark.django_db
def test_numbers_and_names_of_any_kind_take_no_page_away(admin_client: Client, rows: dict[str, Any]) -> None:
    sql(
        "UPDATE pgqueue_message SET handler = %s, backoff_factor = 'NaN', max_attempts = -5, attempts = -1, "
        "priority = -32768, status = CASE WHEN status = 2 THEN 2 ELSE 77 END, worker = %s, dedupe_key = id || %s, "
        "cancel_reason = %s",
        CANARY, CANARY, CANARY, CANARY,
    )  # fmt: skip
    sql("UPDATE pgqueue_dead_letter SET handler = '', reason = %s, backoff_factor = 'NaN', worker = %s", CANARY, CANARY)
    sql("UPDATE pgqueue_archived_message SET handler = %s, outcome = 'nonsense', channel = %s", CANARY, CANARY)
    sql("UPDATE pgqueue_channel SET full_policy = 'x', pause_reason = %s, paused_at = now(), weight = -1", CANARY)
    sql(
        "UPDATE pgqueue_schedule SET handler = %s, cron = %s, time_zone = %s, last_error = %s",
        CANARY,
        "* *",
        CANARY[:99],
        CANARY,
    )
    Worker.objects.create(name=CANARY, hostname=CANARY, pid=-1, queues={"a": 1}, concurrency=-1, version=CANARY[:50])
    look(admin_client, rows)
    assert admin_client.get(address("worker")).status_code == 200


@pytest.mark.django_db
@cases(
    "model",
    [
        model
        for model in MODELS
        if model in ("message", "archivedmessage", "deadletter", "channel", "queue", "schedule")
    ],
)
@cases("far", ["infinity", "4000-01-01 00:00+00 BC"])
def test_a_user_who_may_not_look_is_refused_and_sees_no_error(
    staff: Callable[..., Client], rows: dict[str, Any], model: str, far: str
) -> None:
    for table, columns in TIMES.items():
        sql(f"UPDATE {table} SET {', '.join(f'{column} = %s' for column in columns)}", *[far] * len(columns))
    client = staff()
    for page in (address(model), *(address(model, key) for key in rows[model])):
        urls = (
            [page]
            if page == address(model)
            else [page, page.replace("/change/", "/history/"), page.replace("/change/", "/delete/")]
        )
        for url in urls:
            assert client.get(url).status_code == 403, url
    assert client.get(reverse("admin:pgqueue_dashboard_changelist")).status_code == 403


@pytest.mark.django_db
def test_a_far_time_is_read_as_the_last_that_each_time_zone_has() -> None:
    enqueue("h")
    sql("UPDATE pgqueue_message SET dequeue_at = '200000-01-01', backoff = '170000000 years'")
    message = Message.objects.get()
    assert (message.dequeue_at.year, message.backoff) == (9999, timedelta(days=999_999))
    assert ArchivedMessage.objects.count() == 0
    assert Message.objects.distinct().order_by("created_at").values_list("created_at").count() == 1
