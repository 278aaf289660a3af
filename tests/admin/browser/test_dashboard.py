"""The dashboard in a browser: under a strict policy, refreshing by itself, in light and dark, with hostile names."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from django_pgqueue import channel_set, enqueue, measure
from django_pgqueue.models import Activity, DeadLetter, Message, Schedule, Worker
from tests.admin.browser.chromium import Chromium, Tab
from tests.admin.conftest import make_dead

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = "/admin/pgqueue/dashboard/"
READY = "document.querySelector('#pgqueue-queues tbody td').textContent.trim()"
STATUS = "document.getElementById('pgqueue-status')"
EVIL = "<img src=x onerror='window.canary=1'><script>window.canary=1</script>\"'><svg onload=window.canary=1>"
LogIn = Callable[..., None]


def fill_dashboard() -> None:
    """Something in every part of the page."""
    channel_set(channel="acme", max_concurrency=3, max_size=100)
    for _ in range(20):
        enqueue("mail.send", channel="acme")
    make_dead(2)
    Worker.objects.create(
        name="w1",
        hostname="h",
        pid=1,
        queues=["default"],
        concurrency=8,
        version="1",
        running=[{"id": 1, "seconds": 2.5}],
    )
    Schedule.objects.create(name="nightly", handler="h", cron="@daily", next_fire_at=timezone.now())
    measure(timedelta(0))
    now = timezone.now().replace(second=0, microsecond=0)
    for name, minutes in ((None, 1), (None, 10), ("acme", 10), ("acme", 60)):
        first = now - timedelta(minutes=now.minute % minutes)
        for place in range(1, 50):
            Activity.objects.get_or_create(
                queue="default",
                channel=name,
                minutes=minutes,
                bucket_at=first - place * timedelta(minutes=minutes),
                defaults={
                    "completed": 50 + place,
                    "cancelled": 1,
                    "dead": place % 3,
                    "retries": 2,
                    "waits": [0] * 9 + [place],
                    "runs": [0] * 15 + [50],
                },
            )


def test_it_works_under_a_strict_policy(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.open(site + PAGE)
    assert tab.run("document.querySelectorAll('.pgq-chart svg').length") == 4
    assert tab.run("document.querySelectorAll('svg.pgq-sparkline').length") >= 2
    assert tab.run("document.querySelectorAll('svg.pgq-meter').length") == 2
    # Its own script ran: what needs it is shown.
    tab.until("!document.querySelector('.pgqueue-refresh').hidden")
    assert tab.run("document.title").startswith("(")
    assert tab.complaints() == []


def test_a_policy_that_is_broken_would_be_noticed(tab: Tab, site: str, log_in: LogIn) -> None:
    log_in()
    tab.open(site + PAGE)
    tab.run("document.body.insertAdjacentHTML('beforeend', '<p style=color:red onclick=window.canary=1>')")
    tab.run("document.body.lastElementChild.click()")
    assert any("Content Security Policy" in complaint for complaint in tab.complaints())
    assert tab.run("window.canary === undefined")


def test_light_and_dark_follow_the_reader(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    seen = {}
    for scheme in ("light", "dark"):
        tab.scheme(scheme)
        tab.open(site + PAGE)
        parts = "['body', '.pgq-tick', '.pgqueue-verdict li', '.pgqueue-is-bad']"
        styles = f"{parts}.map(name => getComputedStyle(document.querySelector(name)))"
        seen[scheme] = tab.run(f"{styles}.map(style => style.backgroundColor + style.color + style.fill)")
    assert all(light != dark for light, dark in zip(seen["light"], seen["dark"], strict=True)), seen


@pytest.mark.parametrize("width", [360, 800, 1440])
def test_the_page_is_never_wider_than_the_window(width: int, tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.size(width)
    tab.open(site + PAGE)
    assert tab.run("document.documentElement.scrollWidth") <= width


def test_it_refreshes_by_itself_and_keeps_the_place_of_the_reader(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.size(500)
    tab.open(site + PAGE)
    tab.run("document.querySelector('#pgqueue-channels tbody a').focus({preventScroll: true})")
    tab.run("document.getElementById('pgqueue-queues').scrollLeft = 40")
    before = tab.run(READY)
    enqueue("mail.send", channel="acme")
    measure(timedelta(0))
    tab.until(f"{READY} !== {before!r}")
    assert tab.run(READY) == str(int(before) + 1)
    assert tab.run("document.activeElement.closest('#pgqueue-channels') !== null")
    assert tab.run("document.getElementById('pgqueue-queues').scrollLeft") == 40
    assert tab.complaints() == []


def test_it_rests_while_it_is_hidden_and_catches_up(tab: Tab, chromium: Chromium, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.open(site + PAGE)
    asked = "performance.getEntriesByType('resource').filter(entry => entry.initiatorType === 'fetch').length"
    tab.until(f"{asked} >= 1")
    tab.call("Emulation.setFocusEmulationEnabled", enabled=False)
    other = chromium.tab()
    chromium.call("Target.activateTarget", targetId=other.target)
    tab.until("document.hidden")
    time.sleep(1.5)  # what was under way when it was hidden
    before = tab.run(asked)
    time.sleep(2.5)
    assert tab.run(asked) == before
    other.close()
    chromium.call("Target.activateTarget", targetId=tab.target)
    tab.until(f"!document.hidden && {asked} > {before}")


def test_the_user_can_stop_the_refresh(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.open(site + PAGE)
    tab.run("document.getElementById('pgqueue-refresh').click()")
    before = tab.run(READY)
    enqueue("mail.send", channel="acme")
    measure(timedelta(0))
    time.sleep(2.5)
    assert tab.run(READY) == before


def test_when_it_cannot_refresh_it_says_so_and_tries_on(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.open(site + PAGE)
    Session.objects.all().delete()
    tab.until(f"!{STATUS}.hidden")
    assert "you are logged out" in tab.run(f"{STATUS}.textContent")
    assert "Not refreshed since" in tab.run(f"{STATUS}.textContent")
    # The charts of the page are still there.
    assert tab.run("document.querySelectorAll('.pgq-chart svg').length") == 4
    log_in()
    tab.until(f"{STATUS}.hidden")


def test_hostile_names_run_nothing_on_any_page(tab: Tab, site: str, log_in: LogIn) -> None:
    channel_set(channel=EVIL, queue=EVIL[:99])
    error = {"type": EVIL, "message": EVIL, "traceback": EVIL}
    [letter] = make_dead(handler=EVIL, channel=EVIL, queue=EVIL[:99], details=error, reason=EVIL)
    enqueue(EVIL, {"key": EVIL}, channel=EVIL, queue=EVIL[:99])
    Worker.objects.create(name=EVIL, hostname=EVIL, pid=1, queues=[EVIL], concurrency=1, version=EVIL[:50])
    Schedule.objects.create(name=EVIL, handler=EVIL, cron="@daily", last_error=EVIL)
    measure(timedelta(0))
    log_in()
    message = Message.objects.get()
    assert DeadLetter.objects.get() == letter
    for page in (
        PAGE,
        f"/admin/pgqueue/message/{message.pk}/change/",
        f"/admin/pgqueue/deadletter/{letter.pk}/change/",
        f"/admin/pgqueue/channel/{message.channel_id}/change/",
        f"/admin/pgqueue/channel/{message.channel_id}/tenant/",
        "/admin/pgqueue/channel/",
        "/admin/pgqueue/worker/",
        "/admin/pgqueue/schedule/",
    ):
        tab.open(site + page)
        assert "onerror" in tab.run("document.body.textContent"), page
        assert tab.run("window.canary === undefined && !document.querySelector('img[src=x], svg[onload]')"), page
    # Also what a refresh has brought.
    tab.open(site + PAGE)
    tab.until("performance.getEntriesByType('resource').some(entry => entry.initiatorType === 'fetch')")
    time.sleep(0.3)
    assert tab.run("window.canary === undefined && !document.querySelector('img[src=x], svg[onload]')")
    assert tab.complaints() == []


def test_a_user_who_may_only_see_it_finds_nothing_to_press(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in("view_dashboard")
    tab.open(site + PAGE)
    forms = "[...document.querySelectorAll('#content form')].map(form => form.method)"
    assert tab.run(forms) == ["get"]
    assert tab.run(
        "[...document.querySelectorAll('#pgqueue-part a')]"
        ".every(link => link.search && link.pathname === location.pathname)"
    )
    log_in("view_message")
    tab.open(site + PAGE)
    assert "403" in tab.run("document.title + document.body.textContent")
