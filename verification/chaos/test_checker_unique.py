"""Two messages of one unique key are seen, and one that is put off for too long."""

from __future__ import annotations

from verification.chaos.story import SCHEDULED, SECOND, Story, violated

DEBOUNCE = {"key": "k", "until": "due", "at_most": "500 ms"}


def unique_story(*messages: int) -> Story:
    story = Story()
    story.channel(1)
    for message in messages:
        story.create(message, detail={"unique": {"key": "k", "until": "settled"}})
    return story


def test_i28_one_after_the_other() -> None:
    story = unique_story(1)
    story.serve(1)
    story.create(2, detail={"unique": {"key": "k", "until": "settled"}})
    assert "I28" not in violated(story)


def test_i28_two_at_once() -> None:
    found = violated(unique_story(1, 2))["I28"]
    assert found == ["(1, 'k'): message 2 was enqueued before 1 was settled"]


def test_i28_a_replacement_that_is_lost() -> None:
    story = unique_story(1)
    story.op("enqueue_unique", keys=["plain:9"], channel="channel 1", value={"created": [], "replaced": ["plain:9"]})
    assert "no message has its payload" in violated(story)["I28"][0]
    story.change(1, SCHEDULED, token=None, attempts=0, detail={"replaced": "plain:9"})
    assert "I28" not in violated(story)


def debounced(put_off_by: float) -> Story:
    """It is put off to this time after its enqueue."""
    story = Story()
    story.channel(1)
    story.create(1, detail={"unique": DEBOUNCE}, status=SCHEDULED)
    created = story.rows[-1].at
    story.change(1, SCHEDULED, token=None, attempts=0, dequeue_at=created + int(put_off_by * SECOND))
    return story


def test_i29_at_its_deadline() -> None:
    assert "I29" not in violated(debounced(0.5))


def test_i29_behind_its_deadline() -> None:
    found = violated(debounced(0.6))["I29"]
    assert found == ["message 1 was put off by 100000 µs behind its deadline"]


def test_i29_a_retry_has_another_time() -> None:
    story = debounced(0.4)
    story.wait(0.5)
    story.lease(1, "token")
    story.change(1, SCHEDULED, token=None, attempts=1, dequeue_at=story.now + SECOND)
    assert "I29" not in violated(story)
