"""Recorded histories are behaviours of the model, and doctored ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.chaos.history import History, load
from verification.chaos.story import SECOND, Story
from verification.formal.follow import follow
from verification.formal.transcribe import lives

# Each starts TLC, on a machine that may be busy.
pytestmark = pytest.mark.timeout(600)
RECORDED = Path(__file__).with_name("recorded")
LIMIT = 2


@pytest.fixture
def recorded() -> History:
    """A part of a storm: a message of each kind that it had, and the first of two channels with a limit."""
    return load(RECORDED)


def test_a_recorded_run_is_a_behaviour_of_the_model(recorded: History) -> None:
    followed = follow(recorded)
    assert followed.refused == []
    assert followed.lives == len(dict(lives(recorded))) >= 60
    assert followed.shapes >= 40
    assert followed.windows >= 2
    # It has what is worth looking at.
    outcomes = {row.outcome for row in recorded.rows}
    assert {"completed", "failed", "rejected", "poison"} & outcomes >= {"completed", "rejected"}


def test_a_doctored_run_is_refused(recorded: History) -> None:
    """As if a worker whose lease the sweep had taken had completed the message all the same."""
    by_message = dict(lives(recorded))
    twice = next(message for message, trace in by_message.items() if trace.steps[-1].ends == (("completed", 2),))
    stale = next(row.token for row in recorded.rows if row.message == twice and row.token)
    recorded.rows = [
        row._replace(token=stale) if (row.message, row.event) == (twice, "archived") else row for row in recorded.rows
    ]
    [refused] = follow(recorded).refused
    assert refused.startswith(f"message {twice}: commit {len(by_message[twice].steps)} of ")
    assert "completed with token 1" in refused


def refused_messages(story: Story) -> set[int]:
    return {int(text.split()[1].strip(",:")) for text in follow(story.history()).refused if text.startswith("message")}


def test_whole_lives_of_every_kind_are_behaviours_and_each_defect_is_refused() -> None:
    story = Story()
    story.channel()
    good = [retried, swept, deferred, dead_lettered, cancelled, heartbeats]
    bad = [
        completed_by_a_late_worker, given_back_by_a_late_worker, swept_too_early, attempt_not_counted,
        one_attempt_too_many, two_leases_at_once, archived_twice, deleted_without_a_trace, token_given_twice,
    ]  # fmt: skip
    for place, live in enumerate([*good, *bad], 1):
        story.create(place)
        live(story, place)
    assert refused_messages(story) == {place for place, live in enumerate([*good, *bad], 1) if live in bad}


def retried(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    story.give_back(message, status=3)
    story.change(message, 1, token=None, attempts=1, settled_token=f"{message} a")
    story.serve(message)


def swept(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    sweep(story, message)
    story.change(message, 1, token=None, attempts=1)
    story.lease(message, f"{message} b")
    story.dead_letter(message)


def sweep(story: Story, message: int, *, late: bool = True) -> None:
    story.wait(11 if late else 1)
    expiry = story.now - SECOND if late else story.now + SECOND
    story.change(message, 3, token=None, attempts=1, was_expires_at=expiry)


def deferred(story: Story, message: int) -> None:
    for turn in range(4):
        story.lease(message, f"{message} {turn}")
        story.change(message, 1, token=None, attempts=0, settled_token=f"{message} {turn}")
    story.serve(message)


def dead_lettered(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    story.dead_letter(message)


def cancelled(story: Story, message: int) -> None:
    with story.transaction():
        story.row("gone", message=message, channel=1, was_status=1)
        story.row("archived", message=message, attempts=0, outcome="cancelled")


def heartbeats(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    story.beat(message)
    story.beat(message)
    story.complete(message)


def completed_by_a_late_worker(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    sweep(story, message)
    story.change(message, 1, token=None, attempts=1)
    story.lease(message, f"{message} b")
    story.complete(message, token=f"{message} a")


def given_back_by_a_late_worker(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    sweep(story, message)
    story.change(message, 1, token=None, attempts=1)
    story.lease(message, f"{message} b")
    story.change(message, 1, token=None, attempts=1, settled_token=f"{message} a")


def swept_too_early(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    sweep(story, message, late=False)


def attempt_not_counted(story: Story, message: int) -> None:
    story.lease(message, f"{message} a", attempts=0)


def one_attempt_too_many(story: Story, message: int) -> None:
    for turn in range(3):
        story.lease(message, f"{message} {turn}")
        story.give_back(message, status=1)


def two_leases_at_once(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    story.lease(message, f"{message} b")


def archived_twice(story: Story, message: int) -> None:
    story.serve(message)
    story.row("archived", message=message, attempts=1, token=f"{message} a", outcome="completed")


def deleted_without_a_trace(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    story.row("gone", message=message, channel=1, was_status=2, was_attempts=1)


def token_given_twice(story: Story, message: int) -> None:
    story.lease(message, f"{message} a")
    story.give_back(message)
    story.lease(message, f"{message} a")


def test_a_channel_at_its_limit_gives_no_more() -> None:
    story = Story()
    story.channel(max_concurrency=LIMIT)
    for message in range(1, 60):
        story.create(message)
    for message in range(1, 60):
        story.lease(message, f"token {message}")
        if message >= LIMIT:
            story.complete(message - LIMIT + 1)
    story.create(60, 61)
    story.lease(60, "token 60")
    story.lease(61, "token 61")
    [refused] = follow(story.history()).refused
    assert refused.startswith('channel "channel 1": commit ')
    assert "(message 61: leased, attempt 1" in refused


def test_a_channel_whose_limit_is_edited_is_left_to_the_checker() -> None:
    story = Story()
    story.channel(max_concurrency=1)
    story.channel(max_concurrency=3)
    story.create(1)
    story.lease(1, "token")
    assert follow(story.history()).windows == 0
