"""A violation of the order within a key is seen, and reported with its place."""

from __future__ import annotations

from verification.chaos.story import Story, only, violated


def keyed_story(*places: int | None) -> Story:
    """Two messages of one key, or as many as there are places; the first one is old."""
    story = Story()
    story.channel(1)
    for message, place in enumerate(places or (None, None), start=1):
        detail = {"order_key": "k"} | ({"order_place": place} if place else {})
        story.create(message, detail=detail)
    story.wait(3)
    return story


def test_i21_one_after_the_other_is_the_order() -> None:
    story = keyed_story()
    for message in (1, 2):
        story.lease(message, "ab"[message - 1])
        story.complete(message)
    assert "I21" not in violated(story)


def test_i21_two_messages_of_a_key_at_the_same_time() -> None:
    story = keyed_story()
    story.lease(1, "a")
    story.lease(2, "b")
    story.complete(1, 2)
    assert only(story, "I21") == "(1, 'k'): message 2 was leased in 105, before 1 was settled"


def test_i21_a_message_that_overtakes_an_earlier_one() -> None:
    story = keyed_story()
    story.serve(2, 1)
    assert "before 1" in violated(story)["I21"][0]


def test_i21_a_message_that_overtakes_one_that_fails() -> None:
    story = keyed_story()
    story.lease(1, "a")
    story.give_back(1)
    story.serve(2, 1)
    assert "before 1 was settled" in violated(story)["I21"][0]


def test_i21_a_redriven_message_has_its_old_place() -> None:
    story = keyed_story(5, 1)
    story.serve(1, 2)
    assert "before 2" in violated(story)["I21"][0]


def test_i21_is_not_for_ordered_channels() -> None:
    story = keyed_story()
    story.channel(1, max_concurrency=1, ordered=True)
    story.serve(2, 1)
    assert "I21" not in violated(story)


def test_i9_a_message_whose_key_another_transaction_holds_may_be_overtaken() -> None:
    story = keyed_story()
    story.create(3)
    story.serve(3)
    for message in (1, 2):
        story.lease(message, "bc"[message - 1])
        story.complete(message)
    assert "I9" not in violated(story)
