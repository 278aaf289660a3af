"""The page of a message shows its steps, and has a button that notifies the event that it waits for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from django_pgqueue import complete, dequeue, discard, enqueue, handler
from django_pgqueue.delivery import Delivery
from django_pgqueue.flow import Steps, steps_of
from django_pgqueue.testing import drain
from tests.admin.conftest import act, address

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers_restored")]

Pages = Callable[..., str]


def waiting(work: Callable[[Steps], Any]) -> int | None:
    @handler("job")
    def _job(delivery: Delivery[Any]) -> None:
        work(steps_of(delivery))

    message = enqueue("job").id
    drain()
    return message


def test_a_message_shows_its_steps_also_as_a_dead_letter(page: Pages) -> None:
    message = waiting(lambda step: [step("charge", lambda: "<b>" * 100), step.sleep("a day", timedelta(days=1))])
    for text in (page("message", message), (discard(message), page("deadletter", message))[1]):
        assert "charge" in text
        assert "&lt;b&gt;&lt;b&gt;" in text
        assert text.count("&lt;b&gt;") < 70, "the result is cut"
        assert "a day" in text


def test_a_message_without_steps_has_no_table(page: Pages) -> None:
    message = enqueue("other").id
    assert "kept at" not in page("message", message)
    [delivery] = dequeue()
    complete(delivery)
    assert "kept at" not in page("archivedmessage", message)


def test_the_button_notifies_the_event(admin_client: Client, page: Pages) -> None:
    found: list[Any] = []
    message = waiting(lambda step: found.append(step.wait("approved <7>")))
    text = page("message", message)
    assert 'Notify "approved &lt;7&gt;"' in text.replace("&quot;", '"')
    assert "It waits for the event" in text
    posted = {"action": "notify_event", "confirmed": "yes", "payload": '{"by": "Ada"}'}
    answer = admin_client.post(address("message", message), posted, follow=True).content.decode()
    assert "1 message goes on." in answer
    drain()
    assert found == [{"by": "Ada"}]


def test_a_message_that_does_not_wait_has_no_button(admin_client: Client, page: Pages) -> None:
    message = waiting(lambda step: step.sleep("a day", timedelta(days=1)))
    assert 'value="notify_event"' not in page("message", message)
    act(admin_client, "message", "notify_event", message, confirmed="yes", payload="")
    assert "1 message does not wait for an event." in page("message")


def test_the_button_needs_the_permission(staff: Callable[..., Client]) -> None:
    message = waiting(lambda step: step.wait("approved"))
    posted = {"action": "notify_event", "confirmed": "yes", "payload": ""}
    assert staff("view_message").post(address("message", message), posted).status_code == 403
    assert staff("view_message", "reschedule_message").post(address("message", message), posted).status_code == 302
