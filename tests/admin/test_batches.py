"""The pages of batches: how far each is, its members by state, and what followed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from django_pgqueue import NewMessage, cancel, channel_set, complete, dead_letter, dequeue, enqueue
from django_pgqueue.flow import Batch, progress
from tests.admin.conftest import Page, address

pytestmark = pytest.mark.django_db

Pages = Callable[..., str]


def test_a_batch_shows_its_members_by_state_with_links(page: Pages) -> None:
    with Batch(on_done="done", on_dead="dead") as outer:
        for _ in range(4):
            enqueue("member")
        later = enqueue("member", delay=timedelta(hours=1)).id
        gone = enqueue("member", delay=timedelta(hours=1)).id
        blocked = enqueue("member", after=[later]).id
        with Batch() as inner:
            enqueue("member")
    first, second, leased = dequeue(limit=3)
    complete(first)
    dead_letter(second, reason="refused")
    cancel(gone)

    text = page("batchrecord", outer.id)

    for row in (
        "done</td><td>1",
        "dead</td><td>1",
        "cancelled</td><td>1",
        "leased</td><td>1",
        "scheduled</td><td>1",
        "blocked</td><td>1",
    ):
        assert row in text
    for model, pk in (
        ("message", later),
        ("message", blocked),
        ("message", leased.id),
        ("deadletter", second.id),
        ("archivedmessage", gone),
    ):
        assert f'href="{address(model, pk)}"' in text
    assert f'href="{address("batchrecord", inner.id)}"' in text
    assert f'href="{address("batchrecord", outer.id)}"' in page("batchrecord", inner.id)
    assert "running" in page("batchrecord")


def test_what_followed_is_linked_wherever_it_is(page: Pages) -> None:
    with Batch(on_done="done") as batch:
        pass
    [follower] = dequeue()
    assert f'href="{address("message", follower.id)}"' in page("batchrecord", batch.id)
    complete(follower)
    assert f'href="{address("archivedmessage", follower.id)}"' in page("batchrecord", batch.id)
    assert "over" in page("batchrecord")


def test_a_refusal_is_shown_and_is_no_part_of_the_page(page: Pages) -> None:
    with Batch(on_done=NewMessage(handler="done", channel="<canary>")) as refused:
        pass
    channel_set(channel="small", max_size=1)
    enqueue("member", channel="small")
    with Batch(on_done=NewMessage(handler="done", channel="small")) as full:
        pass
    for text in (page("batchrecord"), page("batchrecord", full.id)):
        assert "waits for room" in text
        assert Page(text).canaries() == []
    assert "&lt;canary&gt;" in page("batchrecord", refused.id)


def test_a_batch_is_seen_with_the_permission_alone_and_never_changed(
    staff: Callable[..., Client], admin_client: Client
) -> None:
    with Batch() as batch:
        enqueue("member")
    assert staff().get(address("batchrecord")).status_code == 403
    assert staff("view_batchrecord").get(address("batchrecord", batch.id)).status_code == 200
    assert admin_client.post(address("batchrecord", batch.id), {"total": 5}).status_code == 403
    assert admin_client.get(reverse("admin:pgqueue_flow_batchrecord_add")).status_code == 403


def test_a_message_that_waits_shows_what_it_waits_for(page: Pages) -> None:
    first, second = enqueue("first"), enqueue("second")
    waiting = enqueue("waits", after=[first, second], on_dead="wait")
    [delivery, _] = dequeue(limit=2)
    dead_letter(delivery, reason="refused")

    text = page("message", waiting.id)

    assert "blocked" in text
    assert f'href="{address("deadletter", first.id)}"' in text
    assert f'href="{address("message", second.id)}"' in text
    assert "It waits for 2 of 2 message(s)" in text
    assert f">{waiting.id}<" in page("message", waits_for="messages")
    assert f"/{-waiting.id}/" not in page("batchrecord")


def test_the_page_of_a_message_shows_its_progress_also_in_the_archive(page: Pages) -> None:
    answer = enqueue("job")
    bar = '<progress value="31.0" max="40.0"></progress>'
    assert bar not in page("message", answer.id)
    [delivery] = dequeue()
    progress(delivery, 31, of=40, note="rows <b>")
    text = page("message", answer.id)
    assert bar in text
    assert "31 / 40" in text
    assert "rows &lt;b&gt;" in text
    complete(delivery)
    assert bar in page("archivedmessage", answer.id)
