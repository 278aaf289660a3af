"""The workload that is read from the lake: times, attempts, and the number of slots."""

from __future__ import annotations

import random
from datetime import datetime
from pathlib import Path

import pytest

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.lake import ParquetLake
from django_pgqueue.spark.simulate.capacity import Attempt, Capacity, runs
from django_pgqueue.spark.simulate.job import files_of, in_force
from django_pgqueue.spark.simulate.lane import SimulatedMessage
from django_pgqueue.spark.simulate.limits import Change, ChannelLimits, changed
from django_pgqueue.spark.simulate.workload import Workload
from tests.spark.simulate.lakes import START, at, channel, failure, make_lake, row

SECOND = 1_000_000
ZERO = round(START.timestamp()) * SECOND


def load(lake: ParquetLake, queue: str = "default", days: int | None = None) -> Workload:
    files, _ = files_of(lake, days)
    return Workload.load({table: files[table] for table in ("archive", "dead_letter")}, queue)


def only(lake: ParquetLake) -> SimulatedMessage:
    [message] = load(lake).messages(1)
    return message


def seconds(moment: int) -> float:
    return (moment - ZERO) / SECOND


def test_a_message_comes_when_it_was_made_and_runs_as_long_as_it_ran(lake: Path):
    message = only(make_lake(lake, archive=[row(created=1, leased=3.5, settled=10, priority=7)]))
    assert (seconds(message.arrives_at), seconds(message.due_at), message.rank) == (1, 1, -7)
    assert (message.runs, message.pauses, message.waited) == ((6_500_000,), (), 2_500_000)


def test_a_start_that_is_known_counts_instead_of_the_lease(lake: Path):
    early = failure(1, 0, 5) | {"started_at": at(4).isoformat()}
    retried = row(created=0, leased=6, settled=10, started_at=at(9), attempts=2, dequeue_at=at(6), errors=[early])
    message = only(make_lake(lake, archive=[retried]))
    assert (message.runs, message.waited) == ((SECOND, SECOND), 3 * SECOND)


def test_one_for_later_comes_when_it_is_due_and_one_of_the_past_when_it_is_made(lake: Path):
    later = row(created=1, leased=60, settled=61, dequeue_at=at(60))
    past = row(created=5, leased=6, settled=7, dequeue_at=at(-100))
    made = load(make_lake(lake, archive=[later, past])).messages(1)
    assert [(seconds(message.arrives_at), seconds(message.due_at)) for message in made] == [(5, -100), (60, 60)]


def test_failed_attempts_took_their_time_too(lake: Path):
    errors = [failure(1, 2, 4), failure(2, 10, 11)]
    message = only(
        make_lake(lake, archive=[row(created=1, leased=21, settled=26, dequeue_at=at(20), attempts=3, errors=errors)])
    )
    assert (seconds(message.arrives_at), seconds(message.due_at)) == (1, 1)
    assert message.runs == (2 * SECOND, SECOND, 5 * SECOND)
    assert message.pauses == (6 * SECOND, 9 * SECOND)
    assert message.waited == SECOND


def test_the_last_failure_of_a_dead_letter_is_its_end(lake: Path):
    errors = [failure(1, 0, 1), failure(2, 5, 8)]
    message = only(make_lake(lake, dead_letter=[row(leased=5, settled=8, dequeue_at=at(3), attempts=2, errors=errors)]))
    assert (message.runs, message.pauses) == ((SECOND, 3 * SECOND), (2 * SECOND,))


def test_errors_of_unknown_times_and_shapes_are_no_attempts(lake: Path):
    errors = ["strange", {"attempt": 1, "at": at(1).isoformat()}, {}]
    message = only(make_lake(lake, archive=[row(leased=3, settled=4, dequeue_at=at(2), attempts=2, errors=errors)]))
    assert (message.runs, message.pauses) == ((SECOND,), ())


def test_messages_that_were_never_leased_and_other_queues_are_left_out(lake: Path):
    rows = [row(leased=None), row(queue="other", channel="theirs"), row(channel="a/b=c")]
    workload = load(make_lake(lake, archive=rows))
    assert workload.channels == ["a/b=c"]
    assert len(list(workload.messages(1))) == 1


def test_they_come_in_the_order_of_their_times_over_files_and_tables(lake: Path):
    rows = [row(created=n, leased=n, settled=n * 86400 + 1) for n in (3, 1, 2)]
    made = load(make_lake(lake, archive=rows[:2], dead_letter=rows[2:])).messages(1)
    assert [seconds(message.arrives_at) for message in made] == [1, 2, 3]


def test_days_choose_the_last_ones(lake: Path):
    made = make_lake(lake, archive=[row(settled=1), row(settled=86400), row(settled=2 * 86400)])
    assert len(list(load(made, days=2).messages(1))) == 2
    files, days = files_of(made, 1)
    assert ([day.isoformat() for day in days], len(files["archive"])) == (["2026-03-16"], 1)


def test_a_queue_without_messages_is_named(lake: Path):
    made = make_lake(lake, archive=[row()])
    with pytest.raises(PipelineError, match="no message of queue 'typo'"):
        load(made, "typo")


def test_a_file_that_is_broken_is_named(lake: Path):
    made = make_lake(lake, archive=[row()])
    [path] = made.files("archive")
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(PipelineError, match=path.name):
        load(made)


def attempts(*spans: tuple[int, int], worker: str = "one") -> list[Attempt]:
    return [Attempt(start, end, worker, row, -1) for row, (start, end) in enumerate(spans)]


def test_attempts_that_overlap_show_how_much_a_worker_does_at_once():
    # Six are leased at once, as some wait in memory. When the fourth is done, the first two are still running.
    spans = attempts((0, 50), (1, 60), (2, 10), (3, 20), (4, 70), (5, 80))
    assert Capacity.of(spans) == Capacity(workers=1, concurrency=3)


def test_attempts_that_are_settled_together_are_not_beside_each_other():
    assert Capacity.of(attempts((0, 50), (1, 50), (2, 50))).concurrency == 1


def test_workers_are_counted_while_they_are_at_work():
    first, second, third = (
        attempts(span, worker=name) for name, span in {"a": (0, 9), "b": (5, 20), "c": (9, 30)}.items()
    )
    assert Capacity.of([*first, *second, *third]) == Capacity(workers=2, concurrency=1)


def test_a_handler_began_when_a_slot_was_free():
    spans = attempts((0, 10), (0, 30), (0, 20), (0, 35), (40, 45))
    assert [run for _, run in runs(spans, 2)] == [10, 30, 10, 15, 5]
    assert [run for _, run in runs(spans, 4)] == [10, 30, 20, 35, 5]


def test_a_handler_whose_start_is_known_began_then():
    known = [attempt._replace(started=True) for attempt in attempts((0, 10), (9, 12), (11, 15))]
    assert [run for _, run in runs(known, 1)] == [10, 3, 4]


def test_attempts_of_all_kinds_come_in_the_order_of_their_leases(lake: Path):
    retried = row(leased=20, settled=21, dequeue_at=at(20), attempts=2, errors=[failure(1, 0, 5)])
    workload = load(make_lake(lake, archive=[retried, row(leased=4, settled=6)]))
    found = [(seconds(attempt.start), seconds(attempt.end)) for attempt in workload.attempts()]
    assert found == [(0, 5), (4, 6), (20, 21)]
    # The second one waited in memory until the first attempt had failed.
    assert [message.runs for message in workload.messages(1)] == [(5 * SECOND, SECOND), (SECOND,)]


def test_the_pace_is_that_of_the_worker():
    from django_pgqueue.spark.simulate import pace as ours
    from django_pgqueue.worker.run import pace as theirs

    assert ours.LONGEST_WAIT_MICROSECONDS == theirs.LONGEST_WAIT_SECONDS * SECOND
    chance = random.Random(1)
    mine, real = ours.SimulatedPace(4, 100), theirs.HandlerPace(4, 100)
    for _ in range(300):
        run = chance.randrange(1, 200_000)
        mine.passed(run)
        real.passed(1, run / SECOND)
        waiting, running = chance.randrange(20), chance.randrange(5)
        assert mine.room(waiting, 4 - running) == real.room(waiting, running)


def test_a_damaged_snapshot_of_the_channels_is_named(lake: Path):
    [path] = make_lake(lake, channel=[channel("a")]).files("channel")
    path.write_bytes(b"damaged")

    with pytest.raises(PipelineError, match=f"{path} cannot be read"):
        in_force([str(path)], "default", ZERO)


def test_limits_in_force_are_those_of_the_first_snapshot_after_it(lake: Path):
    snapshots = [
        channel("a", exported=10, max_concurrency=1),
        channel("gone", exported=10, release_interval_seconds=0.25, release_burst=4, weight=3),
        channel("a", exported=50, max_concurrency=2, paused_at=at(45)),
        channel("a", exported=90, max_concurrency=9),
        channel("a", exported=50, queue="other"),
    ]
    made = make_lake(lake, channel=snapshots)
    paths = [str(path) for path in made.files("channel")]
    gone = ChannelLimits(release_interval=250_000, release_burst=4, weight=3)
    assert in_force(paths, "default", ZERO + 20 * SECOND) == {"a": ChannelLimits(max_concurrency=2), "gone": gone}
    assert in_force(paths, "default", ZERO + 500 * SECOND) == {"a": ChannelLimits(max_concurrency=9), "gone": gone}
    assert in_force([], "default", ZERO) == {}


def test_a_released_channel_drains_without_limits(lake: Path):
    made = make_lake(lake, channel=[channel("a", max_concurrency=1, released_at=at(0), weight=2)])
    assert in_force([str(path) for path in made.files("channel")], "default", ZERO) == {"a": ChannelLimits(weight=2)}


@pytest.mark.parametrize("released", [None, at(0)])
def test_an_ordered_channel_is_known_from_its_snapshot(lake: Path, released: datetime | None):
    snapshot = channel("a", max_concurrency=1, ordered=True, on_dead="pause", released_at=released)
    made = make_lake(lake, channel=[snapshot])
    # A channel that a dead letter paused ran later: the archive has it.
    expected = ChannelLimits(max_concurrency=None if released else 1, ordered=True)
    assert in_force([str(path) for path in made.files("channel")], "default", ZERO) == {"a": expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.max_concurrency=8", Change("a", "max_concurrency", 8)),
        ("a.max_concurrency=none", Change("a", "max_concurrency", None)),
        ("weight=2", Change(None, "weight", 2)),
        (".weight=2", Change("", "weight", 2)),
        ("a.b=c/ü.weight=1.release_burst=3", Change("a.b=c/ü.weight=1", "release_burst", 3)),
        ("a.release_interval=500ms", Change("a", "release_interval", 500_000)),
        ("a.release_interval=0.25", Change("a", "release_interval", 250_000)),
        ("a.release_interval=2m", Change("a", "release_interval", 120_000_000)),
        ("a.paused=yes", Change("a", "paused", True)),
    ],
)
def test_changes_are_read(text: str, expected: Change):
    assert Change.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "a", "a.max_concurrency", "a.max_size=3", "a.weight=0", "a.weight=none", "a.weight=-1", "a.paused=1",
     "a.release_interval=0", "a.release_interval=soon", "a.max_concurrency=1.5"],
)  # fmt: skip
def test_a_change_that_makes_no_sense_is_refused(text: str):
    with pytest.raises(ValueError, match=r"\w"):
        Change.parse(text)


def test_changes_follow_one_another_and_know_their_channels():
    changes = [Change(None, "weight", 2), Change("a", "weight", 5)]
    assert changed({"a": ChannelLimits(), "b": ChannelLimits()}, changes) == {
        "a": ChannelLimits(weight=5),
        "b": ChannelLimits(weight=2),
    }
    with pytest.raises(PipelineError, match=r"'typo'.*Choose one of a"):
        changed({"a": ChannelLimits()}, [Change("typo", "weight", 2)])
