"""A violation is seen, and reported with its invariant and its place: leases, and the right to settle."""

from __future__ import annotations

import pytest

from verification.chaos.story import LEASE, SECOND, Story, lived, only, violated


def test_i3_a_completion_by_another_than_the_newest_lease() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "old")
    story.sweep(1)
    story.lease(1, "new")
    story.complete(1, token="old", answered=False)
    assert "was completed in" in only(story, "I3")


def test_i3_two_holders_whose_completions_both_succeeded() -> None:
    story = Story()
    lived(story, 1, "right")
    story.info("acknowledged", message=1, token="wrong", outcome="completed")
    assert only(story, "I3") == "message 1: wrong was answered “completed”, right did"


def test_i3_a_completion_that_is_nowhere() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.dead_letter(1)
    story.info("acknowledged", message=1, token="a", outcome="completed")
    assert "it is not in the archive" in only(story, "I3")


def test_i4_a_stale_token_that_is_accepted() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "old")
    story.sweep(1)
    story.lease(1, "new")
    story.op("heartbeat", ids=[1], tokens=["old"], lease=0, value={"done": [1]})
    story.complete(1)
    assert "lease old of message 1 had ended (swept, 103), and was accepted" in only(story, "I4")


def test_i4_a_token_that_no_lease_had() -> None:
    story = Story()
    lived(story, 1)
    story.op("defer", ids=[1], tokens=["forged"], value={"done": [1]})
    assert "a token that was never given is accepted" in only(story, "I4")


def test_i4_a_token_that_was_given_before() -> None:
    story = Story()
    for message in (1, 2):
        lived(story, message, "same")
    assert "its token was given before, by transaction 102" in only(story, "I4")


@pytest.mark.parametrize("attempts", [0, 2])
def test_i4_attempts_that_do_not_rise_by_one(attempts: int) -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a", attempts=attempts)
    story.complete(1)
    assert f"attempt {attempts} after 0" in only(story, "I4")


def test_i4_a_holder_whose_settlement_was_answered_as_lost() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.complete(1, answered=False)
    story.op("complete", ids=[1], tokens=["a"], result="fail", value={"error": "lease lost"})
    assert "is lost, and it was settled meanwhile" in only(story, "I4")


def test_i5_two_leases_at_a_time() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.lease(1, "b")
    story.complete(1)
    assert "lease b of message 1 begins in 103, while lease a of message 1 lives" in only(story, "I5")


def test_i5_a_lease_that_is_swept_before_it_expired() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.wait(LEASE / SECOND - 2)
    story.give_back(1, swept=True)
    story.serve(1)
    assert "lease a of message 1 was swept in 103, 1.998 s before it expired" in only(story, "I5")


def test_i5_a_lease_that_is_born_expired() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a", expires_at=story.now - 500)
    story.complete(1)
    assert "was born expired" in only(story, "I5")


def test_i5_a_lease_that_counts_from_before_its_dequeue() -> None:
    story = Story()
    story.create(1)
    story.wait(1)
    story.lease(1, "a", leased_at=story.now - SECOND)
    story.op("dequeue", value={"leases": [[1, "a", 1]], "asked": story.now - 500})
    story.complete(1)
    assert "lease a of message 1 counts from before its dequeue, in 102" in only(story, "I5")


def test_i5_a_call_may_take_longer_than_its_lease_lasts() -> None:
    story = Story()
    story.create(1)
    story.wait(2)
    story.lease(1, "a", leased_at=story.now - SECOND, expires_at=story.now - 500)
    story.complete(1)
    assert "I5" not in violated(story)


def test_i12_a_delivery_too_many() -> None:
    story = Story()
    story.create(1)
    for token in "ab":
        story.lease(1, token)
        story.give_back(1)
    story.serve(1)
    assert only(story, "I12") == "message 1: 3 deliveries, 2 allowed"


@pytest.mark.parametrize("kind", ["plain", "defer"])
def test_i12_an_attempt_that_is_given_back_although_its_handler_had_begun(kind: str) -> None:
    story = Story()
    story.create(1, kind=kind)
    story.lease(1, "a")
    story.handle(1)
    story.refund(1)
    story.serve(1)
    if kind == "defer":
        assert violated(story) == {}
    else:
        assert only(story, "I12") == "lease a of message 1: its handler had begun, and its attempt was given back"


@pytest.mark.parametrize("kind", ["plain", "defer"])
def test_i12_a_redriven_message_is_of_the_kind_that_was_enqueued(kind: str) -> None:
    story = Story()
    story.create(1, kind=kind)
    story.lease(1, "a")
    story.dead_letter(1)
    story.create(2, detail={"redriven_from": 1})
    story.lease(2, "b")
    story.handle(2)
    story.refund(2)
    found = violated(story).get("I12", [])
    given_back = "lease b of message 2: its handler had begun, and its attempt was given back"
    assert found == ([] if kind == "defer" else [given_back])


@pytest.mark.parametrize(("times", "allowed"), [(19, True), (20, False)])
def test_i12_interruptions_have_a_bound_of_their_own(times: int, allowed: bool) -> None:
    story = Story()
    story.create(1)
    for number in range(1, times + 1):
        story.lease(1, f"lease {number}")
        story.handle(1)
        story.refund(1, detail={"interruption": number})
    story.serve(1)
    if allowed:
        assert violated(story) == {}
    else:
        assert only(story, "I12") == "message 1: interrupted 20 times and given back, 19 allowed"


def test_i12_what_never_began_keeps_its_attempt() -> None:
    story = Story()
    story.create(1, kind="plain")
    story.lease(1, "a")
    story.refund(1)
    story.lease(1, "b")
    story.handle(1)
    story.complete(1)
    assert violated(story) == {}


def test_i16_a_holder_that_beats_in_time_and_loses_its_lease() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.wait(6)
    story.beat(1, extends=False)
    story.wait(5)
    story.give_back(1, swept=True)
    story.serve(1)
    assert "but its heartbeat was good for longer" in only(story, "I16")


def test_i16_a_slow_handler_of_a_healthy_worker_that_loses_its_lease() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.op("handle", message=1, token="a", slow=True)
    story.sweep(1)
    story.serve(1)
    assert "the handler ran on in a healthy worker" in only(story, "I16")


def test_i16_a_handler_that_begins_after_its_lease_proves_nothing() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.sweep(1)
    story.wait(1)
    story.op("handle", message=1, token="a", slow=True)
    story.serve(1)
    assert violated(story) == {}


def test_i16_a_handler_that_a_fault_may_have_touched_proves_nothing() -> None:
    story = Story()
    story.create(1)
    story.lease(1, "a")
    story.info("fault", kind="cut")
    story.op("handle", message=1, token="a", slow=True)
    story.sweep(1)
    story.serve(1)
    assert violated(story) == {}


@pytest.mark.parametrize("effects", [0, 2])
def test_i17_effects_of_an_atomic_handler_that_are_not_there_once(effects: int) -> None:
    story = Story()
    story.run["effects"] = {"atomic": "atomic"}
    story.create(1, kind="atomic")
    for _ in range(effects):
        story.row("effect", message=1, outcome="atomic")
    story.serve(1)
    assert only(story, "I17") == f"message 1: {effects} effects, completed: True"


def test_i17_a_completed_message_without_its_effect() -> None:
    story = Story()
    story.run["effects"] = {"plain": "plain"}
    story.create(1, kind="plain")
    story.serve(1)
    assert only(story, "I17") == "message 1 is completed without its effect"
