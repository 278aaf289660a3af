"""The page of one channel: what it says, to whom, at which cost, and from where it is linked."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
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
    measure,
    pop,
    queue_pause,
    queue_set,
)
from django_pgqueue.admin.tenant import handlers
from django_pgqueue.models import Activity, Channel, DeadLetter, Message, Schedule, Worker
from django_pgqueue.sql.call import call
from tests.admin.conftest import Page, address, logged, make_dead, make_forecast, make_metric, told

AT_ONCE = timedelta(0)
VIEW_ALL = ("view_channel", "view_message", "view_deadletter", "view_archivedmessage", "view_worker", "view_queue")


def page_of(channel: Channel | int) -> str:
    return reverse("admin:pgqueue_channel_tenant", args=[channel if isinstance(channel, int) else channel.pk])


def named(queue: str, channel: str) -> str:
    """Return the address that the lists link to, as it stands in HTML."""
    return f"{reverse('admin:pgqueue_channel_named')}?queue={queue}&amp;channel={channel}"


def text_of(html: str) -> str:
    """The text that a reader sees."""
    words = re.sub(r"<(title|desc)[ >].*?</\1>|<[^>]+>", " ", html, flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(words).replace("\N{NO-BREAK SPACE}", " "))


def look(client: Client, channel: Channel) -> str:
    response = client.get(page_of(channel))
    assert response.status_code == 200, response
    return text_of(response.content.decode().partition('id="content"')[2])


def part(html: str, name: str) -> str:
    """The text of one table."""
    return text_of(html.partition(f'id="pgqueue-{name}">')[2].partition("</table>")[0])


@pytest.fixture
def tenant() -> Channel:
    """A channel without messages. It is read again, because the tests change it."""
    return Channel.objects.get(pk=channel_set(channel="acme"))


def settled(name: str, *, minutes: int, ago: timedelta = AT_ONCE, **figures: Any) -> None:
    """As if it had been measured."""
    at = timezone.now().replace(second=0, microsecond=0) - ago
    at -= timedelta(minutes=at.minute % minutes)
    given = {"completed": 0, "cancelled": 0, "dead": 0, "retries": 0, "waits": [], "runs": []} | figures
    Activity.objects.create(queue="default", channel=name, minutes=minutes, bucket_at=at, **given)


def histogram(place: int, count: int = 1) -> list[int]:
    return [0] * (place - 1) + [count]


# Content


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
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(4))
    enqueue("h", channel="acme", delay=timedelta(hours=1))
    dequeue(limit=1)
    html = admin_client.get(page_of(tenant)).content.decode()
    for name, count, status in (("ready", 3, 1), ("leased", 1, 2), ("scheduled", 1, 3)):
        query = f"?channel={tenant.pk}&amp;status__exact={status}"
        assert f'<dt>{name}</dt><dd><a href="{address("message")}{query}">{count}</a></dd>' in html


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
    assert "died 1 7" in table
    assert "failed attempts 4 9" in table
    assert re.search(r"waited, p50 \d[\d.]* \w+ – waited, p95 \d[\d.]* \w+ – ran, p50 \d", table)
    assert "Largest: completed 1,230, cancelled 4, dead 7, failed attempts 9." in html
    assert "99,999" not in html


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("error", "The channel is full: it refuses new messages."),
        ("drop", "The channel is full: it drops new messages."),
        ("drop_oldest", "The channel is full: each new message drops the oldest one that waits."),
        ("replace", "The channel is full: a new message drops all that wait."),
    ],
)
def test_a_full_channel_says_what_becomes_of_new_messages(
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


# Empty states


def test_a_channel_without_messages_says_that_there_is_nothing(admin_client: Client, tenant: Channel) -> None:
    shown = look(admin_client, tenant)
    for sentence in (
        "Nothing of it is ready.",
        "No message of this channel is leased.",
        "No dead letter of this channel waits for a redrive.",
        "No message of this channel was settled in this time.",
    ):
        assert sentence in shown
    # Each chart says so, and none draws empty axes.
    assert shown.count("Nothing in this period.") == 4


def test_before_the_first_measurement_the_page_says_so(admin_client: Client, tenant: Channel) -> None:
    connection.cursor().execute("DELETE FROM pgqueue_measurement")
    enqueue("h", channel="acme")
    shown = look(admin_client, tenant)
    assert "There are no figures yet" in shown
    assert "ready 1 oldest waits for" in shown


@pytest.mark.parametrize("pk", ["999999", "abc", "9" * 40, "_5F"])
def test_a_channel_that_does_not_exist_is_not_found(pk: str, admin_client: Client) -> None:
    response = admin_client.get(f"{address('channel')}{pk}/tenant/")
    assert response.status_code == 404
    assert "No channel has this id." in response.text


def test_a_channel_that_is_gone_leads_to_what_is_left_of_it(admin_client: Client) -> None:
    for name in ("gone", "<b>", "nul\0"):
        response = admin_client.get(reverse("admin:pgqueue_channel_named"), {"queue": "default", "channel": name})
        assert response.status_code == 404
        assert f"The queue default has no channel {name.strip(chr(0))}." in unescape(response.text)
        assert Page(response.text).inline_code() == []
        query = "?queue=default&amp;channel="
        assert f"{address('deadletter')}{query}" in response.text
        assert f"{address('archivedmessage')}{query}" in response.text


# Permissions


def test_the_page_needs_the_permission_to_view_channels(staff: Callable[..., Client], tenant: Channel) -> None:
    client = staff("view_message", "view_deadletter")
    assert client.get(page_of(tenant)).status_code == 403
    assert client.get(reverse("admin:pgqueue_channel_named"), {"channel": "acme"}).status_code == 403
    assert client.post(page_of(tenant), {"action": "resume"}).status_code == 403
    assert Client().get(page_of(tenant)).status_code == 302


def test_a_viewer_sees_no_actions(staff: Callable[..., Client], tenant: Channel) -> None:
    make_dead(channel="acme")
    client = staff(*VIEW_ALL)
    html = client.get(page_of(tenant)).text
    assert "<button" not in html.partition('id="content"')[2]
    assert "Edit limits" not in html
    assert "All settings" in html
    assert "Open the list to redrive" not in html
    for action in ("pause", "purge", "release"):
        posted = {"action": action, "confirmed": "yes", "reason": "x"}
        assert client.post(page_of(tenant), posted).status_code == 403
    tenant.refresh_from_db()
    assert (tenant.paused_at, tenant.released_at) == (None, None)


def test_a_viewer_of_channels_sees_no_messages_and_no_links_to_them(
    staff: Callable[..., Client], tenant: Channel
) -> None:
    enqueue("mail.secret", channel="acme")
    dequeue(limit=1, worker="host:7")
    make_dead(handler="mail.secret", channel="acme", reason="secret_reason")
    enqueue("mail.secret", channel="acme")
    pop("default", 1)
    html = staff("view_channel").get(page_of(tenant)).text
    for text in ("mail.", "secret", 'id="pgqueue-leases"', 'id="pgqueue-letters"', 'id="pgqueue-handlers"'):
        assert text not in html.partition("pgqueue-tiles")[2], text
    links = set(re.findall(r'href="(/admin/pgqueue/\w+/)', html.partition('id="content"')[2]))
    assert links == {address("channel")}


def test_the_page_shows_no_payload(admin_client: Client, tenant: Channel) -> None:
    enqueue("h", {"card": "4111-1111"}, channel="acme")
    dequeue(limit=1)
    make_dead(channel="acme", payload={"card": "4111-1111"})
    assert "4111" not in admin_client.get(page_of(tenant)).text


@pytest.mark.parametrize(
    ("codename", "button"), [("pause_channel", "pause"), ("purge_channel", "purge"), ("change_channel", "release")]
)
def test_each_action_needs_its_permission(
    codename: str, button: str, staff: Callable[..., Client], tenant: Channel
) -> None:
    html = staff("view_channel", codename).get(page_of(tenant)).text
    assert re.findall(r'name="action" value="(\w+)"', html) == [button]


def test_a_channel_is_paused_and_resumed_from_its_page(admin_client: Client, tenant: Channel) -> None:
    page = page_of(tenant)
    asked = admin_client.post(page, {"action": "pause"})
    assert 'name="reason"' in asked.text
    assert f'action="{page}"' in asked.text
    response = admin_client.post(page, {"action": "pause", "confirmed": "yes", "reason": "x"})
    assert (response.status_code, response["Location"]) == (302, page)
    assert told(response) == "1 channel is paused."
    response = admin_client.post(page, {"action": "resume"})
    assert (response.status_code, response["Location"]) == (302, page)
    assert logged() == [("default/acme", "Paused: x", "admin"), ("default/acme", "Resumed.", "admin")]


def test_a_post_without_a_known_action_is_refused(admin_client: Client, tenant: Channel) -> None:
    for action in ("", "get_urls", "delete_selected"):
        assert admin_client.post(page_of(tenant), {"action": action}).status_code == 403


def test_after_an_edit_the_page_is_shown_again_with_the_filters_of_the_list(
    admin_client: Client, tenant: Channel
) -> None:
    listed = admin_client.get(address("channel"), {"queue": "default"}).text
    query = "?_changelist_filters=queue%3Ddefault"
    assert f'<a href="{page_of(tenant)}{query}">' in listed
    html = admin_client.get(page_of(tenant) + query).text
    assert f'href="{address("channel")}?queue=default"' in html
    assert f'href="{address("channel", tenant.pk)}{query}"' in html
    form = {"full_policy": "error", "release_burst": "1", "weight": "2", "context": "{}", "_save": "Save"}
    response = admin_client.post(address("channel", tenant.pk) + query, form)
    assert response["Location"] == page_of(tenant) + query
    assert page_of(tenant) in admin_client.get(address("channel", tenant.pk)).text


# Links


def test_a_name_leads_to_the_page(admin_client: Client) -> None:
    name = "ACME & Söhne/🚀"
    pk = channel_set(channel=name, queue="mail")
    response = admin_client.get(reverse("admin:pgqueue_channel_named"), {"queue": "mail", "channel": name})
    assert (response.status_code, response["Location"]) == (302, page_of(pk))


def test_it_is_linked_from_everywhere_its_name_stands(page: Callable[..., str], tenant: Channel) -> None:
    by_pk, by_name = f'href="{page_of(tenant)}', f'href="{named("default", "acme")}"'
    [letter] = make_dead(channel="acme")
    enqueue("h", channel="acme")
    [popped] = pop("default", 1)
    enqueue("h", channel="acme")
    [leased] = dequeue(limit=1, worker="w")
    message = enqueue("h", channel="acme").id
    schedule = Schedule.objects.create(name="s", handler="h", cron="@daily", channel="acme")
    declared = Schedule.objects.create(name="t", handler="h", cron="@daily", channel="acme", declared_in="shop.jobs")
    running = [{"id": leased.id, "seconds": 1.0, "seconds_left": None}, {"id": [1], "seconds": 1}]
    worker = Worker.objects.create(
        name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="1", running=running
    )
    make_forecast(channel="acme").save()
    metric = make_metric(channel="acme")
    metric.save()
    measure(AT_ONCE)
    for model, pk in (
        ("channel", None), ("channel", tenant.pk), ("message", None), ("message", message), ("worker", worker.pk),
    ):  # fmt: skip
        assert by_pk in page(model, pk), (model, pk)
    for model, pk in (
        ("deadletter", None), ("deadletter", letter.pk), ("archivedmessage", None), ("archivedmessage", popped.id),
        ("schedule", None), ("schedule", schedule.pk), ("schedule", declared.pk), ("backlogforecast", None),
        ("queuemetric", metric.pk),
    ):  # fmt: skip
        assert by_name in page(model, pk), (model, pk)


def test_the_dashboard_links_to_it_for_users_who_may_view_channels(
    staff: Callable[..., Client], tenant: Channel
) -> None:
    channel_set(channel="acme", max_concurrency=1)
    enqueue_many(NewMessage(handler="h", channel="acme") for _ in range(3))
    dequeue(limit=1)
    measure(AT_ONCE)
    dashboard = "/admin/pgqueue/dashboard/"
    html = staff("view_dashboard", "view_channel").get(dashboard).text
    assert f'href="{page_of(tenant)}"' in html
    assert f'href="{named("default", "acme")}">Channel default/acme is at its limit' in html
    html = staff("view_dashboard").get(dashboard).text
    assert page_of(tenant) not in html
    assert "/named/" not in html


# Cost


def queries(client: Client, channel: Channel) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(page_of(channel)).status_code == 200
    return len(captured)


def test_the_page_asks_no_more_when_there_is_more(admin_client: Client, tenant: Channel) -> None:
    def more(count: int) -> None:
        for place in range(count):
            channel_set(channel=f"c{Channel.objects.count()}", max_concurrency=1)
            enqueue(f"h{place}", channel="acme", priority=place)
        make_dead(count, channel="acme")
        dequeue(limit=count // 3)
        enqueue_many(NewMessage(handler=f"h{place}", channel="acme") for place in range(count))
        measure(AT_ONCE)

    more(4)
    queries(admin_client, tenant)  # The first page of a process asks for content types, which are kept.
    few = queries(admin_client, tenant)
    more(60)
    assert queries(admin_client, tenant) == few <= 70


def test_a_part_that_takes_too_long_is_left_out_and_the_others_are_shown(
    admin_client: Client, tenant: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    enqueue("mail.send", channel="acme")
    dequeue(limit=1)
    monkeypatch.setattr("django_pgqueue.admin.tenant.blocks.LONGEST", 0.2)
    monkeypatch.setattr("django_pgqueue.admin.tenant.handlers.NO_SCAN", "SELECT pg_sleep(5)")
    response = admin_client.get(page_of(tenant))
    assert response.status_code == 200
    shown = text_of(response.text)
    assert "The database was too slow for these parts, and they are left out: Handlers. Load the page again." in shown
    assert "mail. send" in part(response.text, "leases").replace("mail.send", "mail. send")


FILL = """
INSERT INTO pgqueue_message (channel_id, handler, priority)
SELECT %s, 'h', mod(n, 3) FROM generate_series(1, %s) AS n
"""
BLOCKS = "SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) FROM pg_statio_user_tables"


def blocks(client: Client, channel: Channel) -> int:
    """Blocks of the queue's tables and indexes that a page reads."""
    counts = []
    for read in (lambda: None, lambda: client.get(page_of(channel))):
        read()
        call("default", "SELECT 1 FROM (SELECT pg_stat_force_next_flush()) AS f")
        [(count,)] = call("default", f"{BLOCKS} WHERE relname LIKE 'pgqueue%%'")
        counts.append(int(count))
    return counts[1] - counts[0]


@pytest.mark.django_db(transaction=True)
def test_what_the_page_reads_does_not_grow_with_the_backlog(admin_client: Client) -> None:
    """100,000 messages, ten times as many as before: the page reads as many blocks."""
    tenant = Channel.objects.get(pk=channel_set(channel="acme", max_concurrency=50))
    with connection.cursor() as cursor:
        cursor.execute(FILL, [tenant.pk, 10_000])
        cursor.execute("ANALYZE pgqueue_message")
    dequeue(limit=50)
    measure(AT_ONCE)
    blocks(admin_client, tenant)
    before = blocks(admin_client, tenant)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [tenant.pk, 90_000])
        cursor.execute("VACUUM ANALYZE pgqueue_message")
    measure(AT_ONCE)
    assert blocks(admin_client, tenant) < before * 1.5 + 100
