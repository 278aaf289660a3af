"""The page of one channel in a browser: under a strict policy, wide and narrow, with a button that works."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_pgqueue.models import Channel
from tests.admin.browser.chromium import Tab
from tests.admin.browser.demo_tenant import NAME, QUEUE, fill_tenant

pytestmark = pytest.mark.django_db(transaction=True)

LogIn = Callable[..., None]
TABLES = ("spans", "leases", "letters")
HIDDEN = "[...document.querySelectorAll('.pgqueue-wide')].map(box => box.scrollWidth - box.clientWidth)"


def page(channel: Channel) -> str:
    return f"/admin/pgqueue/channel/{channel.pk}/tenant/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_cut_off(width: int, scheme: str, tab: Tab, site: str, log_in: LogIn) -> None:
    channel = fill_tenant()
    log_in()
    tab.size(width)
    tab.scheme(scheme)
    tab.open(site + page(channel))
    for table in TABLES:
        assert tab.run(f"document.querySelectorAll('#pgqueue-{table} tbody tr').length") >= 3, table
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert max(tab.run(HIDDEN)) <= 1
    assert tab.run("document.querySelectorAll('.pgq-chart svg').length") == 4
    assert tab.run("document.querySelectorAll('#pgqueue-limits svg.pgq-meter').length") == 3
    assert tab.complaints() == []


def test_a_narrow_page_names_each_figure(tab: Tab, site: str, log_in: LogIn) -> None:
    channel = fill_tenant()
    log_in()
    tab.size(400)
    tab.open(site + page(channel))
    cells = "[...document.querySelectorAll('.pgqueue-stack td')]"
    assert tab.run(f"{cells}.length") > 50
    assert tab.run(f"{cells}.filter(cell => !getComputedStyle(cell, '::before').content.match(/[a-z]/)).length") == 0


def test_a_channel_is_paused_on_its_page(tab: Tab, site: str, log_in: LogIn) -> None:
    channel = fill_tenant()
    log_in()
    tab.open(f"{site}/admin/pgqueue/channel/named/?queue={QUEUE}&channel={NAME}")
    assert tab.run("location.pathname") == page(channel)
    tab.run("document.querySelector('.pgqueue-actions button').click()")
    tab.until("document.readyState === 'complete' && document.getElementById('id_reason') !== null")
    tab.run("document.getElementById('id_reason').value = 'their server is down'")
    tab.run("document.querySelector('.submit-row input').click()")
    tab.until("document.readyState === 'complete' && document.body.textContent.includes('1 channel is paused.')")
    assert tab.run("location.pathname") == page(channel)
    assert "their server is down" in tab.run("document.querySelector('.pgqueue-facts').textContent")
    assert tab.run("document.querySelector('.pgqueue-actions button').textContent") == "Resume"
    assert tab.complaints() == []
