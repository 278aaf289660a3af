"""What a verb refuses is decided before anything is written: the caller's transaction commits the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_pgqueue import (
    cancel,
    channel_pause,
    channel_release,
    channel_resume,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    edit,
    enqueue,
    enqueue_many,
    explain_channel,
    purge,
    queue_drop,
    queue_pause,
    queue_purge,
    queue_resume,
    redrive,
    schedule_run,
)
from django_pgqueue.delivery import NewMessage
from django_pgqueue.exceptions import (
    ChannelFull,
    ChannelNotFound,
    ChannelReleased,
    InvalidMessage,
    MessageNotFound,
    PgQueueError,
    QueueNotEmpty,
    ScheduleNotFound,
)
from django_pgqueue.models import Channel, Message, Schedule
from tests.support.refusals import refusal
from tests.support.sql import sql

pytestmark = pytest.mark.django_db
PAST = datetime(2000, 1, 1, tzinfo=UTC)
LONG_NAME = "x" * 201


@pytest.fixture
def crowd() -> None:
    """A channel that is full, one that drops, one that is released, a dead letter of each, and a schedule."""
    for name, limits in (
        ("full", {"max_size": 1}),
        ("drops", {"max_size": 1, "full_policy": "drop"}),
        ("drops oldest", {"max_size": 1, "full_policy": "drop_oldest"}),
        ("released", {}),
    ):
        channel_set(channel=name, **limits)
        enqueue("h", channel=name)
        [delivery] = dequeue()
        dead_letter(delivery, reason="no")
    for name in ("full", "drops", "drops oldest", "released"):
        enqueue("h", channel=name)
    channel_release(channel="released")
    Schedule.objects.create(name="to full", handler="h", channel="full", every=timedelta(hours=1))


def letters(channel: str) -> list[int]:
    return [row[0] for row in sql("SELECT id FROM pgqueue_dead_letter WHERE channel = %s", channel)]


def many(*channels: str, **given: Any) -> list[NewMessage]:
    return [NewMessage(handler="h", channel=channel, **given) for channel in channels]


REFUSED: dict[str, tuple[type[PgQueueError], Callable[[], object]]] = {
    "enqueue, full": (ChannelFull, lambda: enqueue("h", channel="full")),
    "enqueue, full, with a key": (ChannelFull, lambda: enqueue("h", channel="full", dedupe_key="k")),
    "enqueue, released": (ChannelReleased, lambda: enqueue("h", channel="released")),
    "enqueue, no channel": (ChannelNotFound, lambda: enqueue("h", channel="missing")),
    "enqueue, no name": (InvalidMessage, lambda: enqueue("")),
    "enqueue, long key": (InvalidMessage, lambda: enqueue("h", dedupe_key=LONG_NAME)),
    "enqueue, back-off": (InvalidMessage, lambda: enqueue("h", backoff=timedelta(seconds=-1))),
    "enqueue_many, one does not fit": (ChannelFull, lambda: enqueue_many(many("default", "full"))),
    "enqueue_many, with keys": (
        ChannelFull, lambda: enqueue_many([*many("default", dedupe_key="a"), *many("full", dedupe_key="b")]),
    ),
    "enqueue_many, one that drops": (ChannelReleased, lambda: enqueue_many(many("default", "drops", "released"))),
    "enqueue_many, no channel": (ChannelNotFound, lambda: enqueue_many(many("default", "missing"))),
    "enqueue_many, invalid": (
        InvalidMessage, lambda: enqueue_many([*many("default"), *many("default", priority=40_000)]),
    ),
    "schedule_run, full": (ChannelFull, lambda: schedule_run("to full")),
    "schedule_run, no schedule": (ScheduleNotFound, lambda: schedule_run("missing")),
    "channel_set, weight": (InvalidMessage, lambda: channel_set(channel="default", weight=2000)),
    "channel_set, too many": (InvalidMessage, lambda: channel_set(channel="default", max_size=3_000_000_000)),
    "channel_set, name": (InvalidMessage, lambda: channel_set(channel=LONG_NAME)),
    "channel_pause": (ChannelNotFound, lambda: channel_pause(channel="missing")),
    "channel_pause, over": (InvalidMessage, lambda: channel_pause(channel="default", until=PAST)),
    "channel_resume": (ChannelNotFound, lambda: channel_resume(channel="missing")),
    "channel_release": (ChannelNotFound, lambda: channel_release(channel="missing")),
    "purge": (ChannelNotFound, lambda: purge(channel="missing")),
    "purge, negative": (InvalidMessage, lambda: purge(channel="default", limit=-1)),
    "queue_pause": (ChannelNotFound, lambda: queue_pause("missing")),
    "queue_pause, over": (InvalidMessage, lambda: queue_pause("default", until=PAST)),
    "queue_resume": (ChannelNotFound, lambda: queue_resume("missing")),
    "queue_purge": (ChannelNotFound, lambda: queue_purge(queue="missing")),
    "queue_purge, negative": (InvalidMessage, lambda: queue_purge(queue="default", limit=-1)),
    "queue_drop": (ChannelNotFound, lambda: queue_drop(queue="missing")),
    "queue_drop, not empty": (QueueNotEmpty, lambda: queue_drop(queue="default")),
    "explain_channel": (ChannelNotFound, lambda: explain_channel(channel="missing")),
    "cancel": (MessageNotFound, lambda: cancel(2**40)),
    "redrive, full": (ChannelFull, lambda: redrive(letters("full"))),
    "redrive, full that drops": (ChannelFull, lambda: redrive(letters("drops"))),
    "redrive, full that drops the oldest": (ChannelFull, lambda: redrive(letters("drops oldest"))),
    "redrive, released": (ChannelReleased, lambda: redrive(letters("full"), channel="released")),
    "redrive, one is released": (ChannelReleased, lambda: redrive([*letters("released"), *letters("default")])),
    "redrive, no channel": (ChannelNotFound, lambda: redrive(letters("full"), channel="missing")),
    "redrive, unequal": (InvalidMessage, lambda: redrive(letters("full"), payloads=[1, 2])),
}  # fmt: skip


def tables() -> list[Any]:
    """All that a refusal must leave as it is. A count behind max_size is what it says, less what has departed."""
    names = [
        name for (name,) in sql(
            "SELECT relname FROM pg_class WHERE relname LIKE 'pgqueue\\_%%' AND relkind IN ('r', 'p')"
            " AND NOT relispartition"
            " AND relname NOT IN ('pgqueue_channel_size', 'pgqueue_departure') ORDER BY 1"
        )
    ]  # fmt: skip
    rows = [sql(f"SELECT jsonb_agg(to_jsonb(t) ORDER BY t::text) FROM {name} AS t") for name in names]
    live = sql(
        "SELECT s.channel_id, s.live - coalesce(sum(d.messages), 0) FROM pgqueue_channel_size AS s"
        " LEFT JOIN pgqueue_departure AS d ON d.channel_id = s.channel_id GROUP BY s.channel_id, s.live ORDER BY 1"
    )
    return [*rows, live]


@pytest.mark.parametrize("what", REFUSED)
def test_after_a_refusal_the_transaction_goes_on_and_nothing_has_changed(crowd: None, what: str) -> None:
    error, ask = REFUSED[what]
    enqueue("before")
    before = tables()
    with pytest.raises(error) as raised:
        ask()
    assert tables() == before
    assert raised.value.outcome
    assert str(raised.value).strip()
    assert enqueue("after").created


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)  # fmt: skip
@given(calls=st.lists(st.sampled_from(sorted(REFUSED)), min_size=1, max_size=6))
def test_whatever_is_refused_and_caught_the_writes_around_it_commit(crowd: None, calls: list[str]) -> None:
    """In a savepoint that is released, without any other: what an application does."""
    with transaction.atomic():
        count = Message.objects.count()
        before = tables()
        for what in calls:
            error, ask = REFUSED[what]
            with pytest.raises(error):
                ask()
        assert tables() == before
        for place in range(len(calls)):
            enqueue(f"around {place}")
    assert Message.objects.count() == count + len(calls)
    assert not connection.needs_rollback


@pytest.mark.django_db(transaction=True)
def test_a_caught_refusal_keeps_the_row_that_was_written_before() -> None:
    channel_set(channel="full", max_size=1)
    enqueue("h", channel="full")
    with transaction.atomic():
        Channel.objects.create(name="written before")
        with suppress(ChannelFull):
            enqueue("h", channel="full")
        Channel.objects.create(name="written afterwards")
    assert set(Channel.objects.values_list("name", flat=True)) >= {"written before", "written afterwards"}


def order_view(request: HttpRequest) -> HttpResponse:
    Channel.objects.create(name="an order")
    try:
        enqueue("mail", channel="full")
    except ChannelFull as error:
        return HttpResponse(str(error))
    return HttpResponse("sent")


urlpatterns = [path("order/", order_view)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.urls("tests.lifecycle.test_refusals")
def test_a_view_under_atomic_requests_keeps_what_it_wrote(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    channel_set(channel="full", max_size=1)
    enqueue("h", channel="full")
    answer = client.get("/order/")
    assert (answer.status_code, b"holds 1 of 1" in answer.content) == (200, True)
    assert Channel.objects.filter(name="an order").exists()


# What the error says.


def test_a_full_channel_is_named_with_its_queue_and_what_it_holds(crowd: None) -> None:
    with pytest.raises(ChannelFull, match='channel "full" of queue "default" holds 1 of 1 messages'):
        enqueue("h", channel="full")
    with pytest.raises(DatabaseError, match='channel "full" of queue "default" holds 1 of 1 messages'):
        Message.objects.create(channel=Channel.objects.get(name="full"), handler="h")


def test_an_error_without_a_hint_has_no_empty_one() -> None:
    for arguments, hint in ("'PGQ07', 'no'", None), ("'PGQ07', 'no', 'Say yes.'", "Say yes."):
        with pytest.raises(DatabaseError) as raised, transaction.atomic():
            connection.cursor().execute(f"SELECT pgqueue_raise(pgqueue_refusal({arguments}))")
        cause: Any = raised.value.__cause__
        assert cause.diag.message_hint == hint


def test_a_missing_channel_says_the_call_that_makes_it() -> None:
    with pytest.raises(ChannelNotFound) as raised:
        enqueue("h", channel="acme", queue="mails")
    assert "channel_set(queue='mails', channel='acme')" in raised.value.hint
    assert (
        "pgqueue_channel_set(p_queue => 'mails', p_channel => 'acme')"
        in refusal("pgqueue_enqueue('h', p_queue => 'mails', p_channel => 'acme')")["hint"]
    )


@pytest.mark.parametrize("policy", ["error", "drop"])
def test_a_released_channel_says_so_before_anything_else(policy: str) -> None:
    channel_set(channel="old", max_size=1, full_policy=policy)
    first = enqueue("h", channel="old", dedupe_key="k")
    assert first.created
    channel_release(channel="old")
    for key in (None, "k"):
        assert enqueue("h", channel="old", dedupe_key=key, on_refused="return").outcome == "released"


def test_an_exception_can_be_had_in_sql() -> None:
    with pytest.raises(DatabaseError) as raised, transaction.atomic():
        sql("SELECT pgqueue_raise(refusal) FROM pgqueue_enqueue('h', p_channel => 'missing')")
    assert raised.value.__cause__.sqlstate == "PGQ03"
    assert sql("SELECT id IS NOT NULL, pgqueue_raise(refusal) FROM pgqueue_enqueue('h')") == [(True, "")]


# on_refused.


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ({"channel": "full"}, "full"),
        ({"channel": "released"}, "released"),
        ({"channel": "missing"}, "not_found"),
        ({"backoff": timedelta(seconds=-1)}, "invalid"),
        ({"payload": object()}, "invalid"),
    ],
)  # fmt: skip
def test_a_refusal_can_be_returned(crowd: None, given: dict[str, Any], outcome: str) -> None:
    answer = enqueue("h", **given, on_refused="return")
    assert (answer.id, answer.outcome, answer.created) == (None, outcome, False)
    assert answer.reason
    [again] = enqueue_many([NewMessage(handler="h", **given)], on_refused="return")
    assert (again.id, again.outcome) == (None, outcome)


def test_of_many_those_that_are_not_refused_are_enqueued(crowd: None) -> None:
    asked = [
        *many("default", "full", "missing"),
        *many("default", payload=object()),
        *many("released", "drops", "default"),
    ]
    answers = enqueue_many(asked, on_refused="return")
    assert [answer.outcome for answer in answers] == [
        "created", "full", "not_found", "invalid", "released", "dropped", "created",
    ]  # fmt: skip
    assert Message.objects.filter(id__in=[answers[0].id, answers[-1].id]).count() == 2


def test_all_or_none_says_which_is_refused(crowd: None) -> None:
    with pytest.raises(ChannelFull, match=r'^message 2 of 3: channel "full"'):
        enqueue_many(many("default", "full", "default"))
    rows = sql("SELECT id, outcome FROM pgqueue_enqueue_many('{h,h,h}', NULL, '{default,released,full}')")
    assert rows == [(None, "withheld"), (None, "released"), (None, "full")]


def test_a_word_that_on_refused_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="on_refused"):
        enqueue("h", channel="missing", on_refused="ignore")
    with pytest.raises(ValueError, match="on_refused"):
        enqueue_many(many("default"), on_refused="ignore")


def test_a_refused_batch_creates_no_channel(settings: Any, crowd: None) -> None:
    settings.DJANGO_PGQUEUE = {"AUTO_CREATE_CHANNELS": True}
    with pytest.raises(ChannelFull):
        enqueue_many(many("fresh", "full"))
    assert not Channel.objects.filter(name="fresh").exists()
    assert [answer.outcome for answer in enqueue_many(many("fresh"))] == ["created"]


# Arrays that do not pair up, and limits that are no limits.

ONE_MORE = {
    "p_payloads": "ARRAY['1', '2', '3']::jsonb[]", "p_channels": "ARRAY['full']", "p_queues": "ARRAY['default']",
    "p_bodies": "ARRAY['x']::bytea[]", "p_headers": "ARRAY['{}']::jsonb[]", "p_priorities": "ARRAY[1]",
    "p_dequeue_ats": "ARRAY[now()]", "p_delays": "ARRAY[interval '1 hour']", "p_max_attempts": "ARRAY[1, 2, 3]",
    "p_backoffs": "ARRAY[interval '1 s']", "p_backoff_factors": "ARRAY[2.0]::float8[]",
    "p_backoff_longests": "ARRAY[interval '1 s']", "p_dedupe_keys": "ARRAY['k']",
}  # fmt: skip


@pytest.mark.parametrize("name", ONE_MORE)
def test_arrays_of_unequal_length_are_refused_by_name(name: str) -> None:
    payloads = "" if name == "p_payloads" else "p_payloads => NULL, "
    call = f"pgqueue_enqueue_many(p_handlers => ARRAY['h', 'h'], {payloads}{name} => {ONE_MORE[name]})"
    assert f"{name} has {3 if '3' in ONE_MORE[name] else 1} element(s), p_handlers has 2" in refusal(call)["message"]
    assert not Message.objects.exists()


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "limits",
    [
        '{"max_size": 1.5}', '{"max_size": "x"}', '{"max_size": 3e9}', '{"weight": 1e400}', '{"release_burst": [1]}',
        '{"max_concurrency": true}', '{"release_interval": "x"}', '{"release_interval": "200000 years"}',
        '{"release_interval": {}}', '{"full_policy": 5}', '[]', '"x"', '7',
    ],
)  # fmt: skip
def test_limits_that_are_none_are_refused_in_sql_too(limits: str) -> None:
    assert "invalid channel" in refusal("pgqueue_channel_set('default', 'new', %s::jsonb)", limits)["message"]
    assert not Channel.objects.filter(name="new").exists()


@pytest.mark.parametrize("value", [1.5, "x", 3e9, 3_000_000_000])
def test_limits_that_are_none_are_refused_in_python(value: Any) -> None:
    with pytest.raises(InvalidMessage, match="max_size"):
        channel_set(channel="new", max_size=value)
    assert enqueue("h").created


def test_a_payload_of_nothing_is_refused() -> None:
    sent = enqueue("h")
    assert "no payload" in refusal("pgqueue_edit(%s::bigint, NULL)", sent.id)["message"]
    assert edit(sent.id, None) == "edited"
