"""Lists of large tables: what they count, ask and show."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.template import Context, Template
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_pgqueue import NewMessage, channel_pause, channel_set, dequeue, enqueue, enqueue_many, pop
from django_pgqueue.admin.base import CappedCount, CappedPaginator
from django_pgqueue.admin.counts import live_counts
from django_pgqueue.admin.filters import ActiveChannelFilter
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Queue, Schedule, SharedLimit, Worker
from django_pgqueue.pipeline.models import Lake, QueueMetric
from tests.admin.conftest import MODELS, address, make_dead, make_metric
from tests.support.cases import cases

Pages = Callable[..., str]


def add_rows(count: int) -> None:
    """So many more rows of everything."""
    start = Channel.objects.count()
    channels = Channel.objects.bulk_create(Channel(queue="mail", name=f"c{start + n}") for n in range(count))
    enqueue_many(
        NewMessage(handler=f"h{n}", payload={"n": n}, queue="mail", channel=channel.name)
        for n, channel in enumerate(channels)
    )
    now = timezone.now()
    past = {"queue": "mail", "handler": "h", "payload": {}, "priority": 0, "attempts": 1, "max_attempts": 5}
    times = {"created_at": now, "dequeue_at": now}
    ids = range(10_000_000 + start, 10_000_000 + start + count)
    DeadLetter.objects.bulk_create(
        DeadLetter(id=pk, channel=f"c{pk}", dead_at=now, reason=f"r{pk}", **past, **times) for pk in ids
    )
    ArchivedMessage.objects.bulk_create(
        ArchivedMessage(id=pk, channel=f"c{pk}", archived_at=now, outcome="completed", **past, **times) for pk in ids
    )
    Worker.objects.bulk_create(
        Worker(name=f"w{pk}", hostname="h", pid=1, queues=["mail"], concurrency=1, version="1") for pk in ids
    )
    Schedule.objects.bulk_create(Schedule(name=f"s{pk}", handler="h", cron="@daily") for pk in ids)
    SharedLimit.objects.bulk_create(SharedLimit(name=f"l{pk}", max_concurrency=1) for pk in ids)
    Lake.objects.bulk_create(Lake(name=f"l{pk}", path="/lake", exported_xid=pk, rows={}) for pk in ids)
    QueueMetric.objects.bulk_create(make_metric(bucket_at=now, queue=f"q{pk}") for pk in ids)
    queues = ["default", "mail", *(f"q{pk}" for pk in ids)]
    Queue.objects.bulk_create((Queue(name=name) for name in queues), ignore_conflicts=True)


def queries_of(client: Client, model: str, **query: object) -> list[str]:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(address(model), query).status_code == 200
    return [entry["sql"] for entry in captured.captured_queries]


def test_no_list_asks_more_when_there_is_more(admin_client: Client) -> None:
    add_rows(100)
    few = {model: len(queries_of(admin_client, model)) for model in MODELS}
    add_rows(900)
    many = {model: len(queries_of(admin_client, model)) for model in MODELS}
    assert many == few
    assert max(many.values()) <= 10


def test_no_list_loads_big_columns(admin_client: Client) -> None:
    add_rows(3)
    for model in ("message", "archivedmessage", "deadletter"):
        rows = [sql for sql in queries_of(admin_client, model) if "LIMIT 3" in sql or "ORDER BY" in sql]
        assert rows
        for column in ("payload", "body", "headers"):
            assert not any(f'."{column}"' in sql for sql in rows), (model, column)


@pytest.mark.parametrize("model", MODELS)
def test_counting_stops_at_the_limit(admin_client: Client, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    add_rows(25)
    monkeypatch.setattr(CappedPaginator, "limit", 20)
    response = admin_client.get(address(model))
    assert "20+" in response.content.decode()
    assert response.context["cl"].result_count == 20
    counts = [sql for sql in queries_of(admin_client, model) if "COUNT(" in sql]
    assert len(counts) == 1
    assert "LIMIT 21" in counts[0]
    assert "details" not in counts[0]


def test_a_count_below_the_limit_is_exact(admin_client: Client) -> None:
    add_rows(25)
    assert "25 messages" in admin_client.get(address("message")).content.decode()


def test_a_capped_count_with_thousand_separators() -> None:
    show = Template("{{ n }}").render
    assert show(Context({"n": CappedCount(10_000)})) == "10,000+"
    with override_settings(USE_THOUSAND_SEPARATOR=True):
        assert show(Context({"n": CappedCount(10_000)})) in (">10,000", "&gt;10,000")


def test_live_counts_of_channels(page: Pages) -> None:
    channel_set(channel="tenant", max_concurrency=8, release_interval=timedelta(seconds=2), release_burst=3)
    enqueue_many(NewMessage(handler="h", channel="tenant") for _ in range(5))
    enqueue("h", channel="tenant", delay=timedelta(hours=1))
    dequeue(limit=2)
    channel = Channel.objects.get(name="tenant")
    counts = live_counts([channel.pk], using="default")[channel.pk]
    assert (counts.ready, counts.leased, counts.scheduled) == (3, 2, 1)
    text = page("channel")
    assert f'href="{address("message")}?channel={channel.pk}&amp;status__exact=1">3</a>' in text
    assert "8 at once, 1 per 2\N{NO-BREAK SPACE}s, burst 3" in text
    assert "3 ready, 2 leased, 1 scheduled" in page("channel", channel.pk)


def test_live_counts_are_capped() -> None:
    channel = Channel.objects.get(name="default")
    enqueue_many(NewMessage(handler="h") for _ in range(1_200))
    assert str(live_counts([channel.pk], using="default")[channel.pk].ready) == "1,000+"
    enqueue_many(NewMessage(handler="h", delay=timedelta(hours=1)) for _ in range(1_001))
    other = channel_set(channel="other")
    counts = live_counts([channel.pk, other], using="default")
    assert str(counts[channel.pk].scheduled).endswith("+")
    assert str(counts[other].scheduled) == "0"


def rows(response: Any) -> list[int]:
    return [row.pk for row in response.context["cl"].result_list]


def test_messages_are_found_by_id_dedupe_key_and_handler(admin_client: Client) -> None:
    first = enqueue("mail.send", dedupe_key="order-1").id
    second = enqueue("mail.bounce", dedupe_key="42").id
    third = enqueue("mail.send").id
    path = address("message")
    assert rows(admin_client.get(path, {"q": "order-1"})) == [first]
    assert rows(admin_client.get(path, {"q": "42"})) == [second]
    assert rows(admin_client.get(path, {"q": str(third)})) == [third]
    assert rows(admin_client.get(path, {"q": " mail.send "})) == [third, first]
    assert rows(admin_client.get(path, {"q": "mail"})) == [third, second, first]
    assert rows(admin_client.get(path, {"q": "9" * 30})) == []
    assert rows(admin_client.get(path, {"q": "²"})) == []


def test_messages_are_filtered(admin_client: Client) -> None:
    mail = channel_set(channel="tenant", queue="mail")
    ready = enqueue("a", queue="mail", channel="tenant").id
    later = enqueue("b", delay=timedelta(hours=1)).id
    path = address("message")
    assert rows(admin_client.get(path, {"status__exact": 3})) == [later]
    assert rows(admin_client.get(path, {"queue": "mail"})) == [ready]
    assert rows(admin_client.get(path, {"channel": mail})) == [ready]
    assert rows(admin_client.get(path, {"handler": "b"})) == [later]


@cases("value", ["\0", "x", "9" * 40, "-1", "²", "' OR 1=1 --"])
def test_nonsense_in_the_address_finds_nothing_and_breaks_nothing(admin_client: Client, value: str) -> None:
    enqueue("a")
    make_dead()
    for model, names in {
        "message": ["queue", "channel", "handler", "age", "q", "status__exact"],
        "deadletter": ["queue", "channel", "handler", "reason", "age", "q"],
        "archivedmessage": ["queue", "channel", "handler", "age", "q"],
        "channel": ["queue", "state", "q"],
        "worker": ["alive"],
        "queuemetric": ["grain", "level", "queue", "channel"],
    }.items():
        for name in names:
            response = admin_client.get(address(model), {name: value}, follow=True)
            assert response.status_code == 200, (model, name)


def test_payloads_cannot_be_guessed_by_the_address(admin_client: Client) -> None:
    enqueue("a", {"secret": 1})
    assert admin_client.get(address("message"), {"payload__secret": "1"}).status_code == 400


def test_the_channel_filter_lists_no_hundred_thousand_channels(admin_client: Client) -> None:
    add_rows(60)
    dequeue("mail", limit=1)
    chosen = Channel.objects.get(name="c59")
    response = admin_client.get(address("message"), {"channel": chosen.pk})
    [offered] = [
        spec.lookup_choices for spec in response.context["cl"].filter_specs if isinstance(spec, ActiveChannelFilter)
    ]
    assert len(offered) == 21
    assert (str(chosen.pk), "mail/c59") in offered


def test_the_reason_filter_reads_the_newest_and_takes_any(admin_client: Client) -> None:
    add_rows(30)
    text = admin_client.get(address("deadletter")).content.decode()
    assert text.count("?reason=") == 20
    assert len(rows(admin_client.get(address("deadletter"), {"reason": DeadLetter.objects.earliest("pk").reason}))) == 1


def test_dead_letters_are_filtered_by_whether_they_were_redriven(admin_client: Client) -> None:
    waiting, redriven = make_dead(2)
    DeadLetter.objects.filter(pk=redriven.pk).update(redriven_at=timezone.now(), redriven_to=5)
    assert rows(admin_client.get(address("deadletter"), {"redriven": "no"})) == [waiting.pk]
    assert rows(admin_client.get(address("deadletter"), {"redriven": "yes"})) == [redriven.pk]


def test_channels_are_filtered_by_state(admin_client: Client) -> None:
    channel_set(channel="quiet")
    channel_pause(channel="quiet", reason="r")
    assert [c.name for c in admin_client.get(address("channel"), {"state": "paused"}).context["cl"].result_list] == [
        "quiet"
    ]


def test_the_archive_is_read_from_its_newest_end(admin_client: Client) -> None:
    enqueue_many(NewMessage(handler="h") for _ in range(3))
    ids = [delivery.id for delivery in pop("default", 3)]
    assert rows(admin_client.get(address("archivedmessage"))) == sorted(ids, reverse=True)
    assert (
        rows(admin_client.get(address("archivedmessage"), {"age": "hour", "outcome__exact": "popped"}))
        == sorted(ids)[::-1]
    )
    assert "popped" in admin_client.get(address("archivedmessage", ids[0])).content.decode()


def test_a_worker_that_was_silent_for_a_lease_is_not_alive(admin_client: Client) -> None:
    common = {"hostname": "h", "pid": 1, "queues": ["mail", "default"], "concurrency": 4, "version": "1"}
    Worker.objects.create(name="alive", **common)
    Worker.objects.create(name="dead", heartbeat_at=timezone.now() - timedelta(minutes=2), **common)
    path = address("worker")
    assert rows(admin_client.get(path, {"alive": "yes"})) == ["alive"]
    assert rows(admin_client.get(path, {"alive": "no"})) == ["dead"]
    text = admin_client.get(path).content.decode()
    assert "mail, default" in text
    assert "2\N{NO-BREAK SPACE}min" in text


def test_a_message_without_its_channel_is_still_shown(page: Pages) -> None:
    channel_set(channel="doomed")
    pk = enqueue("h", channel="doomed").id
    Channel.objects.filter(name="doomed").delete()
    assert "missing, id" in page("message")
    assert "missing, id" in page("message", pk)
    assert Message.objects.count() == 1
