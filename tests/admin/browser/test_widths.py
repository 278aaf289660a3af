"""A small screen shows the columns and minutes that matter: lists at 1,280 px, charts at 400 px."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from django_pgqueue import channel_pause, channel_set, complete, dead_letter, dequeue, enqueue, limit_pause, limit_set
from django_pgqueue.models import Worker
from tests.admin.browser.chromium import Tab
from tests.admin.browser.test_dashboard import PAGE, fill_dashboard
from tests.support.sql import sql

pytestmark = pytest.mark.django_db(transaction=True)

LogIn = Callable[..., None]
HANDLER = "shop.notifications.send_order_confirmation_mail"
CHANNEL = "globex-international-customer-4711"
QUEUE = "mails_and_newsletters"
WORKER = "web-7.prod.example.org:4711:23d5a965"
ERROR = {"type": "shop.errors.PaymentDeclined", "message": "The card was declined by the bank of the customer."}
# Headings of a list that can be seen without scrolling.
SEEN = """
(() => {
    const edge = document.querySelector("#changelist .results").getBoundingClientRect().right;
    return [...document.querySelectorAll("#result_list thead th")]
        .filter(head => head.getBoundingClientRect().right <= edge + 1)
        .map(head => (head.querySelector('.text') ?? head).textContent.trim().toLowerCase());
})()
"""


@pytest.fixture
def _messages() -> Iterator[None]:
    """With names and ids as long as real ones, in each list."""
    [(last,)] = sql("SELECT nextval('pgqueue_message_id_seq')")
    sql("SELECT setval('pgqueue_message_id_seq', 123456789)")
    channel_set(channel=CHANNEL)
    for _ in range(12):
        enqueue(HANDLER, channel=CHANNEL)
    taken = dequeue(limit=9, worker=WORKER)
    complete(taken[:3])
    dead_letter(taken[3:6], reason="failed", details=ERROR)
    Worker.objects.create(
        name=WORKER, hostname="web-7.prod.example.org", pid=4711, queues=["default", "mails"], concurrency=8,
        version="1", running=[{"id": taken[6].id, "seconds": 2.5, "seconds_left": None}], memory_bytes=50 << 20,
        started_at=timezone.now(), heartbeat_at=timezone.now() - timedelta(minutes=5),
    )  # fmt: skip
    limits: dict[str, Any] = {
        "max_concurrency": 300,
        "max_size": 100_000,
        "rate": "50/s burst 20",
        "archive": "outcome",
    }
    channel_set(channel=CHANNEL, **limits)
    channel_set(channel=CHANNEL, queue=QUEUE, ordered=True, on_dead="pause", **limits | {"max_concurrency": 1})
    end = timezone.now() + timedelta(days=2)
    channel_pause(channel=CHANNEL, queue=QUEUE, reason="message 4711123 became a dead letter (failed)", until=end)
    limit_set("stripe.com/charges-of-all-customers", max_concurrency=20, rate="100/s burst 50", max_cost=100_000)
    limit_pause("stripe.com/charges-of-all-customers", reason="down for maintenance", until=end)
    enqueue(HANDLER, channel=CHANNEL, delay=timedelta(hours=1))
    for _ in range(2):
        enqueue(HANDLER, channel=CHANNEL, order_key="invoice-7")
    yield
    sql("SELECT setval('pgqueue_message_id_seq', %s)", last)


@pytest.mark.usefixtures("_messages")
@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        ("archivedmessage", {"id", "outcome", "handler, channel", "attempts", "waited", "ran", "archived"}),
        ("deadletter", {"id", "redriven", "handler, channel", "reason", "attempts", "died"}),
        ("message/?status__exact=2", {"id", "status", "handler, channel", "attempts", "due", "lease"}),
        ("worker", {"name", "alive", "state", "queues", "busy", "last heartbeat", "memory"}),
        ("sharedlimit", {"name", "state", "places taken", "cost in flight", "tokens", "waiting", "rate"}),
        ("channel", {"name, queue", "state", "ready", "leased", "waiting", "limits"}),
    ],
)
def test_the_columns_that_decide_are_seen(page: str, wanted: set[str], tab: Tab, site: str, log_in: LogIn) -> None:
    log_in()
    tab.size(1280)
    tab.open(f"{site}/admin/pgqueue/{page}" if "?" in page else f"{site}/admin/pgqueue/{page}/")
    assert tab.run("document.querySelector('#nav-sidebar').getBoundingClientRect().width") > 100
    assert tab.run("document.querySelector('#changelist-filter').getBoundingClientRect().width") > 100
    assert wanted - set(tab.run(SEEN)) == set()


@pytest.mark.usefixtures("_messages")
@pytest.mark.parametrize("page", ["archivedmessage", "deadletter"])
def test_a_row_is_one_line_and_a_message_fits_a_small_screen(page: str, tab: Tab, site: str, log_in: LogIn) -> None:
    log_in()
    tab.size(1920)
    tab.open(f"{site}/admin/pgqueue/{page}/")
    heights = "[...document.querySelectorAll('#result_list tbody tr')].map(row => row.getBoundingClientRect().height)"
    assert max(tab.run(heights)) < 40
    tab.size(400)
    tab.open(site + tab.run("document.querySelector('#result_list tbody th a').getAttribute('href')"))
    assert tab.run("document.documentElement.scrollWidth") <= 400


@pytest.mark.usefixtures("_messages")
def test_the_figures_of_a_queue_are_seen(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.size(1280)
    tab.open(site + PAGE)
    names = "[...document.querySelectorAll('.pgqueue-wide tbody th')].map(name => name.textContent.trim())"
    assert QUEUE in tab.run(names)
    hidden = "[...document.querySelectorAll('.pgqueue-wide')].map(box => box.scrollWidth - box.clientWidth)"
    assert max(tab.run(hidden)) <= 1


def test_a_narrow_chart_shows_the_newest_minutes_and_the_axis_of_values(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.size(400)
    tab.open(site + PAGE)
    shown: list[dict[str, Any]] = tab.run(
        "[...document.querySelectorAll('.pgqueue-charts .pgq-scroll')].map(box => ({"
        "box: box.getBoundingClientRect().right, chart: box.querySelector('svg').getBoundingClientRect().right,"
        "hidden: box.scrollWidth - box.clientWidth,"
        "axis: box.querySelector('.pgq-tick').getBoundingClientRect().right}))"
    )
    assert len(shown) == 4
    for place in shown:
        assert place["hidden"] > 50, "it fits, and nothing has to be scrolled"
        assert abs(place["box"] - place["chart"]) <= 1
        assert place["box"] - 60 < place["axis"] <= place["box"]


def test_a_chart_stays_where_the_reader_has_scrolled_it(tab: Tab, site: str, log_in: LogIn) -> None:
    fill_dashboard()
    log_in()
    tab.size(400)
    tab.open(site + PAGE)
    tab.run("document.querySelector('.pgqueue-charts .pgq-scroll').scrollLeft = -60")
    tab.run("document.querySelector('.pgq-scroll').dataset.old = 'yes'")
    tab.until("!document.querySelector('.pgq-scroll').dataset.old")
    assert tab.run("document.querySelector('.pgqueue-charts .pgq-scroll').scrollLeft") == -60
