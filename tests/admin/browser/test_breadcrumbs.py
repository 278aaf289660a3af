"""The way back on the pages of our own looks as on the pages that Django makes, on each version of Django."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_pgqueue import channel_set
from django_pgqueue.models import Channel
from tests.admin.browser.chromium import Tab

pytestmark = pytest.mark.django_db(transaction=True)

LIST = "/admin/pgqueue/channel/"
LOOKS = """
(() => {
    const way = document.querySelector('.breadcrumbs'), link = way.querySelector('a');
    const style = (node, names) => names.map(name => getComputedStyle(node)[name]);
    return JSON.stringify([
        way.tagName, style(way, ['backgroundColor', 'color', 'paddingLeft', 'paddingTop', 'fontSize']),
        way.getBoundingClientRect().height, style(link, ['color', 'fontSize', 'textDecorationLine', 'display']),
    ]);
})()
"""
TEXTS = "document.querySelector('.breadcrumbs').textContent.replace(/›/g, ' ').replace(/\\s+/g, ' ').trim()"


def confirm(tab: Tab, click: str) -> None:
    tab.run(click)
    tab.until("document.readyState == 'complete' && document.body.className.includes('pgqueue-confirmation')")


def test_they_look_as_those_of_django(tab: Tab, site: str, log_in: Callable[..., None]) -> None:
    channel_set(channel="acme")
    page = f"{LIST}{Channel.objects.get(name='acme').pk}/change/"
    log_in()
    tab.open(site + LIST)
    looks = tab.run(LOOKS)

    tab.open(site + "/admin/pgqueue/dashboard/")
    assert tab.run(LOOKS) == looks
    assert tab.run(TEXTS) == "Home PostgreSQL queue Dashboard"

    tab.open(site + page.replace("/change/", "/tenant/"))
    assert tab.run(LOOKS) == looks
    assert tab.run(TEXTS) == "Home PostgreSQL queue Channels default/acme"

    tab.open(site + page)
    confirm(tab, "document.querySelector('.pgqueue-actions button').click()")
    assert tab.run(LOOKS) == looks
    assert tab.run(TEXTS) == "Home Channels default/acme Pause channels"

    tab.open(site + LIST)
    tab.run("document.querySelectorAll('input.action-select').forEach(box => box.checked = true)")
    tab.run("document.querySelector('select[name=action]').value = 'pause'")
    confirm(tab, "document.querySelector('button[name=index]').click()")
    assert tab.run(LOOKS) == looks
    assert tab.run(TEXTS) == "Home Channels Pause channels"
