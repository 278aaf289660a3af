"""The dashboard: what it says, to whom, and at which cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_pgqueue import (
    channel_pause,
    channel_set,
    dequeue,
    enqueue,
    limit_pause,
    limit_set,
    measure,
    queue_pause,
    retry,
)
from django_pgqueue.models import Activity, Backlog, Schedule, Worker
from tests.admin.conftest import Page, make_dead
from tests.support.moments import pass_time

ADDRESS = "/admin/pgqueue/dashboard/"
AT_ONCE = timedelta(0)


def look(client: Client, **query: object) -> str:
    response = client.get(ADDRESS, query)
    assert response.status_code == 200, response
    return response.content.decode()


def shown(html: str) -> str:
    """The text that a reader sees."""
    words = re.sub(r"<(title|desc)[ >].*?</\1>|<[^>]+>", " ", html.partition('id="pgqueue-part"')[2], flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(words).replace("\N{NO-BREAK SPACE}", " "))


def row(html: str, name: str) -> str:
    """The first line of a table that begins with this name; queues come before channels."""
    lines = [shown('id="pgqueue-part"' + line) for line in html.split("<tr>")]
    return next(line for line in lines if re.match(rf"\s*{re.escape(name)} ", line))


def settled(name: str | None = None, *, minutes: int, ago: timedelta = AT_ONCE, **figures: Any) -> None:
    """As if it had been measured."""
    at = timezone.now().replace(second=0, microsecond=0) - ago
    at -= timedelta(minutes=at.minute % minutes)
    given = {"completed": 0, "cancelled": 0, "dead": 0, "retries": 0, "waits": [], "runs": []} | figures
    Activity.objects.create(queue="default", channel=name, minutes=minutes, bucket_at=at, **given)


def working(name: str = "w1", **values: Any) -> Worker:
    given = {"hostname": "h", "pid": 1, "queues": ["default"], "concurrency": 8, "version": "1"}
    return Worker.objects.create(name=name, **given | values)


def histogram(place: int, count: int = 1) -> list[int]:
    return [0] * (place - 1) + [count]


def test_staff_without_the_permission_neither_see_it_nor_a_link_to_it(staff: Callable[..., Client]) -> None:
    client = staff("view_channel")
    assert client.get(ADDRESS).status_code == 403
    assert ADDRESS not in client.get(reverse("admin:index")).content.decode()


def test_it_is_not_seen_without_a_login() -> None:
    response = Client().get(ADDRESS)
    assert (response.status_code, response["Location"]) == (302, f"/admin/login/?next={ADDRESS}")


def test_the_permission_shows_it_and_the_link(staff: Callable[..., Client]) -> None:
    client = staff("view_dashboard")
    assert "Queues" in look(client)
    assert ADDRESS in client.get(reverse("admin:index")).content.decode()


def test_a_user_who_may_only_see_the_dashboard_gets_no_links_to_other_pages(staff: Callable[..., Client]) -> None:
    enqueue("h")
    make_dead()
    working(running=[{"id": 7, "seconds": 3.0, "seconds_left": None}])
    measure(AT_ONCE)
    links = re.findall(r'href="(/admin/pgqueue/[^"]+)"', look(staff("view_dashboard")))
    assert set(links) <= {ADDRESS}
    assert "/admin/pgqueue/message/?" in look(staff("view_dashboard", "view_message"))


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_it_changes_nothing_whatever_is_sent(method: str, staff: Callable[..., Client]) -> None:
    enqueue("h")
    client = staff("view_dashboard")
    getattr(client, method)(
        ADDRESS, {"action": "delete_selected", "_selected_action": "1"}, content_type="application/json"
    )
    for page in ("add/", "1/change/", "1/delete/"):
        assert client.post(ADDRESS + page, {}).status_code in (403, 404)
    assert connection.cursor().execute("SELECT count(*) FROM pgqueue_message").fetchone() == (1,)


def test_before_the_first_measurement_it_says_so(admin_client: Client) -> None:
    connection.cursor().execute("DELETE FROM pgqueue_measurement")
    assert "There are no figures yet" in shown(look(admin_client))


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
    assert re.search(r"default 3 \d[\d.]* m?s 2 1 0 , 0 0 ", of_queue)
    assert "30 1,230" in of_queue
    assert "1 4" in of_queue
    # Half of a position of the histogram: 2 ** 9.75 ms, of the day 2 ** 14.75 ms.
    assert "861 ms" in of_queue
    assert "27.6 s" in of_queue
    of_channel = row(html, "acme")
    assert "2/4 at once 6/10 held" in of_channel
    assert "7 77" in of_channel


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


def test_the_dashboard_shows_problems_first(admin_client: Client) -> None:
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "query", [{"q": "a\0b"}, {"queue": "\0"}, {"p": "-1"}, {"p": "9" * 30}, {"p": "²"}, {"q": "x" * 9999}]
)
def test_nonsense_in_the_address_is_no_error(query: dict[str, str], admin_client: Client) -> None:
    look(admin_client, **query)


def test_the_queries_are_as_many_with_a_hundred_channels_and_workers_as_with_one(admin_client: Client) -> None:
    look(admin_client)

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            look(admin_client)
        return len(captured)

    few = queries()
    for place in range(100):
        channel_set(channel=f"shop{place}", queue=f"queue{place % 30}", max_concurrency=2)
        enqueue("h", channel=f"shop{place}", queue=f"queue{place % 30}")
        working(f"w{place}", running=[{"id": place, "seconds": 1.0, "seconds_left": None}])
        Schedule.objects.create(name=f"s{place}", handler="h", cron="@daily")
        settled(f"shop{place}", minutes=60, completed=1)
    measure(AT_ONCE)
    assert queries() == few
    assert few <= 22


def test_the_part_is_what_the_page_shows(admin_client: Client) -> None:
    response = admin_client.get(ADDRESS, headers={"X-Pgqueue-Part": "1"})
    part = response.content.decode()
    assert part.startswith("<section")
    assert "<html" not in part
    assert "no-store" in response["Cache-Control"]


def test_names_of_others_are_text_and_nothing_is_inline(admin_client: Client) -> None:
    evil = '"><canary canary onclick=x>'
    channel_set(channel=evil, queue=evil[:90])
    enqueue("h", channel=evil, queue=evil[:90])
    queue_pause(evil[:90], reason=evil)
    working(evil, queues=[evil], running=[{"id": "<canary>", "seconds": evil}, evil, {"id": 1, "seconds": 2}])
    Schedule.objects.create(name=evil, handler=evil, cron="@daily", last_error=evil)
    measure(AT_ONCE)
    for query in ({}, {"queue": evil[:90]}, {"q": evil}, {"order": evil}):
        found = Page(look(admin_client, **query))
        assert found.canaries() == []
        assert found.inline_code() == []
