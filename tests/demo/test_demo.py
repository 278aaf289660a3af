"""The demo from end to end: real rows, a real worker process, the check against the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection
from django.db.models import F
from flights.channels import ONE_AT_A_TIME, QUEUE
from flights.demo.run import LOCK
from flights.models import AircraftLog, Departure, RouteStatistics

from django_pgqueue import channel_set, enqueue
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message
from tests.demo.conftest import Manage
from tests.support.sessions import Connect

# The first departure that never took place is in line 839 of the file.
SLICE = "900"
NEVER = 4

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_slice_of_the_flights_matches_the_file(manage: Manage) -> None:
    demo = manage("demo", "--no-lake", FLIGHTS=SLICE)

    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stderr == ""
    assert demo.stdout.count("match\n") == 5
    assert "1 leased at once" in demo.stdout
    assert "HA is paused: 1 of its messages wait, all others are done" in demo.stdout
    assert "reports, the last one of" in demo.stdout
    assert "ticks that fired twice: none" in demo.stdout
    assert "18 sent, 7 of them at the second attempt or later" in demo.stdout
    assert 'kept with the message: "ConnectionError: the mail server does not answer"' in demo.stdout
    assert "messages/s through one worker process" in demo.stdout
    assert "16 carriers flew 961,710 miles; what followed their batch, once, has 16 carriers and" in demo.stdout
    assert "make admin" in demo.stdout
    assert Departure.objects.count() == 900
    assert AircraftLog.objects.count() == 900 - NEVER
    assert ArchivedMessage.objects.filter(queue=QUEUE, outcome="completed").count() == 900 - NEVER
    assert set(DeadLetter.objects.values_list("reason", flat=True)) == {"never_departed"}
    assert not Message.objects.exists()


@pytest.mark.timeout(1200)
def test_a_second_run_begins_from_the_beginning_and_leaves_other_queues_alone(manage: Manage, tmp_path: Path) -> None:
    channel_set(channel="default")
    mine = enqueue("somebody.else", {"departure": 1}).id
    assert manage("demo", "--flights", "300").returncode == 0
    channel_set(channel="UA", queue=QUEUE, max_concurrency=7)

    again = manage("demo", "--flights", "200", "--workers", "2", "--concurrency", "2")

    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout.count("match\n") == 6
    assert "The lake is whole." in again.stdout
    assert "Time travel: the archive in the lake had 0 rows in version 0, and has " in again.stdout
    assert "dead letters chosen, " in again.stdout
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert "2 worker processes" in again.stdout
    assert Departure.objects.count() == 200
    assert ArchivedMessage.objects.filter(queue=QUEUE).count() == 200
    assert list(Message.objects.values_list("pk", flat=True)) == [mine]
    assert Channel.objects.get(queue=QUEUE, name="UA").max_concurrency is None


def test_a_run_after_a_killed_worker_is_not_held_up_by_its_leases(manage: Manage) -> None:
    assert manage("demo", "--no-lake", "--flights", "300").returncode == 0
    for _ in range(3):
        enqueue("flights.depart", {"departure": 1}, channel=ONE_AT_A_TIME, queue=QUEUE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pgqueue_dequeue(%s, 3, '1 hour')", [QUEUE])
        assert cursor.fetchone() == (1,)

    again = manage("demo", "--no-lake", "--flights", "300")

    assert again.returncode == 0, again.stdout + again.stderr


def test_a_corrupted_statistic_is_a_mismatch(manage: Manage) -> None:
    assert manage("demo", "--no-lake", "--flights", "300").returncode == 0
    RouteStatistics.objects.filter(pk="UA EWR-IAH").update(delay=F("delay") + 1)

    demo = manage("demo", "--check", "--flights", "300")

    assert demo.returncode == 1
    assert demo.stdout.count("MISMATCH") == 1
    assert (
        "route UA EWR-IAH: departures 4, delay 1, max_delay 2, distance 5,600 in the file, departures 4, delay 2, "
        in demo.stdout
    )


def test_a_folder_that_is_no_lake_is_left_alone(manage: Manage, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("the only copy")

    demo = manage("demo", "--flights", "10", PGQUEUE_LAKE=str(tmp_path))

    assert (demo.returncode, demo.stderr) == (
        1,
        f"CommandError: {tmp_path} is no lake, so the demo does not touch it: move it away.\n",
    )
    assert (tmp_path / "thesis.txt").exists()


def test_a_number_of_flights_that_is_none_is_refused_in_one_line(manage: Manage) -> None:
    for nonsense in ("many", "0", "-5", "1.5"):
        demo = manage("demo", FLIGHTS=nonsense)
        assert (demo.returncode, demo.stdout) == (1, "")
        assert demo.stderr == f"CommandError: FLIGHTS takes a number from 1, or all; not {nonsense!r}.\n"


def test_two_demos_do_not_run_on_one_database(manage: Manage, connect: Connect) -> None:
    connect(autocommit=True).execute("SELECT pg_advisory_lock(%s)", (LOCK,))

    demo = manage("demo", "--flights", "10")

    assert (demo.returncode, demo.stdout) == (1, "")
    assert demo.stderr == "CommandError: Another demo is running on this database.\n"


def test_a_database_without_tables_is_reported_in_one_line(manage: Manage, connect: Connect, pg_url: str) -> None:
    session = connect(autocommit=True)
    session.execute("CREATE DATABASE flights_nowhere")
    try:
        demo = manage("demo", DATABASE_URL=pg_url.replace(f"/{session.info.dbname}?", "/flights_nowhere?"))
    finally:
        session.execute("DROP DATABASE flights_nowhere")

    assert demo.returncode == 1
    assert demo.stderr == (
        'CommandError: relation "pgqueue_message" does not exist (manage.py migrate makes the tables)\n'
    )
