"""Shared limits in a browser, under a strict policy: the list, the page of one, and a pause by its button."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_pgqueue import channel_set, dequeue, enqueue, limit_set
from django_pgqueue.models import SharedLimit
from tests.admin.browser.chromium import Tab
from tests.admin.browser.test_object_actions import TEXTS, button, page, push

pytestmark = pytest.mark.django_db(transaction=True)

LogIn = Callable[..., None]
ROW = "document.querySelector('#result_list tbody tr').innerText.split(/\\s+/).join(' ')"


def test_a_limit_is_listed_edited_and_paused(tab: Tab, site: str, log_in: LogIn) -> None:
    channel_set(channel="default")
    limit = limit_set("stripe", max_concurrency=2, max_cost=5000, rate="1/h burst 50", handlers=["mail.send"])
    sent = [enqueue("mail.send", cost=7).id for _ in range(5)]
    assert len(dequeue(limit=10)) == 2
    log_in()
    tab.open(f"{site}/admin/pgqueue/sharedlimit/")
    assert "stripe open 2 of 2 14 of 5,000 36 of 50 3 1 per 1 h, burst 50" in tab.run(ROW)
    tab.run("document.querySelector('.field-waiting a').click()")
    tab.until("document.readyState === 'complete' && location.search.includes('waits_for')")
    assert tab.run("document.querySelectorAll('#result_list tbody tr').length") == 3

    tab.open(site + page("message", sent[-1]))
    assert "stripe" in tab.run("document.querySelector('.field-waits_for_shown').innerText")
    tab.open(site + page("sharedlimit", limit))
    assert tab.run(TEXTS) == ["Pause", "Forgive the debt"]
    tab.run("document.querySelector('#id_max_concurrency').value = '3'")
    push(tab, "document.querySelector('[name=_continue]')", "was changed successfully")
    assert SharedLimit.objects.get().max_concurrency == 3
    push(tab, button("Pause"), "No more messages that have these limits are delivered")
    tab.run("document.querySelector('[name=reason]').value = 'Stripe is down'")
    push(tab, "document.querySelector('.submit-row input')", "1 shared limit is paused.")
    assert SharedLimit.objects.get().pause_reason == "Stripe is down"
    assert tab.run(TEXTS) == ["Resume", "Forgive the debt"]
    assert tab.complaints() == []
