"""A violation is seen, and reported with its invariant and its place: turns, and shares of capacity."""

from __future__ import annotations

from typing import Any

import pytest

from verification.chaos.checker import check
from verification.chaos.history.events import READY, SCHEDULED
from verification.chaos.story import Story, lived, only, violated

A, B = 1, 2


def served_late(*, set_aside: bool) -> Story:
    """Six messages of a channel are served before the only one of another, whose limit may be full at its turn."""
    story = Story()
    story.run["concurrent_dequeues"] = 2
    story.channel(1)
    story.channel(2)
    story.create(1, channel=2)
    for message in range(2, 8):
        if set_aside and message == 5:
            with story.transaction():
                story.change(1, SCHEDULED, token=None, attempts=0, detail={"waits_for": 1})
                story.change(1, READY, token=None, attempts=0, was_status=SCHEDULED)
        lived(story, message)
    story.serve(1)
    return story


def test_i10_a_channel_that_is_not_served() -> None:
    story = served_late(set_aside=False)
    assert "channel channel 2 waited for 6 messages of others until" in only(story, "I10")


def test_i10_a_channel_whose_message_is_set_aside_has_had_its_turn() -> None:
    """Its shared limit is full, and has a place again within the same call."""
    assert violated(served_late(set_aside=True)) == {}


def test_i10_equals_that_get_unequal_shares() -> None:
    story = Story()
    story.run |= {"concurrent_dequeues": 1000, "equal_channels": ["channel 1", "channel 2"]}
    story.channel(1)
    story.channel(2)
    with story.transaction():
        for message in range(300):
            story.create(message, channel=1 + message % 2)
    for message in [*range(0, 300, 2), *range(1, 300, 2)]:
        story.serve(message)
    assert "equal channels got unequal shares: Jain's index 0.5" in only(story, "I10")


def crowd(weights: tuple[int, ...] = (1, 1), *, places: int = 4, **settings: Any) -> Story:
    """Channels of these weights in a queue with so many places, with nine messages each that have waited for long: 11
    to 19 on the first one, 21 to 29 on the second one."""
    story = Story()
    story.queue(max_concurrency=places, **settings)
    for number, weight in enumerate(weights, 1):
        story.channel(number, weight=weight)
        for place in range(1, 10):
            story.create(10 * number + place, channel=number)
    story.wait(5)
    return story


def take(story: Story, *messages: int, listed: tuple[int, ...] = ()) -> None:
    """One call leases them; ``listed``: what runs besides, as the call has counted it."""
    with story.transaction():
        story.gate(*listed, *messages)
        for message in messages:
            story.lease(message, f"token of {message}")


def found(story: Story, invariant: str) -> list[str]:
    """The violations of this invariant alone: the stories end in the middle of their work."""
    return violated(story).get(invariant, [])


def test_i24_a_channel_gets_more_than_its_share_while_another_one_waits() -> None:
    story = crowd(fairness="share")
    take(story, 11, 12)
    assert found(story, "I24") == []
    take(story, 13, listed=(11, 12))
    assert found(story, "I24") == [
        "channel channel 1 has 3 of 3 leases after transaction 123, 2 allowed while channel channel 2 with 0 waits"
    ]


def test_i24_more_than_the_share_in_one_call() -> None:
    story = crowd(fairness="share")
    take(story, 11, 12, 13, 21)
    assert "has 3 of 4 leases" in found(story, "I24")[0]


def test_i24_what_others_leave_may_be_taken() -> None:
    story = crowd(fairness="share")
    for message in range(21, 30):
        story.change(message, SCHEDULED, token=None, attempts=0)
    take(story, 11, 12, 13, 14)
    assert found(story, "I24") == []
    assert [verdict.checked for verdict in check(story.history()) if verdict.name == "I24"] == [1]


def test_i24_the_other_one_has_its_share() -> None:
    """Seven places for two: the share is rounded up, so one of them may have four beside three."""
    story = crowd(places=7, fairness="share")
    take(story, 21, 22, 23)
    take(story, 11, 12, 13, 14, listed=(21, 22, 23))
    assert found(story, "I24") == []


def test_i24_a_lease_that_ended_during_the_call_was_counted() -> None:
    """The second channel had its share when the call looked."""
    story = crowd(fairness="share")
    take(story, 21, 22)
    story.complete(21)
    take(story, 11, 12, listed=(21, 22))
    story.give_back(22)
    take(story, 13, listed=(11, 12, 21, 22))
    assert found(story, "I24") == []


@pytest.mark.parametrize(("heavy", "wrong"), [(3, False), (1, True)])
def test_i24_the_share_goes_by_weight(heavy: int, wrong: bool) -> None:
    story = crowd((heavy, 1), fairness="share")
    take(story, 11, 12, 13)
    assert bool(found(story, "I24")) is wrong


def test_i24_a_message_that_has_just_come_may_wait() -> None:
    story = crowd((1,), fairness="share")
    story.channel(B)
    story.create(21, channel=B)
    take(story, 11, 12, 13, 14)
    assert found(story, "I24") == []


@pytest.mark.parametrize("detail", [{"limits": [1]}, {"guarded": "h"}, {"order_key": "k"}])
def test_i24_a_message_that_something_else_may_hold_up_does_not_count(detail: dict[str, Any]) -> None:
    story = crowd((1,), fairness="share")
    story.channel(B)
    story.create(21, channel=B, detail=detail)
    story.wait(5)
    take(story, 11, 12, 13, 14)
    assert found(story, "I24") == []


def test_i24_the_only_message_is_in_the_hands_of_another_call() -> None:
    story = crowd((1,), fairness="share")
    story.channel(B)
    story.create(21, channel=B)
    story.wait(5)
    began = story.now
    take(story, 11, 12, 13)
    story.lease(21, "b", leased_at=began)
    assert found(story, "I24") == []


@pytest.mark.parametrize("limits", [{"max_concurrency": 1}, {"release_interval": 1000}, {"ordered": True}])
def test_i24_a_channel_with_limits_of_its_own_may_wait_for_them(limits: dict[str, Any]) -> None:
    story = crowd(fairness="share")
    story.channel(B, **limits)
    take(story, 11, 12, 13)
    assert found(story, "I24") == []


def test_i24_a_queue_that_serves_by_turns_has_no_shares() -> None:
    story = crowd(fairness="turns")
    take(story, 11, 12, 13, 14)
    story.queue(max_concurrency=4, fairness="share")
    take(story, listed=(11, 12, 13, 14))
    assert found(story, "I24") == []


def test_i24_a_change_of_the_settings_that_the_call_may_not_have_seen() -> None:
    story = crowd(fairness="turns")
    story.queue(max_concurrency=4, fairness="share")
    take(story, 11, 12, 13, 14)
    assert found(story, "I24") == []


def test_i25_a_channel_gets_more_than_its_part() -> None:
    story = crowd(max_share=0.5)
    take(story, 11, 12)
    assert found(story, "I25") == []
    take(story, 13, listed=(11, 12))
    assert found(story, "I25") == ["channel channel 1: 3 leases after transaction 123, 2 allowed"]


def test_i25_the_part_is_rounded_down_and_one_message_always_runs() -> None:
    story = crowd(places=7, max_share=0.6)
    take(story, 11, 12, 13, 14, 21)
    assert found(story, "I25") == []
    take(story, 15, listed=(11, 12, 13, 14, 21))
    assert "5 leases" in found(story, "I25")[0]
    small = crowd(max_share=0.01)
    take(small, 11, 21)
    assert found(small, "I25") == []


def test_i25_without_a_limit_of_the_queue_the_places_are_not_known() -> None:
    story = Story()
    story.queue(max_share=0.5)
    story.channel(A)
    story.create(11, 12)
    story.wait(5)
    take(story, 11, 12)
    assert found(story, "I25") == []


def test_i25_a_lowered_part_takes_no_lease_back() -> None:
    story = crowd(max_share=0.75)
    take(story, 11, 12, 13)
    story.queue(max_concurrency=4, max_share=0.25)
    story.wait(5)
    take(story, 21, listed=(11, 12, 13))
    assert found(story, "I25") == []
    story.complete(11)
    take(story, 14, listed=(12, 13, 21))
    assert "3 leases" in found(story, "I25")[0]
