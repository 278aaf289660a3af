"""A batch that ends twice, too early or never is seen; and a message that did not wait."""

from __future__ import annotations

from verification.chaos.story import Story, only, violated


def batch_story() -> Story:
    """Two members of batch 7."""
    story = Story()
    story.channel(1)
    for message in (1, 2):
        story.create(message, detail={"batch": 7})
    return story


def settle(story: Story, *messages: int) -> None:
    for message in messages:
        story.serve(message)


def follow(story: Story, message: int) -> None:
    story.create(message, detail={"after": 7})
    settle(story, message)


def test_i26_what_follows_comes_after_the_last_member() -> None:
    story = batch_story()
    settle(story, 1, 2)
    follow(story, 3)
    assert "I26" not in violated(story)


def test_i26_an_open_batch_is_followed_by_nothing() -> None:
    story = batch_story()
    settle(story, 1)
    assert "I26" not in violated(story)


def test_i26_a_batch_that_never_ends() -> None:
    story = batch_story()
    settle(story, 1, 2)
    assert only(story, "I26") == "batch 7: 0 messages followed its 2 members"


def test_i26_a_batch_that_ends_twice() -> None:
    story = batch_story()
    settle(story, 1, 2)
    follow(story, 3)
    follow(story, 4)
    assert only(story, "I26") == "batch 7: 2 messages followed its 2 members"


def test_i26_a_batch_that_ends_too_early() -> None:
    story = batch_story()
    settle(story, 1)
    follow(story, 3)
    assert "I26" in violated(story)
    settle(story, 2)
    assert only(story, "I26") == "batch 7: message 3 followed before 2 was settled"


def waiting_story() -> Story:
    """Message 3 waits for 1 and 2."""
    story = Story()
    story.channel(1)
    story.create(1, 2)
    story.create(3, detail={"awaits": [1, 2]})
    return story


def test_i27_it_comes_after_those_that_it_waits_for() -> None:
    story = waiting_story()
    settle(story, 1, 2, 3)
    assert "I27" not in violated(story)


def test_i27_it_comes_too_early() -> None:
    story = waiting_story()
    settle(story, 1, 3, 2)
    assert only(story, "I27") == "message 3 was delivered before message 2 had ended"
