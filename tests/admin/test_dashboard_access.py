"""The dashboard: who sees it, that it changes nothing, what it does with names of others, and how many queries it
makes."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_pgqueue import channel_set, enqueue, measure, queue_pause
from django_pgqueue.models import Schedule
from tests.admin.conftest import Page, make_dead
from tests.admin.dashboard_page import ADDRESS, AT_ONCE, look, settled, working
from tests.support.cases import cases


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


@cases("method", ["post", "put", "patch", "delete"])
def test_it_changes_nothing_whatever_is_sent(method: str, staff: Callable[..., Client]) -> None:
    enqueue("h")
    client = staff("view_dashboard")
    getattr(client, method)(
        ADDRESS, {"action": "delete_selected", "_selected_action": "1"}, content_type="application/json"
    )
    for page in ("add/", "1/change/", "1/delete/"):
        assert client.post(ADDRESS + page, {}).status_code in (403, 404)
    assert connection.cursor().execute("SELECT count(*) FROM pgqueue_message").fetchone() == (1,)


@cases("query", [{"q": "a\0b"}, {"queue": "\0"}, {"p": "-1"}, {"p": "9" * 30}, {"p": "²"}, {"q": "x" * 9999}])
def test_nonsense_in_the_address_is_no_error(query: dict[str, str], admin_client: Client) -> None:
    look(admin_client, **query)


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


def test_the_queries_are_as_many_with_a_hundred_channels_and_workers_as_with_one(admin_client: Client) -> None:
    look(admin_client)

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            look(admin_client)
        return len(captured)

    make_dead()
    few = queries()
    for place in range(100):
        channel_set(channel=f"shop{place}", queue=f"queue{place % 30}", max_concurrency=2)
        enqueue("h", channel=f"shop{place}", queue=f"queue{place % 30}")
        working(f"w{place}", running=[{"id": place, "seconds": 1.0, "seconds_left": None}])
        Schedule.objects.create(name=f"s{place}", handler="h", cron="@daily")
        settled(f"shop{place}", minutes=60, completed=1)
    measure(AT_ONCE)
    assert queries() == few
    assert few <= 23
