"""A violation is seen, and reported with its invariant and its place: where messages are."""

from __future__ import annotations

import pytest

from verification.chaos.story import Story, lived, only, violated


def test_i1_a_message_that_was_answered_and_never_was_is_lost() -> None:
    story = Story()
    lived(story, 1)
    story.op("enqueue", keys=["other:2"], channel="channel 1")
    assert "lost: enqueue #3 of client was answered, and message(s) ['other:2'] never were there" in only(story, "I1")


def test_i1_a_message_of_a_failed_call_is_a_phantom() -> None:
    story = Story()
    lived(story, 1)
    story.ops[0] = story.op("enqueue", keys=["other:1"], channel="channel 1", result="fail", value={"error": "57014"})
    story.ops.pop()
    assert "phantom: enqueue #3 of client failed (57014), and message(s) ['other:1'] are there" in only(story, "I1")


def test_i1_half_of_an_unknown_call_is_too_little() -> None:
    story = Story()
    lived(story, 1)
    story.ops[0] = story.op("enqueue_many", keys=["other:1", "other:2"], channel="channel 1", result="unknown")
    story.ops.pop()
    assert "half done" in only(story, "I1")


def test_i1_a_message_that_was_never_enqueued() -> None:
    story = Story()
    lived(story, 1)
    story.create(2)
    story.ops.pop()
    story.serve(2)
    assert "message 2 (key other:2) was enqueued by no client" in only(story, "I1")


def test_i1_a_message_in_no_place_is_named_with_its_transaction() -> None:
    story = Story()
    story.create(1)
    story.row("gone", message=1, channel=1)
    assert f"message 1 is in 0 places after transaction {story.xid} (gone)" in violated(story)["I1"][0]


def test_i1_a_message_in_two_places() -> None:
    story = Story()
    story.create(1)
    story.row("archived", message=1, outcome="purged")
    assert "message 1 is in 2 places" in only(story, "I1")


def test_i1_a_census_that_misses_what_was_answered() -> None:
    story = Story()
    lived(story, 1)
    story.census()
    assert "message 1 of enqueue #1 of client is nowhere" in only(story, "I1")


def test_i1_a_row_of_business_without_its_message() -> None:
    story = Story()
    story.row("business", key="other:1")
    story.op(
        "enqueue_in_transaction", keys=["other:1"], channel="channel 1", result="fail", value={"error": "rolled back"}
    )
    assert "its row without a message" in only(story, "I1")


def test_i2_a_message_without_an_outcome() -> None:
    story = Story()
    story.create(1)
    assert f"message 1 has no outcome: last seen as created in {story.xid}" in only(story, "I2")


def test_i2_two_outcomes() -> None:
    story = Story()
    lived(story, 1)
    story.row("dead", message=1, outcome="failed")
    assert "message 1 has 2 outcomes: archived completed, dead failed" in violated(story)["I2"]


def test_i2_a_dead_letter_that_was_redriven_twice() -> None:
    story = Story()
    for message in (1, 2):
        story.create(message, detail={"redriven_from": 7})
        story.serve(message)
    assert only(story, "I2") == "dead letter 7 was redriven 2 times"


def test_i2_a_final_census_that_does_not_agree() -> None:
    story = Story()
    lived(story, 1)
    story.census(1, 9, final=True)
    assert "unknown to the history [9]" in only(story, "I2")


@pytest.mark.parametrize(("reads", "times"), [((1, 1), 2), ((), 0)])
def test_i15_a_reader_that_sees_a_row_twice_or_never(reads: tuple[int, ...], times: int) -> None:
    story = Story()
    lived(story, 1)
    story.read(*reads, last=True)
    assert only(story, "I15") == f"client saw message 1 {times} times in archived, it was there 1 times"


def test_i15_a_reader_that_sees_what_is_not_there() -> None:
    story = Story()
    story.read(5)
    assert only(story, "I15") == "client saw message 5 in archived, where it never was"
