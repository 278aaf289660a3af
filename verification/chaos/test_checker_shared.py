"""A violation is seen, and reported with its invariant and its place: shared limits."""

from __future__ import annotations

from verification.chaos.checker import check
from verification.chaos.history.events import READY, SCHEDULED
from verification.chaos.story import Story, lived, only, violated


def limited(story: Story, *messages: int, limits: tuple[int, ...] = (1,), **detail: int) -> None:
    """Messages with shared limits, each on a channel of its own. ``detail``: more of each, such as its cost."""
    for message in messages:
        story.channel(message)
        story.create(message, channel=message, detail={"limits": list(limits), **detail})


def test_i20_more_leases_than_the_shared_limit_allows() -> None:
    story = Story()
    story.limit(1, max_concurrency=1)
    limited(story, 1, 2)
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert only(story, "I20") == "limit limit 1: 2 leases after transaction 107, 1 allowed"


def test_i20_more_leases_in_one_transaction() -> None:
    story = Story()
    story.limit(1, max_concurrency=2)
    limited(story, 1, 2, 3)
    with story.transaction():
        for message in (1, 2, 3):
            story.lease(message, f"token of {message}")
    story.complete(1, 2, 3)
    assert "3 leases" in only(story, "I20")


def test_i20_each_end_of_a_lease_frees_its_place() -> None:
    story = Story()
    story.limit(1, max_concurrency=1)
    limited(story, 1, 2, 3)
    story.lease(1, "a")
    story.give_back(1)
    story.lease(2, "b")
    story.dead_letter(2)
    story.serve(3, 1)
    assert violated(story) == {}
    assert [verdict.checked for verdict in check(story.history()) if verdict.name == "I20"] == [4]


def test_i20_a_lease_that_expired_keeps_its_place() -> None:
    story = Story()
    story.limit(1, max_concurrency=1)
    limited(story, 1, 2)
    story.lease(1, "a")
    story.wait(11)
    story.lease(2, "b")
    assert violated(story)["I20"] == ["limit limit 1: 2 leases after transaction 107, 1 allowed"]


def test_i20_a_lowered_limit_takes_no_lease_back_but_gives_none() -> None:
    story = Story()
    story.limit(1, max_concurrency=2)
    limited(story, 1, 2, 3)
    story.lease(1, "a")
    story.lease(2, "b")
    story.limit(1, max_concurrency=1)
    story.wait(5)
    story.complete(1)
    assert violated(story).get("I20") is None
    story.lease(3, "c")
    story.complete(2, 3)
    assert "2 leases" in only(story, "I20")


def test_i20_a_change_that_commits_during_the_call() -> None:
    story = Story()
    story.limit(1, max_concurrency=1)
    limited(story, 1, 2)
    story.lease(1, "a")
    story.wait(5)
    story.limit(1, max_concurrency=2)
    story.limit(1, max_concurrency=1)
    story.lease(2, "b")
    story.complete(1, 2)
    assert violated(story) == {}


def test_i20_a_paused_limit() -> None:
    story = Story()
    story.limit(1, max_concurrency=0)
    limited(story, 1)
    story.wait(5)
    story.serve(1)
    assert only(story, "I20") == "limit limit 1: 1 leases after transaction 104, 0 allowed"


def test_i20_the_second_limit_of_a_message_counts_and_that_of_another_does_not() -> None:
    story = Story()
    story.limit(1)
    story.limit(2, max_concurrency=1)
    story.limit(3, max_concurrency=0)
    limited(story, 1, 2, limits=(1, 2))
    lived(story, 3)
    assert violated(story).get("I20") is None
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert "limit limit 2: 2 leases" in only(story, "I20")


def costly(story: Story, *costs: int) -> None:
    """Messages 1, 2, … of these costs, with one limit."""
    for message, cost in enumerate(costs, 1):
        limited(story, message, cost=cost)


def test_i23_leases_that_cost_more_than_the_shared_limit_allows() -> None:
    story = Story()
    story.limit(1, max_cost=5)
    costly(story, 3, 2, 1)
    for message in (1, 2):
        story.lease(message, f"token of {message}")
    assert violated(story).get("I23") is None
    story.lease(3, "token of 3")
    story.complete(1, 2, 3)
    assert only(story, "I23") == "limit limit 1: leases cost 6 after transaction 110, 5 allowed"


def test_i23_a_message_that_costs_more_than_the_limit_runs_alone() -> None:
    story = Story()
    story.limit(1, max_cost=5)
    costly(story, 7, 1)
    story.serve(1)
    story.lease(2, "b")
    assert violated(story).get("I23") is None
    story.give_back(2)
    story.serve(2)
    assert violated(story) == {}


def test_i23_a_message_beside_one_that_costs_more_than_the_limit() -> None:
    story = Story()
    story.limit(1, max_cost=5)
    costly(story, 7, 1)
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert "leases cost 8" in only(story, "I23")


def waits_for_a_limit(*, ordered: bool) -> Story:
    """The limit of message 1 is full when its turn comes. The second message is more urgent, and comes later."""
    story = Story()
    story.channel(1, ordered=ordered)
    story.create(1, detail={"limits": [1]})
    story.change(1, SCHEDULED, token=None, attempts=0, detail={"waits_for": 1})
    story.create(2, due=0)
    story.wait(5)
    story.change(1, READY, token=None, attempts=0, was_status=SCHEDULED)
    story.serve(1, 2)
    return story


def test_i9_a_message_that_holds_its_ordered_channel_goes_first() -> None:
    assert violated(waits_for_a_limit(ordered=True)) == {}
    assert "message 1 was leased" in only(waits_for_a_limit(ordered=False), "I9")
