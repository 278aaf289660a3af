"""Lists in a browser: they refresh themselves unless the reader is at work in them, and obey a few keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from django_pgqueue import channel_set, enqueue
from django_pgqueue.models import Channel, DeadLetter
from tests.admin.browser.chromium import Tab
from tests.admin.conftest import make_dead

pytestmark = pytest.mark.django_db(transaction=True)

LogIn = Callable[..., None]
MESSAGES = "/admin/pgqueue/message/"
LETTERS = "/admin/pgqueue/deadletter/"
ROWS = "document.querySelectorAll('#result_list tbody tr').length"
FETCHES = "performance.getEntriesByType('resource').filter(entry => entry.initiatorType === 'fetch').length"
CURRENT = "[...document.querySelectorAll('#result_list tbody tr')].findIndex(row => row.matches(':focus-within'))"
HELP = "document.getElementById('pgqueue-keys').open"


def press(tab: Tab, *keys: str) -> None:
    for key in keys:
        for kind in ("keyDown", "keyUp"):
            tab.call("Input.dispatchKeyEvent", type=kind, key=key, text=key if len(key) == 1 else "")


def test_a_list_refreshes_itself_and_its_boxes_still_count(tab: Tab, site: str, log_in: LogIn) -> None:
    first = enqueue("mail.send").id
    log_in()
    tab.open(site + MESSAGES)
    press(tab, "j")
    enqueue("mail.send", {"customer": 42})
    tab.until(f"{ROWS} === 2")
    assert "2 messages" in tab.run("document.querySelector('#changelist-form').textContent")
    # The row that the keys had chosen is chosen still, although another one is before it now.
    assert tab.run("document.activeElement.getAttribute('href')").startswith(f"{MESSAGES}{first}/")
    tab.run("document.querySelector('tbody input.action-select').click()")
    tab.until("document.querySelector('.action-counter').textContent.startsWith('1 of 2')")
    tab.run("document.getElementById('action-toggle').click()")
    tab.until("document.querySelector('.action-counter').textContent.startsWith('2 of 2')")
    assert tab.complaints() == []


@pytest.mark.parametrize(
    ("use", "leave"),
    [
        ("document.querySelector('tbody input.action-select').click()",) * 2,
        ("document.querySelector('select[name=action]').value = 'cancel'",
         "document.querySelector('select[name=action]').value = ''"),
        ("document.querySelector('select[name=action]').focus()", "document.activeElement.blur()"),
        ("document.getElementById('pgqueue-refresh').click()",) * 2,
    ],
    ids=["ticked", "chosen", "focused", "switched off"],
)  # fmt: skip
def test_a_list_in_use_stays(use: str, leave: str, tab: Tab, site: str, log_in: LogIn) -> None:
    enqueue("mail.send")
    log_in()
    tab.open(site + MESSAGES)
    tab.run(use)
    time.sleep(0.3)  # a fetch that was under way
    before = tab.run(FETCHES)
    enqueue("mail.send")
    time.sleep(2.5)
    assert (tab.run(ROWS), tab.run(FETCHES)) == (1, before)
    tab.run(leave)
    tab.until(f"{ROWS} === 2")


def test_keys_go_through_the_rows_and_open_one(tab: Tab, site: str, log_in: LogIn) -> None:
    sent = [enqueue("mail.send", delay=timedelta(hours=1)).id for _ in range(3)]
    log_in()
    tab.open(site + MESSAGES)
    press(tab, "j", "j", "j", "j")
    assert tab.run(CURRENT) == 2
    press(tab, "k")
    assert tab.run(CURRENT) == 1
    press(tab, "o")
    tab.until(f"location.pathname === '{MESSAGES}{sorted(sent)[1]}/change/'")


def test_a_key_redrives_the_ticked_letters_or_else_the_current_one(tab: Tab, site: str, log_in: LogIn) -> None:
    make_dead(3)
    log_in()
    tab.open(site + LETTERS)
    press(tab, "r")  # no row is chosen: nothing happens
    press(tab, "j", "r")
    tab.until("document.body?.textContent.includes('Each becomes a new message')")
    tab.run("document.querySelector('.submit-row input').click()")
    tab.until("document.body?.textContent.includes('1 dead letter is redriven.')")
    assert DeadLetter.objects.filter(redriven_at=None).count() == 2
    assert DeadLetter.objects.exclude(redriven_at=None).get() == DeadLetter.objects.latest("pk")


def test_a_key_pauses_the_current_channel(tab: Tab, site: str, log_in: LogIn) -> None:
    channel_set(channel="acme")
    log_in()
    tab.open(site + "/admin/pgqueue/channel/?q=acme")
    press(tab, "j", "p")
    tab.until("document.querySelector('#id_reason') !== null")
    tab.run("document.querySelector('#id_reason').value = 'why'")
    tab.run("document.querySelector('.submit-row input').click()")
    tab.until("document.querySelector('#result_list') !== null && location.search === '?q=acme'")
    assert Channel.objects.get(name="acme").pause_reason == "why"


def test_keys_are_explained_and_do_nothing_while_one_types(tab: Tab, site: str, log_in: LogIn) -> None:
    enqueue("mail.send")
    log_in()
    tab.open(site + MESSAGES)
    tab.run("document.getElementById('searchbar').focus()")
    press(tab, "j", "?")
    assert tab.run("document.getElementById('searchbar').value") == "j?"
    assert not tab.run(HELP)
    tab.run("document.activeElement.blur()")
    press(tab, "?")
    assert tab.run(HELP)
    assert "redrive" in tab.run("document.getElementById('pgqueue-keys').textContent")
    tab.run("document.querySelector('#pgqueue-keys form button').click()")
    assert not tab.run(HELP)
    assert tab.complaints() == []
