"""The story of one message: each attempt and its result, its trace and its lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_pgqueue import complete, dead_letter, dequeue, enqueue, redrive, retry, sweep
from django_pgqueue.admin.story import RedriveEntry, redrive_history
from django_pgqueue.lifecycle.logs import keep_logs
from django_pgqueue.models import DeadLetter
from tests.admin.conftest import Page, address, make_dead
from tests.support.cases import cases

Pages = Callable[..., str]
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}


def fail(worker: str, message: str = "no route") -> int:
    [delivery] = dequeue(worker=worker)
    error = {"type": "OSError", "message": message, "traceback": "line 7", "frame": "send"}
    retry(delivery, errors=[error], delays=[timedelta(0)])
    sweep()
    return delivery.id


def story(text: str) -> str:
    """The timeline of a page, without its tags."""
    return text.split('<ol class="pgqueue-story">')[1].split("</ol>")[0]


def in_order(text: str, *words: str) -> bool:
    """Each word somewhere behind the one before."""
    place = 0
    for word in words:
        place = text.find(word, place)
        if place < 0:
            return False
        place += len(word)
    return True


def test_what_each_attempt_has_logged_is_with_it_and_never_as_html(page: Pages) -> None:
    enqueue("mail.send")
    fail("host-1")
    done = dequeue(worker="host-2")
    complete(done)
    for attempt, text in ((1, "first <b>"), (2, "before a sleep"), (2, "second")):
        keep_logs([replace(done[0], attempt=attempt, token=uuid4())], [text])
    steps = story(page("archivedmessage", done[0].id))
    assert in_order(
        steps, "completed", "log of attempt 2", "before a sleep", "log of attempt 2", "second", "Attempt 1 failed",
        "log of attempt 1", "first &lt;b&gt;", "enqueued",
    )  # fmt: skip


def test_a_completed_message_tells_what_happened_from_the_end_to_the_beginning(page: Pages) -> None:
    enqueue("mail.send")
    fail("host-1")
    fail("host-2", "refused")
    done = dequeue(worker="host-3")
    complete(done)
    steps = story(page("archivedmessage", done[0].id))
    assert in_order(
        steps, "completed", "attempt 3 of 5", "host-3", "waited", "ran", "Attempt 2 failed", "host-2",
        "OSError: refused", "Attempt 1 failed", "host-1", "OSError: no route", "line 7", "send", "enqueued",
    )  # fmt: skip


def test_a_dead_letter_ends_with_its_reason(page: Pages) -> None:
    enqueue("mail.send")
    fail("host-1")
    dead = dequeue(worker="host-2")
    dead_letter(dead, reason="no_such_address")
    steps = story(page("deadletter", dead[0].id))
    assert in_order(steps, "dead letter: no_such_address", "attempt 2 of 5", "host-2", "Attempt 1 failed", "enqueued")


def test_an_attempt_that_failed_as_the_last_is_shown_once(page: Pages) -> None:
    enqueue("mail.send", max_attempts=1)
    steps = story(page("deadletter", fail("host-1")))
    assert in_order(steps, "dead letter: failed", "Attempt 1 failed", "host-1", "enqueued")
    assert steps.count("host-1") == 1


def test_interruptions_are_steps_of_their_own(page: Pages) -> None:
    enqueue("mail.send", max_attempts=1)
    [delivery] = dequeue(worker="host-1")
    retry(
        delivery, errors=[{"type": "WorkerStopped", "message": "SIGTERM"}], delays=[timedelta(0)], max_interruptions=2
    )
    sweep()
    assert in_order(story(page("message", delivery.id)), "Interruption 1", "host-1", "WorkerStopped", "enqueued")
    [again] = dequeue(worker="host-2")
    complete(again)
    steps = story(page("archivedmessage", again.id))
    assert in_order(steps, "completed", "attempt 1 of 1", "host-2", "Interruption 1", "host-1", "enqueued")


def test_a_live_message_says_where_it_is(page: Pages) -> None:
    later = enqueue("mail.send", delay=timedelta(hours=1)).id
    assert in_order(story(page("message", later)), "scheduled", "due", "enqueued")
    enqueue("mail.send")
    [held] = dequeue(worker="host-1")
    assert in_order(story(page("message", held.id)), "leased", "attempt 1 of 5", "host-1", "lease until", "enqueued")


def test_the_lives_before_and_after_a_redrive_are_linked(page: Pages) -> None:
    [first] = make_dead()
    second = redrive([first.pk])[first.pk]
    dead_letter(dequeue(), reason="refused")
    third = redrive([second])[second]
    for model, pk in (("deadletter", first.pk), ("deadletter", second), ("message", third)):
        text = page(model, pk)
        places = [f"{first.pk}, dead letter", f"{second}, dead letter", f"{third}, message"]
        shown = [place if str(pk) not in place else f"<strong>{pk}, this one</strong>" for place in places]
        assert in_order(text.split("field-redrives")[1], *shown), model
    assert f'href="{address("deadletter", second)}"' in page("message", third)
    complete(dequeue())
    assert f"{third}, archived message" in page("deadletter", first.pk)
    DeadLetter.objects.filter(pk=first.pk).delete()
    assert f"{first.pk}, gone" in page("deadletter", second)
    assert f"redriven from {second}" in story(page("archivedmessage", third))


def test_lives_are_looked_up_in_one_query_and_never_in_a_circle() -> None:
    [letter] = make_dead()
    DeadLetter.objects.filter(pk=letter.pk).update(redriven_from=letter.pk, redriven_to=letter.pk)
    with CaptureQueriesContext(connection) as captured:
        found = redrive_history(letter.pk, letter.pk, using="default")
    assert len(captured) == 1
    assert len(found) == 100
    assert found[0] == RedriveEntry(letter.pk, -50, "deadletter")
    assert redrive_history(None, None, using="default") == []


def links(text: str) -> list[str]:
    return [attributes["href"] or "" for tag, attributes in Page(text).tags if tag == "a" and "href" in attributes]


def test_the_trace_is_linked_where_the_setting_says(page: Pages, settings: Any) -> None:
    pk = enqueue("mail.send", headers=PARENT).id
    assert TRACE not in story(page("message", pk))
    settings.DJANGO_PGQUEUE = {"TRACE_URL": "https://jaeger.example.org/trace/{trace_id}?span={span_id}"}
    assert f"https://jaeger.example.org/trace/{TRACE}?span=00f067aa0ba902b7" in links(story(page("message", pk)))


@cases(
    "headers", [None, {}, {"traceparent": '"><script>'}, {"traceparent": 7}, {"traceparent": f"00-{TRACE.upper()}-0-1"}]
)
def test_headers_without_a_valid_trace_are_not_linked(
    page: Pages, settings: Any, headers: Mapping[str, Any] | None
) -> None:
    settings.DJANGO_PGQUEUE = {"TRACE_URL": "https://jaeger.example.org/trace/{trace_id}"}
    assert not [link for link in links(page("message", enqueue("h", headers=headers).id)) if "jaeger" in link]


def test_headers_that_python_cannot_read_have_no_trace(admin_client: Client, settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"TRACE_URL": "https://jaeger.example.org/trace/{trace_id}"}
    pk = enqueue("h").id
    with connection.cursor() as cursor:
        cursor.execute("UPDATE pgqueue_message SET headers = jsonb_build_object('n', repeat('9', 5000)::numeric)")
    assert admin_client.get(address("message", pk)).status_code == 200
