"""A violation is seen, and reported with its invariant and its place: breakers."""

from __future__ import annotations

from verification.chaos.checker import check
from verification.chaos.history.events import READY, SCHEDULED
from verification.chaos.story import Story, only, violated


def guarded(*messages: int) -> Story:
    """Messages of the handler h, each on a channel of its own; its breaker opens, for ten seconds."""
    story = Story()
    story.breaker()
    for message in messages:
        story.channel(message)
        story.create(message, channel=message, detail={"guarded": "h"})
    story.breaker(open_for=10)
    return story


def test_i22_a_lease_while_it_is_open() -> None:
    story = guarded(1)
    story.wait(5)
    story.serve(1)
    assert only(story, "I22") == "breaker of h: message 1 was leased 4.999 s before the pause was over"


def test_i22_two_messages_try() -> None:
    story = guarded(1, 2)
    story.wait(11)
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert only(story, "I22") == "breaker of h: 2 messages try after transaction 108"


def test_i22_an_attempt_that_no_lease_has_used() -> None:
    story = guarded(1)
    story.change(1, SCHEDULED, token=None, attempts=1)
    story.wait(11)
    story.change(1, READY, token=None, attempts=0)
    story.serve(1)
    assert violated(story)["I22"] == ["message 1: 105 used an attempt without a lease"]


def test_i22_one_message_after_the_other_tries_and_the_others_go_on() -> None:
    story = guarded(1, 2, 3, 4)
    story.wait(11)
    story.lease(1, "a")
    story.give_back(1)
    story.serve(2)
    story.breaker()
    story.wait(2)
    story.lease(3, "c")
    story.lease(4, "d")
    story.complete(3, 4)
    story.serve(1)
    assert violated(story) == {}
    assert [verdict.checked for verdict in check(story.history()) if verdict.name == "I22"] == [7]


def test_i22_a_dequeue_that_began_when_it_opened_may_not_know() -> None:
    story = guarded(1)
    story.wait(0.5)
    story.serve(1)
    assert violated(story) == {}
