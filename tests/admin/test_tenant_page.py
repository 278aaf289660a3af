"""The page of one channel: what it says."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from django_pgqueue import (
    NewMessage,
    channel_pause,
    channel_release,
    channel_set,
    complete,
    dequeue,
    enqueue,
    enqueue_many,
    limit_pause,
    limit_set,
    measure,
    queue_pause,
    queue_set,
)
from django_pgqueue.admin.tenant import handlers
from django_pgqueue.models import Activity, Channel, DeadLetter, Message
from tests.admin.conftest import address, make_dead
from tests.admin.tenant_page import AT_ONCE, histogram, look, page_of, part, settled, text_of
from tests.support.cases import cases


def test_the_head_says_what_the_channel_is(admin_client: Client, tenant: Channel) -> None:
    Channel.objects.filter(pk=tenant.pk).update(context={"tenant": "acme <b>"})
    shown = look(admin_client, tenant)
    assert shown.count("default/acme") >= 1
    assert "State open" in shown
    assert '"tenant": "acme <b>"' in shown


def test_a_pause_is_shown_with_its_end_its_reason_and_what_it_costs(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    until = datetime(2199, 5, 4, 3, 2, 1, tzinfo=UTC)
    channel_pause(channel="acme", reason="their <server> is down", until=until)
    Channel.objects.filter(pk=tenant.pk).update(paused_at=timezone.now() - timedelta(hours=2))
    html = admin_client.get(page_of(tenant)).content.decode()
    assert "paused for 2 h , until 4 May 2199, 03:02:01. Reason: their <server> is down" in text_of(html).replace(
        "2 h,", "2 h ,"
    )
    assert "3 ready messages wait for it. It has lasted for 2 h." in part(html, "limits")


def test_the_pause_of_the_queue_holds_up_its_channels(admin_client: Client, tenant: Channel) -> None:
    enqueue("h", channel="acme")
    queue_pause("default", reason="deploy")
    html = admin_client.get(page_of(tenant)).content.decode()
    assert "pause of the queue until you resume it – 1 ready message waits for it." in part(html, "limits")


def test_a_released_channel_has_no_limits(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", max_concurrency=1)
    enqueue("h", channel="acme")
    channel_release(channel="acme")
    shown = look(admin_client, tenant)
    assert "it takes no new messages, and is removed when it is empty" in shown
    assert "max_concurrency" not in shown


def test_live_figures_are_linked(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme", order_key="invoice-7") for _ in range(5))
    assert len(dequeue(limit=10)) == 1
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    enqueue("h", channel="acme", delay=timedelta(hours=1))
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    enqueue_many(NewMessage(handler="h", channel="acme", limits=["stripe"]) for _ in range(2))
    html = admin_client.get(page_of(tenant)).content.decode()
    for name, count, chosen in (
        ("ready", 3, "status__exact=1"),
        ("leased", 1, "status__exact=2"),
        ("scheduled", 1, "waits_for=time"),
        ("waiting for a limit", 2, "waits_for=limit"),
        ("waiting for their order key", 4, "waits_for=key"),
    ):
        query = f"?channel={tenant.pk}&amp;{chosen}"
        assert f'<dt>{name}</dt><dd><a href="{address("message")}{query}">{count}</a></dd>' in html


def test_shared_limits_that_its_messages_wait_for_stand_among_its_limits(admin_client: Client, tenant: Channel) -> None:
    stripe = limit_set("stripe", max_concurrency=4)
    limit_set("unused", max_concurrency=4)
    enqueue("h", channel="acme", limits=["stripe"])
    html = admin_client.get(page_of(tenant)).content.decode()
    limits = part(html, "limits")
    assert "shared limit stripe 4 messages at once 0/4 leased 1 message waits for it." in limits
    assert "unused" not in limits
    assert f'href="{address("sharedlimit", stripe)}"' in html


def test_the_oldest_message_is_found_behind_those_of_a_higher_priority(admin_client: Client, tenant: Channel) -> None:
    now = timezone.now()
    Message.objects.create(channel=tenant, handler="h", priority=5, dequeue_at=now - timedelta(minutes=1))
    oldest = Message.objects.create(channel=tenant, handler="h", priority=-5, dequeue_at=now - timedelta(minutes=50))
    Message.objects.create(channel=tenant, handler="h", priority=-5, dequeue_at=now - timedelta(minutes=40))
    html = admin_client.get(page_of(tenant)).content.decode()
    assert re.search(rf'is-bad"><a href="{address("message", oldest.pk)}">50.min', html)
    dequeue(limit=1)  # Now the lane has a floor.
    assert re.search(rf'<a href="{address("message", oldest.pk)}">50.min', admin_client.get(page_of(tenant)).text)


def test_more_messages_than_are_counted_live_are_taken_from_the_measurement(
    admin_client: Client, tenant: Channel
) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(1_234))
    connection.cursor().execute("DELETE FROM pgqueue_backlog")
    assert ">1,000+</a>" in admin_client.get(page_of(tenant)).text
    measure(AT_ONCE)
    assert ">1,234</a>" in admin_client.get(page_of(tenant)).text


def test_many_scheduled_messages_of_others_do_not_hide_that_this_channel_has_none(
    admin_client: Client, tenant: Channel
) -> None:
    enqueue_many(NewMessage(handler="h", delay=timedelta(hours=1)) for _ in range(10_001))
    measure(AT_ONCE)
    assert "<dt>scheduled</dt><dd>0</dd>" in admin_client.get(page_of(tenant)).text


def test_a_channel_that_was_not_counted_may_be_full(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", max_size=1_500)
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(1_500))
    connection.cursor().execute("DELETE FROM pgqueue_measurement")
    table = part(admin_client.get(page_of(tenant)).text, "limits")
    assert "1,500 live messages at least 1,000 live Unknown until it is measured." in table
    measure(AT_ONCE)
    table = part(admin_client.get(page_of(tenant)).text, "limits")
    assert "1,500/1,500 live The channel is full: it refuses new messages." in table


def test_old_figures_are_called_old_and_not_used(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(1_234))
    measure(AT_ONCE)
    connection.cursor().execute("UPDATE pgqueue_measurement SET measured_at = measured_at - interval '5 minutes'")
    html = admin_client.get(page_of(tenant)).text
    assert "These figures are 5 min old: no worker runs maintenance." in text_of(html)
    assert ">1,000+</a>" in html


def test_the_hour_and_the_day_of_the_channel(admin_client: Client, tenant: Channel) -> None:
    measure(AT_ONCE)
    settled("acme", minutes=10, completed=30, dead=1, retries=4, waits=histogram(21, 31), runs=histogram(11, 31))
    settled("acme", minutes=60, ago=timedelta(hours=3), completed=1_230, cancelled=4, dead=7, retries=9)
    settled("other", minutes=60, ago=timedelta(hours=3), completed=99_999)
    html = admin_client.get(page_of(tenant)).text
    table = part(html, "spans")
    assert "done 30 1,234" in table
    assert "died 0 0" in table
    assert "failed attempts 4 9" in table
    assert re.search(r"waited, p50 \d[\d.]* \w+ – waited, p95 \d[\d.]* \w+ – ran, p50 \d", table)
    assert "Largest: completed 1,230, cancelled 4, dead 7, failed attempts 9." in html
    assert "99,999" not in html


@cases(
    ("policy", "sentence"),
    [
        ("error", "The channel is full: it refuses new messages."),
        ("drop", "The channel is full: it drops new messages."),
        ("drop_oldest", "The channel is full: each new message drops the oldest one that waits."),
        ("replace", "The channel is full: a new message drops all that wait."),
    ],
)
def test_a_full_channel_says_what_happens_to_new_messages(
    policy: str, sentence: str, admin_client: Client, tenant: Channel
) -> None:
    channel_set(channel="acme", max_size=2, full_policy=policy)
    enqueue("h", channel="acme")
    assert "2 live messages 1/2 live It holds up nothing now." in part(admin_client.get(page_of(tenant)).text, "limits")
    Message.objects.create(channel=tenant, handler="h")
    assert f"2/2 live {sentence}" in part(admin_client.get(page_of(tenant)).text, "limits")


def test_each_limit_says_what_it_holds_up(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", max_concurrency=2, rate="2/h burst 2", weight=3)
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(5))
    assert "2 messages at once 0/2 leased It holds up nothing now." in part(
        admin_client.get(page_of(tenant)).text, "limits"
    )
    dequeue(limit=5)
    table = part(admin_client.get(page_of(tenant)).text, "limits")
    assert "2 messages at once 2/2 leased 3 ready messages wait for it." in table
    assert re.search(r"1 message per 30 min, 2 at once after a quiet time 0/2 settled in an hour", table)
    assert re.search(r"3 ready messages wait for it\. The next one is delivered in (29 min \d+ s|30 min)\.", table)
    assert "3 messages per turn" in table


def test_a_limit_that_is_reached_while_nothing_waits_says_so(admin_client: Client, tenant: Channel) -> None:
    channel_set(channel="acme", max_concurrency=1)
    enqueue("h", channel="acme")
    dequeue(limit=1)
    table = part(admin_client.get(page_of(tenant)).text, "limits")
    assert "1 message at once 1/1 leased It is reached, and no message waits." in table


def test_handlers_are_summed_up(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler=name, channel="acme") for name in ("mail.send", "mail.send", "pdf.render"))
    enqueue("mail.send")
    complete(dequeue(limit=9))
    make_dead(handler="mail.send", channel="acme")
    table = part(admin_client.get(page_of(tenant)).text, "handlers")
    assert re.search(r"mail\. ?send 2 1 0 \S+ \w+ ", table)
    assert re.search(r"pdf\. ?render 1 0 0 \S+ \w+ ", table)
    assert "Messages settled in the last 24 hours." in look(admin_client, tenant)


def test_a_busy_archive_is_read_for_a_shorter_time() -> None:
    now = timezone.now().replace(second=0, microsecond=0)
    day_ago = now - timedelta(days=1)
    half = handlers.MOST_ROWS // 2
    buckets = [(now - timedelta(minutes=place), half) for place in range(4)]
    assert handlers.window([], day_ago) == day_ago
    assert handlers.window(buckets[:2], day_ago) == day_ago
    assert handlers.window(buckets, day_ago) == now - timedelta(minutes=1)
    # A single minute with more messages is read as a whole.
    assert handlers.window([(now, handlers.MOST_ROWS + 1), *buckets[1:]], day_ago) == now


def test_the_page_says_how_much_of_a_busy_archive_it_has_read(admin_client: Client, tenant: Channel) -> None:
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=2)
    given = {"cancelled": 0, "dead": 0, "retries": 0, "waits": [], "runs": [], "queue": "default"}
    for place, completed in enumerate((5, handlers.MOST_ROWS)):
        bucket_at = at - place * timedelta(minutes=1)
        Activity.objects.create(minutes=1, bucket_at=bucket_at, completed=completed, **given)
    shown = look(admin_client, tenant)
    assert re.search(r"Messages settled since .* \([23] min[^)]*\): the archive has too many rows to read", shown)


@pytest.mark.parametrize("of_queue", [False, True])
def test_without_an_archive_only_dead_letters_have_handlers(
    of_queue: bool, admin_client: Client, tenant: Channel
) -> None:
    if of_queue:
        queue_set("default", archive="none")
    else:
        channel_set(channel="acme", archive="none")
    make_dead(handler="mail.send", channel="acme")
    assert "The archive keeps nothing of this channel, so only dead letters are counted." in look(admin_client, tenant)


def test_the_newest_dead_letters_come_first_and_lead_to_the_redrive(admin_client: Client, tenant: Channel) -> None:
    letters = make_dead(12, channel="acme", details={"type": "KeyError", "message": "<'currency'>"})
    make_dead(1, reason="of_another_channel")
    DeadLetter.objects.filter(pk=letters[0].pk).update(redriven_at=timezone.now())
    html = admin_client.get(page_of(tenant)).text
    table = html.partition('id="pgqueue-letters">')[2].partition("</table>")[0]
    assert [int(pk) for pk in re.findall(r">#(\d+)</a>", table)] == [letter.pk for letter in letters[:1:-1]]
    assert "refused KeyError: <'currency'>" in text_of(table)
    assert "of_another_channel" not in table
    query = "?queue=default&amp;channel=acme&amp;redriven=no"
    assert f'<a href="{address("deadletter")}{query}">All 11 dead letters</a>' in html
    assert "Open the list to redrive all of them" in html


def test_very_many_dead_letters_are_not_all_read(
    admin_client: Client, tenant: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_pgqueue.admin.tenant.reads.MOST_SEEN_LETTERS", 20)
    letters = make_dead(30, channel="acme")
    html = admin_client.get(page_of(tenant)).text
    assert f">#{letters[-1].pk}</a>" in html
    assert "newer ones may be missing" not in html
    make_dead(25)
    measure(AT_ONCE)
    html = admin_client.get(page_of(tenant)).text
    assert "There are very many, and newer ones may be missing here." in html
    assert "All 30 dead letters" in html


def test_live_leases_are_there(admin_client: Client, tenant: Channel) -> None:
    enqueue_many(NewMessage(handler="mail.send", channel="acme") for _ in range(22))
    taken = dequeue(limit=21, worker="host:1:ab")
    Message.objects.filter(pk=taken[0].id).update(
        leased_at=timezone.now() - timedelta(minutes=5),
        lease_expires_at=timezone.now() - timedelta(seconds=5),
        cancelled_at=timezone.now(),
    )
    Message.objects.filter(pk=taken[7].id).update(leased_at=timezone.now() - timedelta(minutes=9))
    connection.cursor().execute("UPDATE pgqueue_lane SET lease_floor = now() - interval '1 hour'")
    html = admin_client.get(page_of(tenant)).text
    table = part(html, "leases")
    shown = re.findall(r"#(\d+)", table)
    assert len(shown) == 20
    assert shown[0] == str(taken[7].id)
    assert "9 min" in table
    assert re.search(rf"#{taken[0].id} to be cancelled mail\. ?send host: ?1: ?ab 1 / 5 ", table)
    assert "expired, it comes back with the next sweep" in table
    assert "These have been leased longest. All leased messages" in text_of(html)
