"""The pages of shared limits, and what a message's page says of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client

from django_pgqueue import Limit, dequeue, enqueue, limit_pause, limit_set
from django_pgqueue import limits as declarations
from django_pgqueue.admin import counts
from django_pgqueue.models import Message, SharedLimit
from tests.admin.conftest import act, address, logged, notices
from tests.support.cases import cases
from tests.support.sql import sql

Pages = Callable[..., str]


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = dict(declarations._declared)
    yield
    declarations._declared.clear()
    declarations._declared.update(before)


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def handlers_of(limit: int) -> list[str]:
    return counts.handlers_of_limit(limit, using="default")


def posted(**changed: str) -> dict[str, str]:
    blank = {"max_concurrency": "", "max_cost": "", "release_interval": "", "release_burst": "1", "handlers": ""}
    return {"name": "stripe", **blank, **changed}


def test_the_list_shows_places_cost_tokens_and_what_waits(page: Pages) -> None:
    limit = limit_set("stripe", max_concurrency=2, max_cost=1000, rate="1/h burst 50")
    for _ in range(5):
        enqueue("h", limits=["stripe"], cost=7)
    assert len(dequeue(limit=10)) == 2

    row = words(page("sharedlimit"))

    assert "stripe open 2 of 2 14 of 1,000 36 of 50 3 1 per 1\N{NO-BREAK SPACE}h, burst 50".replace(
        "\N{NO-BREAK SPACE}", " "
    ) in row.replace("\N{NO-BREAK SPACE}", " ")
    assert f"?waits_for={limit}" in page("sharedlimit")


def test_counts_stop_at_their_bound(page: Pages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "MOST_COUNTED", 3)
    limit_set("stripe", max_concurrency=1)
    for _ in range(9):
        enqueue("h", limits=["stripe"])
    assert len(dequeue(limit=10)) == 1
    assert "1 of 1 - - 3+ -" in words(page("sharedlimit"))


def test_a_lease_that_was_settled_or_taken_back_takes_no_place(page: Pages) -> None:
    limit_set("stripe", max_concurrency=5)
    for _ in range(3):
        enqueue("h", limits=["stripe"])
    assert len(dequeue(limit=10)) == 3
    last = Message.objects.latest("pk").pk
    sql("UPDATE pgqueue_message SET leased_at = leased_at + interval '1 ms' WHERE id = %s", last)
    assert "2 of 5" in words(page("sharedlimit"))


def test_the_list_of_messages_is_filtered_by_the_limit_they_wait_for(admin_client: Client) -> None:
    limit = limit_set("stripe", max_concurrency=1)
    ids = [enqueue("h", limits=["stripe"]).id for _ in range(3)]
    enqueue("h", delay=timedelta(hours=1))
    leased = {delivery.id for delivery in dequeue(limit=10)}
    response = admin_client.get(address("message"), {"waits_for": limit})
    assert {message.pk for message in response.context["cl"].result_list} == set(ids) - leased
    assert "stripe" in response.content.decode()
    for wrong in ("x", "9" * 30, "-1"):
        assert not admin_client.get(address("message"), {"waits_for": wrong}).context["cl"].result_list


def test_pause_asks_for_a_reason_and_resume_ends_it(admin_client: Client) -> None:
    limit = limit_set("stripe", max_concurrency=2)
    enqueue("h", limits=["stripe"])
    text = act(admin_client, "sharedlimit", "pause", limit).content.decode()
    assert 'name="reason"' in text
    assert "No more messages that have these limits are delivered" in text
    response = act(admin_client, "sharedlimit", "pause", limit, confirmed="yes", reason="Stripe is down", minutes="5")
    assert notices(response) == "1 shared limit is paused."
    assert dequeue() == []
    row = SharedLimit.objects.get()
    assert row.pause_reason == "Stripe is down"
    assert row.paused_until is not None
    assert "Stripe is down" in admin_client.get(address("sharedlimit")).content.decode()
    assert notices(act(admin_client, "sharedlimit", "resume", limit)) == "1 shared limit is resumed."
    assert len(dequeue()) == 1
    assert [text for _object, text, _user in logged()][1] == "Resumed."


def test_states_are_filtered(admin_client: Client) -> None:
    for name in ("open", "paused"):
        limit_set(name)
    limit_pause("paused")
    for state, names in (("open", ["open"]), ("paused", ["paused"]), ("x", ["open", "paused"])):
        listed = admin_client.get(address("sharedlimit"), {"state": state}).context["cl"].result_list
        assert [limit.name for limit in listed] == names


def test_a_limit_is_added_with_its_handlers(admin_client: Client) -> None:
    given = posted(max_concurrency="3", release_interval="00:00:10", release_burst="4", handlers="mail.send\n\nh \nh")
    assert admin_client.post(f"{address('sharedlimit')}add/", given).status_code == 302
    limit = SharedLimit.objects.get()
    assert (limit.name, limit.max_concurrency, limit.max_cost) == ("stripe", 3, None)
    assert (limit.release_interval, limit.release_burst) == (timedelta(seconds=10), 4)
    assert handlers_of(limit.pk) == ["h", "mail.send"]
    assert [name for name, _text, _user in logged()] == ["stripe"]


def test_an_edit_changes_what_was_edited_and_keeps_a_pause_of_another_user(admin_client: Client) -> None:
    limit = limit_set("stripe", max_concurrency=2, handlers=["h"])
    assert ">h</textarea>" in admin_client.get(address("sharedlimit", limit)).content.decode().replace("\n", "")
    limit_pause("stripe", reason="incident")
    given = posted(max_concurrency="5", handlers="h\nmail", name="other", paused_at="")
    assert admin_client.post(address("sharedlimit", limit), given).status_code == 302
    row = SharedLimit.objects.get()
    assert (row.name, row.max_concurrency, row.pause_reason) == ("stripe", 5, "incident")
    assert handlers_of(limit) == ["h", "mail"]
    assert logged() == [("stripe", "max_concurrency: 2 → 5; handlers: h → h, mail", "admin")]
    assert admin_client.post(address("sharedlimit", limit), posted(handlers="h\nmail")).status_code == 302
    assert SharedLimit.objects.get().max_concurrency is None


@cases(
    ("wrong", "text"),
    [
        ({"max_concurrency": "0"}, "greater than or equal to 1"),
        ({"max_cost": "-5"}, "greater than or equal to 1"),
        ({"release_burst": "0"}, "greater than or equal to 1"),
        ({"release_interval": "00:00:00"}, "Give a time longer than zero"),
        ({"handlers": "x" * 201}, "The name of a handler has 200 characters at most."),
    ],
)
def test_a_wrong_value_is_explained(admin_client: Client, wrong: dict[str, str], text: str) -> None:
    limit = limit_set("stripe", max_concurrency=2)
    response = admin_client.post(address("sharedlimit", limit), posted(**wrong))
    assert response.status_code == 200
    assert text in unescape(response.content.decode())
    assert SharedLimit.objects.get().max_concurrency == 2


def test_a_declared_limit_cannot_be_edited_and_says_where_it_is_made(admin_client: Client) -> None:
    Limit("stripe", max_concurrency=2)
    limit = limit_set("stripe", max_concurrency=2, handlers=["h"])
    text = admin_client.get(address("sharedlimit", limit)).content.decode()
    assert "in code or in the setting LIMITS; a worker that starts writes it again" in text
    assert 'name="max_concurrency"' not in text
    assert 'name="handlers"' not in text
    assert "Handlers: h" in words(text)
    admin_client.post(address("sharedlimit", limit), posted(max_concurrency="9"))
    assert SharedLimit.objects.get().max_concurrency == 2


@pytest.mark.parametrize("way", ["page", "list"])
def test_a_deleted_limit_holds_no_message(admin_client: Client, way: str) -> None:
    limit = limit_set("stripe", max_concurrency=1, handlers=["h"])
    for _ in range(3):
        enqueue("h")
    assert len(dequeue(limit=10)) == 1
    if way == "page":
        admin_client.post(address("sharedlimit", limit).replace("/change/", "/delete/"), {"post": "yes"})
    else:
        act(admin_client, "sharedlimit", "delete_selected", limit, post="yes")
    assert not SharedLimit.objects.exists()
    assert sql("SELECT count(*) FROM pgqueue_limit_handler") == [(0,)]
    assert sum(len(dequeue(limit=10)) for _ in range(3)) == 2


def test_a_message_shows_its_limits_by_name_and_what_it_waits_for(page: Pages) -> None:
    stripe = limit_set("stripe", max_concurrency=1)
    openai = limit_set("openai", handlers=["h"])
    ids = [enqueue("h", limits=["stripe"], cost=1200).id for _ in range(2)]
    [leased] = dequeue(limit=10)
    [waiting] = set(ids) - {leased.id}

    text = page("message", waiting)

    assert address("sharedlimit", stripe) in text
    assert address("sharedlimit", openai) in text
    shown = words(text)
    assert "Limits openai , stripe Waits for stripe" in shown
    assert "1200" in shown
    assert "waits for a limit" in shown
    assert "Retry now" not in shown
    assert "Waits for" not in words(page("message", leased.id))


def test_a_message_whose_limit_was_dropped_shows_no_limit(page: Pages) -> None:
    limit_set("stripe", max_concurrency=1)
    for _ in range(2):
        enqueue("h", limits=["stripe"])
    assert len(dequeue(limit=10)) == 1
    SharedLimit.objects.all().delete()
    waiting = Message.objects.filter(status=Message.Status.SCHEDULED).get()
    shown = words(page("message", waiting.pk))
    assert "Limits" not in shown.replace("Shared limits", "")
    assert "Waits for" not in shown
