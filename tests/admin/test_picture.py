"""The picture of what hangs together, on the pages of messages and batches."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from django_pgqueue import NewMessage, complete, dead_letter, dequeue, enqueue, enqueue_many
from django_pgqueue.flow import Batch
from tests.admin.conftest import Page, address

pytestmark = pytest.mark.django_db

Pages = Callable[..., str]


def row(html: str, place: str) -> str:
    """Return one row of the picture, or an empty text."""
    found = re.search(rf'<li class="pgqueue-{place}">(.*?)</li>', html, re.DOTALL)
    return found[1] if found else ""


def texts(html: str) -> list[str]:
    """Return the text of each box."""
    boxes = html.split('<span class="pgqueue-box">')[1:]
    return [" ".join(re.sub(r"<[^>]*>", " ", each).split()) for each in boxes]


def test_a_message_is_between_its_batch_and_what_waits_for_it(page: Pages) -> None:
    first = enqueue("extract")
    with Batch(on_done="done", on_dead="mourn") as batch:
        middle = enqueue("load", after=[first])
    last = enqueue("mail <canary>", after=[middle])

    html = page("message", middle.id)

    assert texts(row(html, "batch")) == [f"batch {batch.id} running"]
    assert texts(row(html, "awaited")) == [f"{first.id} extract ready"]
    assert texts(row(html, "this")) == [f"{middle.id} load blocked"]
    assert texts(row(html, "waiter")) == [f"{last.id} mail &lt;canary&gt; blocked"]
    assert sorted(texts(row(html, "follower"))) == ["done if all are done", "mourn if one is lost"]
    for model, pk in (("batchrecord", batch.id), ("message", first.id), ("message", last.id)):
        assert f'href="{address(model, pk)}"' in html
    assert Page(html).canaries() == []


def test_a_batch_is_between_its_outer_one_and_what_follows(page: Pages) -> None:
    with Batch() as outer, Batch(on_dead="mourn") as batch:
        for _ in range(3):
            enqueue("member")
    one, two = dequeue(limit=2)
    complete(one)
    dead_letter(two, reason="refused")

    html = page("batchrecord", batch.id)
    assert texts(row(html, "batch")) == [f"batch {outer.id} running"]
    [left] = dequeue()
    assert texts(row(html, "member")) == [f"{two.id} member dead letter", f"{left.id} member ready"]
    assert texts(row(html, "follower")) == ["mourn if one is lost"]

    complete(left)
    html = page("batchrecord", batch.id)
    [follower] = dequeue()
    assert texts(row(html, "follower")) == [f"{follower.id} mourn ready"]
    complete(follower)
    assert texts(row(page("batchrecord", batch.id), "follower")) == [f"{follower.id} mourn completed"]
    assert texts(row(page("batchrecord", batch.id), "this")) == [f"batch {batch.id} over"]


def test_a_message_alone_has_no_picture(page: Pages) -> None:
    message = enqueue("alone").id
    assert "pgqueue-picture" not in page("message", message)


def test_a_row_ends_after_thirty_boxes(page: Pages) -> None:
    first = enqueue("first")
    enqueue_many(NewMessage(handler="waits", after=[first]) for _ in range(35))
    html = row(page("message", first.id), "waiter")
    assert len(texts(html)) == 30
    assert "and more" in html


def test_links_lead_only_to_pages_that_the_user_may_view(staff: Callable[..., Client]) -> None:
    with Batch(on_dead="mourn") as batch:
        member, lost = enqueue("member"), enqueue("member")
    waiting = enqueue("waits", after=[member])
    dead_letter([each for each in dequeue(limit=2) if each.id == lost.id], reason="no")

    messages, batches = staff("view_message"), staff("view_batchrecord")

    html = messages.get(address("message", member.id)).text
    assert "href" not in row(html, "batch")
    assert address("message", waiting.id) in row(html, "waiter")
    html = batches.get(address("batchrecord", batch.id)).text
    assert address("message", member.id) not in html
    assert address("deadletter", lost.id) not in html
    assert f"{lost.id}" in row(html, "member")
