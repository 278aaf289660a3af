"""The buttons on the page of an object in a browser, under a strict policy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_pgqueue import enqueue
from django_pgqueue.models import Channel, DeadLetter, Message
from tests.admin.browser.chromium import Tab
from tests.admin.conftest import VIEW, make_dead

pytestmark = pytest.mark.django_db(transaction=True)

LogIn = Callable[..., None]
BUTTONS = "[...document.querySelectorAll('.pgqueue-actions button')]"
TEXTS = f"{BUTTONS}.map(button => button.textContent)"
HERE = "location.pathname + location.search"


def page(model: str, pk: int) -> str:
    return f"/admin/pgqueue/{model}/{pk}/change/"


def push(tab: Tab, script: str, until: str) -> None:
    """Click, and wait until the next page says so."""
    tab.run(f"{script}.click()")
    tab.until(f"document.readyState === 'complete' && document.body.textContent.includes({until!r})")


def button(text: str) -> str:
    return f"{BUTTONS}.find(button => button.textContent === {text!r})"


def test_a_message_is_retried_and_edited_from_its_page(tab: Tab, site: str, log_in: LogIn) -> None:
    sent = enqueue("mail.send", {"to": "x"}, delay=timedelta(hours=1))
    address = page("message", sent.id)
    log_in()
    tab.open(site + address)
    assert tab.run(TEXTS) == ["Retry now", "Reschedule", "Edit the payload", "Cancel", "Discard"]
    push(tab, button("Retry now"), "whatever their back-off says")
    push(tab, "document.querySelector('.submit-row input')", "1 message is ready now.")
    assert tab.run(HERE) == address
    assert tab.run(TEXTS) == ["Reschedule", "Edit the payload", "Cancel", "Discard"]
    push(tab, button("Edit the payload"), "The message keeps its place")
    tab.run("document.querySelector('textarea').value = '[1, 2]'")
    push(tab, "document.querySelector('.submit-row input')", "The payload is replaced.")
    assert Message.objects.get().payload == [1, 2]
    assert tab.complaints() == []


def test_a_dead_letter_is_deleted_and_the_list_follows(tab: Tab, site: str, log_in: LogIn) -> None:
    error = {"type": "KeyError", "message": "'currency'", "traceback": "Traceback …"}
    [letter] = make_dead(payload={"fare": 12}, details=error)
    address = page("deadletter", letter.pk)
    log_in()
    tab.open(f"{site}{address}?_changelist_filters=redriven%3Dno")
    assert tab.run(TEXTS) == ["Redrive", "Redrive with another payload", "Delete for good"]
    push(tab, button("Delete for good"), "No redrive brings them back")
    push(tab, "document.querySelector('.closelink')", "KeyError")
    assert DeadLetter.objects.exists()
    push(tab, button("Delete for good"), "No redrive brings them back")
    push(tab, "document.querySelector('.submit-row input')", "1 dead letter is deleted.")
    assert tab.run(HERE) == "/admin/pgqueue/deadletter/?redriven=no"
    assert tab.complaints() == []


def test_enter_in_a_field_of_a_channel_saves_and_does_nothing_else(tab: Tab, site: str, log_in: LogIn) -> None:
    channel = Channel.objects.get()
    log_in()
    tab.open(site + page("channel", channel.pk))
    assert tab.run(TEXTS) == ["Pause", "Purge", "Release", "Erase"]
    tab.run("document.getElementById('id_max_size').focus()")
    tab.call("Input.insertText", text="7")
    for kind in ("keyDown", "keyUp"):
        tab.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
    tab.until("document.readyState === 'complete' && document.body.textContent.includes('was changed successfully')")
    channel.refresh_from_db()
    assert (channel.max_size, channel.paused_at, channel.released_at) == (7, None, None)


@pytest.mark.parametrize("width", [360, 1440])
def test_the_buttons_fit_into_the_window(width: int, tab: Tab, site: str, log_in: LogIn) -> None:
    sent = enqueue("mail.send", delay=timedelta(hours=1))
    log_in()
    tab.size(width)
    tab.open(site + page("message", sent.id))
    edges = f"{BUTTONS}.map(button => button.getBoundingClientRect()).map(box => [box.left, box.right])"
    assert all(0 <= left < right <= width for left, right in tab.run(edges))
    covered = (
        f"{BUTTONS}.filter(button => {{ const box = button.getBoundingClientRect(); return button !== "
        "document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2); }).length"
    )
    assert tab.run(covered) == 0


def test_a_user_who_may_only_look_finds_no_button(tab: Tab, site: str, log_in: LogIn) -> None:
    sent = enqueue("mail.send")
    log_in(*VIEW)
    tab.open(site + page("message", sent.id))
    assert tab.run("document.body.textContent").count(f"mail.send #{sent.id}")
    assert tab.run(TEXTS) == []
    assert tab.run("document.querySelector('#pgqueue-actions')") is None
