"""The dashboard: its figures, links and alerts."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

from django.db import connection
from django.test import Client
from django.utils import timezone

from django_pgqueue import (
    Breaker,
    breaker_open,
    breaker_set,
    channel_pause,
    channel_set,
    dequeue,
    discard,
    enqueue,
    handler_pause,
    limit_pause,
    limit_set,
    measure,
    queue_pause,
    redrive,
    retry,
)
from django_pgqueue.models import Backlog, Schedule
from tests.admin.conftest import make_dead
from tests.admin.dashboard_page import ADDRESS, AT_ONCE, histogram, look, row, settled, shown, working
from tests.support.cases import cases
from tests.support.moments import pass_time


def test_before_the_first_measurement_it_says_so(admin_client: Client) -> None:
    connection.cursor().execute("DELETE FROM pgqueue_measurement")
    assert "There are no figures yet" in shown(look(admin_client))


# A number of dead letters in red.
MARKED = re.compile(r'"pgqueue-is-bad" title="3"')


def test_figures_of_a_queue_and_a_channel_are_there(admin_client: Client) -> None:
    channel_set(channel="acme", max_concurrency=4, max_size=10)
    for _ in range(5):
        enqueue("h", channel="acme")
    enqueue("h", channel="acme", delay=timedelta(hours=1))
    dequeue(limit=2)
    measure(AT_ONCE)
    settled(minutes=1, completed=30, dead=1, waits=histogram(21, 30), runs=histogram(11, 30))
    settled(minutes=10, completed=1230, dead=4, waits=histogram(31, 9), runs=histogram(41, 9))
    settled("acme", minutes=10, completed=7)
    settled("acme", minutes=60, completed=77)
    html = look(admin_client)
    of_queue = row(html, "default")
    assert re.search(r"default 3 \d[\d.]* m?s 2 1 0 , 0 , 0 0 ", of_queue)
    assert "30 1,230" in of_queue
    # Half of a position of the histogram: 2 ** 9.75 ms, of the day 2 ** 14.75 ms.
    assert "861 ms" in of_queue
    assert "27.6 s" in of_queue
    # The charts have the present minute, and the present ten.
    assert "Largest: completed 30," in html
    assert "Largest: completed 1,230," in html
    of_channel = row(html, "acme")
    assert "2/4 at once 6/10 held" in of_channel
    assert "7 77" in of_channel


def test_handlers_have_their_rate_failures_times_and_what_is_in_flight(admin_client: Client) -> None:
    channel_set(channel="acme", queue="mails")
    for queue, channel in (("default", "default"), ("mails", "acme")):
        enqueue("mail.send", queue=queue, channel=channel)
    dequeue(worker="w")
    figures = {"waits": histogram(21, 30), "runs": histogram(11, 30)}
    settled(handler="crm.push", minutes=10, completed=600, dead=4, retries=8, **figures)
    settled(handler="crm.push", minutes=10, ago=timedelta(hours=2), completed=9_999)
    settled(handler="crm.push", minutes=0, completed=99_999)
    html = look(admin_client)
    assert "crm.push 0 10.1 12 861 ms 1.01 s 26.9 ms 31.5 ms" in row(html, "crm.push")
    assert "mail.send 1 0 0 – –" in row(html, "mail.send")
    assert "/admin/pgqueue/message/?handler=mail.send&amp;status__exact=2" in html
    assert 'id="pgqueue-handlers"' not in look(admin_client, queue="mails")
    # Rows of handlers count in no other figure.
    assert "600" not in row(html, "default")


def test_every_number_leads_to_the_rows_that_it_counts(admin_client: Client) -> None:
    channel = channel_set(channel="acme")
    for _ in range(3):
        enqueue("h", channel="acme")
    dequeue(limit=1)
    make_dead(2, channel="acme")
    measure(AT_ONCE)
    settled("acme", minutes=10, completed=5, dead=2)
    html = look(admin_client)
    links = {unescape(link) for link in re.findall(r'href="(/admin/pgqueue/\w+/\?[^"]+)"', html)}
    for link in (
        f"/admin/pgqueue/message/?channel={channel}&status__exact=2",
        "/admin/pgqueue/deadletter/?queue=default&channel=acme&redriven=no",
        "/admin/pgqueue/archivedmessage/?queue=default&channel=acme&age=hour",
        "/admin/pgqueue/deadletter/?queue=default&redriven=no",
    ):
        assert link in links
    for link in links:
        assert admin_client.get(link).status_code == 200
    dead = admin_client.get("/admin/pgqueue/deadletter/?queue=default&channel=acme&redriven=no").content.decode()
    assert dead.count('class="action-select"') == 2


def test_dead_letters_are_no_problem_any_more_once_they_are_redriven(admin_client: Client) -> None:
    working()
    letters = make_dead(3)
    measure(AT_ONCE)
    settled(minutes=1, completed=7, dead=3)
    settled(minutes=10, completed=7, dead=3)
    html = look(admin_client)
    assert "In queue default 3 messages died within an hour (30 % of all)." in shown(html)
    assert MARKED.search(html)
    redrive([letter.id for letter in letters[1:]])
    assert "In queue default 1 message died within an hour (10 % of all)." in shown(look(admin_client))
    assert 'age=hour">1</a>' in look(admin_client)
    redrive(letters[0].id)
    measure(AT_ONCE)
    html = look(admin_client)
    assert "died within an hour" not in shown(html)
    assert "Nothing is wrong." in shown(html)
    # No column counts them, and no link would show them.
    assert not MARKED.search(html)
    assert "/deadletter/?" not in html


def test_messages_that_an_operator_has_discarded_are_no_problem(admin_client: Client) -> None:
    working()
    discard([enqueue("h").id for _ in range(3)])
    measure(AT_ONCE)
    html = shown(look(admin_client))
    assert "died within an hour" not in html
    assert "Nothing is wrong." in html


def test_the_dashboard_shows_problems_first(admin_client: Client) -> None:
    make_dead()
    channel_set(channel="acme", max_concurrency=1)
    for _ in range(3):
        enqueue("h", channel="acme")
    dequeue(limit=1)
    Schedule.objects.create(name="nightly", handler="h", cron="@daily", last_error="no such channel")
    working(heartbeat_at=timezone.now() - timedelta(minutes=3))
    measure(AT_ONCE)
    settled(minutes=1, completed=9, dead=1, retries=9)
    verdict = shown(look(admin_client)).partition("Queues")[0]
    for sentence in (
        "Queue default has no worker, and 2 messages wait.",
        "In queue default 1 message died within an hour (10 % of all).",
        "9 attempts failed within an hour; messages settled: 10.",
        "1 worker is silent",
        "1 schedule fails.",
        "Channel default/acme is at its limit (1 of 1 at once), and 2 messages wait for it.",
    ):
        assert sentence in verdict


def test_when_nothing_is_wrong_it_says_so(admin_client: Client) -> None:
    working()
    enqueue("h")
    measure(AT_ONCE)
    assert "Nothing is wrong." in shown(look(admin_client))


def test_a_message_that_waits_too_long_is_an_alert(admin_client: Client) -> None:
    working()
    enqueue("h")
    measure(AT_ONCE)
    Backlog.objects.update(oldest_at=timezone.now() - timedelta(minutes=90))
    assert "In queue default a message has waited for 1 h 30 min." in shown(look(admin_client))


def test_long_waits_for_a_shared_limit_and_behind_a_failing_message_are_alerts(admin_client: Client) -> None:
    working()
    channel_set(channel="invoices", ordered=True)
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    enqueue("h", limits=["stripe"])
    for _ in range(2):
        enqueue("h", channel="invoices")
    [failing] = dequeue(limit=5)
    retry(failing, errors=[{}], delays=[timedelta(hours=1)])
    assert "stripe" not in shown(look(admin_client)).partition("Queues")[0]
    pass_time(minutes=10)
    measure(AT_ONCE)
    html = look(admin_client)
    verdict = shown(html).partition("Queues")[0]
    assert "A message has waited for the shared limit stripe for 10 min" in verdict
    assert ": it is paused." in verdict
    assert f"Message {failing.id} has held the ordered channel default/invoices for 10 min" in verdict
    assert "attempts: 1 of 5." in verdict
    assert '/admin/pgqueue/message/?queue=default&amp;waits_for=limit">1</a>' in html


def test_messages_that_wait_for_a_limit_count_for_a_queue_without_worker(admin_client: Client) -> None:
    limit_set("stripe", max_concurrency=1)
    limit_pause("stripe", reason="down")
    enqueue("h", limits=["stripe"])
    measure(AT_ONCE)
    assert "Queue default has no worker, and 1 message waits." in shown(look(admin_client))


def test_a_long_wait_for_a_paused_handler_names_the_handler(admin_client: Client) -> None:
    working()
    handler_pause("mail.send", reason="down")
    enqueue("mail.send")
    assert dequeue() == []
    pass_time(minutes=10)
    measure(AT_ONCE)
    html = look(admin_client)
    assert "A message has waited for the handler mail.send for 10 min" in shown(html)
    assert "/admin/pgqueue/sharedlimit/?q=handler+mail.send" in html


def test_an_open_breaker_is_an_alert_that_leads_to_it(admin_client: Client) -> None:
    working()
    breaker_set("mail.send", Breaker(pause=timedelta(hours=1)))
    breaker_open("mail.send")
    html = look(admin_client)
    assert "The breaker of mail.send has been open for" in shown(html)
    assert '"/admin/pgqueue/sharedlimit/?q=mail.send"' in html


def test_pauses_are_shown(admin_client: Client) -> None:
    enqueue("h")
    queue_pause("default", reason="the disk is full")
    channel_pause(channel="default")
    working(paused_at=timezone.now())
    measure(AT_ONCE)
    html = look(admin_client)
    assert "Queue default is paused, and 1 message waits." in shown(html)
    assert "1 worker is paused." in shown(html)
    assert "the disk is full" in row(html, "default")


def test_figures_that_are_old_are_called_so(admin_client: Client) -> None:
    measure(AT_ONCE)
    connection.cursor().execute("UPDATE pgqueue_measurement SET measured_at = measured_at - interval '5 minutes'")
    assert "These figures are 5 min old: no worker runs maintenance." in shown(look(admin_client))


@cases(
    ("order", "first"),
    [
        ("backlog", "line"), ("oldest", "old"), ("dead", "dead"), ("errors", "errors"), ("busy", "busy"),
        ("limits", "full"), ("name", "aaa"), ("nonsense", "line"),
    ],
)  # fmt: skip
def test_channels_come_in_the_order_that_was_asked_for(order: str, first: str, admin_client: Client) -> None:
    for name in ("line", "old", "dead", "errors", "busy", "aaa"):
        channel_set(channel=name)
    channel_set(channel="full", max_size=2)
    now = timezone.now()
    for name, ready, dead, minutes in (("line", 9, 0, 1), ("old", 1, 0, 9), ("dead", 0, 9, 0), ("full", 2, 0, 1)):
        oldest_at = now - timedelta(minutes=minutes) if ready else None
        Backlog.objects.create(
            queue="default",
            channel=name,
            ready=ready,
            leased=0,
            scheduled=0,
            waiting_for_limit=0,
            waiting_for_order_key=0,
            blocked=0,
            dead=dead,
            oldest_at=oldest_at,
        )
    settled("errors", minutes=10, completed=1, dead=3)
    settled("busy", minutes=10, completed=99)
    table = look(admin_client, order=order).partition('id="pgqueue-channels"')[2]
    assert re.search(r'/channel/\d+/tenant/">([^<]+)<', table)[1] == first


def test_channels_are_found_by_a_part_of_their_name_and_page_by_page(admin_client: Client) -> None:
    for place in range(45):
        channel_set(channel=f"shop{place:02}")
    channel_set(channel="other", queue="mail")

    def names(**query: object) -> list[str]:
        return re.findall(r'/channel/\d+/tenant/">([^<]+)<', look(admin_client, order="name", **query))

    assert names(q="hop") == [f"shop{place:02}" for place in range(20)]
    assert names(q="hop", p=2) == [f"shop{place:02}" for place in range(40, 45)]
    assert names(queue="mail") == ["other"]
    assert names(q="%") == []
    assert "q=hop&amp;order=name&amp;p=1" in look(admin_client, order="name", q="hop")


def test_the_part_is_what_the_page_shows(admin_client: Client) -> None:
    response = admin_client.get(ADDRESS, headers={"X-Pgqueue-Part": "1"})
    part = response.content.decode()
    assert part.startswith("<section")
    assert "<html" not in part
    assert "no-store" in response["Cache-Control"]
