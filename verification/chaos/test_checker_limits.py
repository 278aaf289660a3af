"""A violation is seen, and reported with its invariant and its place: limits, order and turns."""

from __future__ import annotations

import pytest

from tests.support.cases import cases
from verification.chaos.history.events import LEASED, READY
from verification.chaos.story import SCHEDULED, SECOND, Story, lived, only, violated


def test_i6_more_leases_than_the_channel_may_have() -> None:
    story = Story()
    story.channel(1, max_concurrency=1)
    story.create(1, 2)
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert only(story, "I6") == "channel channel 1: 2 leases after transaction 105, 1 allowed"


def test_i6_a_lowered_limit_takes_no_lease_back_but_gives_none() -> None:
    story = Story()
    story.channel(1, max_concurrency=2)
    story.create(1, 2, 3)
    story.lease(1, "a")
    story.lease(2, "b")
    story.channel(1, max_concurrency=1)
    story.wait(5)
    story.complete(1)
    assert violated(story).get("I6") is None
    story.lease(3, "c")
    story.complete(2, 3)
    assert "2 leases" in only(story, "I6")


def two_channels(story: Story) -> None:
    for number in (1, 2):
        story.channel(number)
        story.create(number, channel=number)


def test_i19_more_leases_than_the_queue_may_have() -> None:
    story = Story()
    story.queue(max_concurrency=1)
    story.wait(5)
    two_channels(story)
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert only(story, "I19") == "queue default: 2 leases after transaction 107, 1 allowed"


def test_i19_what_was_leased_before_the_limit_stays() -> None:
    story = Story()
    two_channels(story)
    story.lease(1, "a")
    story.lease(2, "b")
    story.queue(max_concurrency=1)
    story.wait(5)
    story.complete(1, 2)
    story.create(3)
    story.serve(3)
    assert violated(story).get("I19") is None


def test_i19_a_paused_queue_and_another_one() -> None:
    story = Story()
    story.queue("mails", max_concurrency=0)
    story.channel(1, queue="mails")
    story.channel(2, queue="default")
    story.create(1, channel=2)
    story.serve(1)
    assert violated(story).get("I19") is None
    story.create(2)
    story.wait(5)
    story.serve(2)
    assert "queue mails: 1 leases" in only(story, "I19")


def test_i7_two_messages_in_one_interval() -> None:
    story = Story()
    story.channel(1, release_interval=SECOND, release_burst=1)
    story.create(1, 2)
    story.lease(1, "a")
    story.wait(0.9)
    story.lease(2, "b")
    story.complete(1, 2)
    assert "channel channel 1: message 2 was leased 0.099" in only(story, "I7")


def test_i7_a_burst_may_be_used_once() -> None:
    story = Story()
    story.channel(1, release_interval=SECOND, release_burst=2)
    story.create(1, 2, 3)
    for message in (1, 2):
        story.lease(message, f"token of {message}")
    assert violated(story).get("I7") is None
    story.lease(3, "c")
    story.complete(1, 2, 3)
    assert "message 3 was leased" in only(story, "I7")


def test_i8_more_messages_than_fit() -> None:
    story = Story()
    story.channel(1, max_size=1)
    story.create(1, 2)
    for message in (1, 2):
        story.serve(message)
    assert only(story, "I8") == "channel channel 1, transaction 103: 2 messages live, 1 allowed"


def test_i8_a_refusal_without_a_reason() -> None:
    story = Story()
    story.channel(1, max_size=2)
    lived(story, 1)
    story.op("enqueue", keys=["other:2"], channel="channel 1", result="fail", value={"error": "channel full"})
    assert "1 refused as too many, 1 were live at most, [2] allowed" in only(story, "I8")


@cases(
    ("policy", "comes", "leased", "problem"),
    [
        ("drop_oldest", True, False, ""),
        ("drop_oldest", True, True, "while it was leased"),
        ("drop_oldest", False, False, "for nothing"),
        ("error", True, False, "for nothing"),
    ],
)
def test_i8_a_message_that_is_dropped(policy: str, comes: bool, leased: bool, problem: str) -> None:
    story = Story()
    story.channel(1, max_size=1, full_policy=policy)
    story.create(1)
    with story.transaction():
        story.row("gone", message=1, channel=1, was_status=LEASED if leased else READY)
        story.row("archived", message=1, outcome="dropped")
        if comes:
            story.create(2)
    found = violated(story).get("I8", [])
    assert [text for text in found if "dropped" in text] == (
        [f"channel channel 1: message 1 was dropped by transaction 103, {problem}"] if problem else []
    )


def test_i9_a_message_that_overtakes_another() -> None:
    story = Story()
    story.create(1, 2)
    story.wait(3)
    story.lease(2, "b")
    story.wait(1)
    story.serve(1)
    story.complete(2)
    assert "message 2 was leased in 103, before message 1, ready for 3.0" in only(story, "I9")


@pytest.mark.parametrize(("handler", "overtakes"), [("coroutine", True), ("plain", False)])
def test_i9_a_call_for_some_handlers_passes_others_over(handler: str, *, overtakes: bool) -> None:
    story = Story()
    story.create(1, detail={"handler": handler})
    story.create(2, detail={"handler": "coroutine"})
    story.wait(3)
    story.lease(2, "b", detail={"chosen": "coroutine"})
    story.wait(1)
    story.serve(1)
    story.complete(2)
    assert set(violated(story)) == ({"I9"} if overtakes else set())


def test_i9_what_another_call_has_in_its_hands_may_be_overtaken() -> None:
    story = Story()
    story.create(1, 2)
    story.wait(3)
    in_hand = story.now
    story.lease(2, "b")
    story.lease(1, "a", leased_at=in_hand)
    story.complete(1, 2)
    assert violated(story) == {}


@pytest.mark.parametrize(("lingers", "overtakes"), [(True, 0), (False, 1)])
def test_i9_what_a_dequeue_had_locked_that_was_rolled_back_may_be_overtaken(lingers: bool, overtakes: int) -> None:
    story = Story()
    story.create(1, 2)
    story.wait(3)
    story.op("dequeue", limit=1, lingers=lingers, result="fail", value={"error": "57P01"})
    story.lease(2, "b")
    story.wait(1)
    story.serve(1)
    story.complete(2)
    assert len(violated(story).get("I9", [])) == overtakes


@pytest.mark.parametrize(("came_back", "overtakes"), [("during the call", 0), ("just before", 0), ("before", 1)])
def test_i9_what_comes_back_during_a_call_may_be_taken_where_it_stood(came_back: str, overtakes: int) -> None:
    story = Story()
    story.create(1, 2)
    story.wait(3)
    story.lease(1, "a")
    story.put_off(1)
    before = story.now - 5_000
    story.wait(0.2 if came_back == "before" else 0)
    story.lease(1, "b", leased_at=before if came_back == "during the call" else story.now)
    story.wait(1)
    story.lease(2, "c")
    story.complete(1, 2)
    assert len(violated(story).get("I9", [])) == overtakes


def test_i11_a_message_that_comes_before_its_time() -> None:
    story = Story()
    story.create(1, status=SCHEDULED, due=story.now + 2 * SECOND)
    story.wait(1)
    story.lease(1, "a")
    story.complete(1)
    assert "lease a of message 1: 0.99" in only(story, "I11")


def strict_story() -> Story:
    """Message 1 is leased, and fails."""
    story = Story()
    story.channel(1, max_concurrency=1, ordered=True)
    story.create(1, 2)
    story.lease(1, "a")
    story.give_back(1)
    return story


def test_i18_a_message_that_overtakes_one_that_fails() -> None:
    story = strict_story()
    story.serve(2, 1)
    assert only(story, "I18") == "channel channel 1: message 2 was leased in 106, before message 1 was settled"


def test_i18_the_same_message_again_and_then_the_next() -> None:
    story = strict_story()
    story.serve(1, 2)
    assert violated(story) == {}


def test_i18_is_for_channels_that_were_ordered_all_the_time() -> None:
    story = strict_story()
    story.channel(1, max_concurrency=1, ordered=False)
    story.serve(2, 1)
    assert "I18" not in violated(story)
