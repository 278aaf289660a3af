"""A message that waits for an event that has come is seen, and a step that has run twice."""

from __future__ import annotations

from verification.chaos.story import SCHEDULED, Story, only, violated


def waiting() -> Story:
    """Message 1 has run its step, and waits for an event."""
    story = Story()
    story.channel(1)
    story.create(1, kind="steps")
    story.lease(1, "a")
    with story.transaction():
        story.row("stepped", message=1)
        story.row("step", message=1, key="once", outcome="step")
    with story.transaction():
        story.row("step", message=1, key="steps:1", outcome="wait")
        story.give_back(1, status=SCHEDULED, answered=False)
    return story


def test_i30_an_event_that_has_not_come() -> None:
    assert "I30" not in violated(waiting())


def test_i30_an_event_that_wakes_nobody() -> None:
    story = waiting()
    story.row("event", key="steps:1")
    assert violated(story)["I30"] == ["message 1 still waits for steps:1, which has come"]


def test_i30_and_i31_it_goes_on() -> None:
    story = waiting()
    story.row("event", key="steps:1")
    story.lease(1, "b")
    story.complete(1)
    assert not {"I30", "I31"} & violated(story).keys()


def test_i31_a_step_that_runs_twice() -> None:
    story = waiting()
    story.row("stepped", message=1)
    story.lease(1, "b")
    story.complete(1)
    assert only(story, "I31") == "steps:1: its step has run 2 times"


def test_i31_a_redriven_message_has_its_step_already() -> None:
    story = waiting()
    story.lease(1, "b")
    story.dead_letter(1)
    story.create(2, detail={"redriven_from": 1})
    story.row("stepped", message=2)
    story.lease(2, "c")
    story.complete(2)
    assert violated(story)["I31"] == ["steps:1: its step has run 2 times"]


def test_i31_a_step_that_was_left_out() -> None:
    story = Story()
    story.channel(1)
    story.create(1, kind="steps")
    story.lease(1, "a")
    story.complete(1)
    assert only(story, "I31") == "steps:1: its step has run 0 times"
