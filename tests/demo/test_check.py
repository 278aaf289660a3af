"""The check finds what is wrong. The messages are worked off in this process, by the verbs and the handler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import F
from flights import source
from flights.channels import OFFICE, PAUSED, QUEUE, open_channels
from flights.demo.check import check
from flights.handlers import depart
from flights.loading import Loader, load_reference
from flights.models import AircraftLog, Airline, RouteStatistics

from django_pgqueue import channel_resume, complete, dead_letter, dequeue, enqueue
from django_pgqueue.models import ArchivedMessage, DeadLetter
from tests.support.cases import cases

# The first departure that never took place is in line 839 of the file.
LINES = 850
# The first that left late.
LATE = 152
SEATTLE = "departures 2, delay -8, max_delay -1, distance 4,804"

pytestmark = pytest.mark.django_db


@pytest.fixture
def worked_off() -> None:
    load_reference()
    open_channels(Airline.objects.values_list("pk", flat=True))
    channel_resume(channel=PAUSED, queue=QUEUE)
    Loader().load_block(list(source.flights(LINES)))
    while deliveries := dequeue(QUEUE, 500):
        refused = depart(deliveries)
        complete(delivery for delivery in deliveries if delivery.id not in refused)
        for delivery in deliveries:
            if delivery.id in refused:
                dead_letter(delivery, reason=refused[delivery.id].reason)
    complete(dequeue(OFFICE, 500))


def differences() -> list[str]:
    return [difference for found in check(source.flights(LINES)) for difference in found.differences]


def test_the_rows_that_the_handler_wrote_match_the_file(worked_off: None) -> None:
    found = check(source.flights(LINES))

    assert [(one.what, one.matches) for one in found] == [
        ("every departure once", True),
        ("route statistics", True),
        ("aircraft log", True),
        ("dead letters", True),
        ("mails", True),
    ]


def archived(line: int) -> dict[str, Any]:
    return ArchivedMessage.objects.filter(payload__departure=line).values()[0]


DAMAGES: dict[str, tuple[Callable[[], object], list[str]]] = {
    "a statistic is off by one": (
        lambda: RouteStatistics.objects.filter(pk="AS EWR-SEA").update(distance=F("distance") + 1),
        [f"route AS EWR-SEA: {SEATTLE} in the file, {SEATTLE[:-1]}5 in the database"],
    ),
    "a route is missing": (
        lambda: RouteStatistics.objects.filter(pk="AS EWR-SEA").delete(),
        ["route AS EWR-SEA: departures 2, delay -8, max_delay -1, distance 4,804 in the file, nothing in the database"],
    ),
    "an entry of the log is missing": (
        lambda: AircraftLog.objects.filter(pk=79).delete(),
        [
            "departure 79: an entry in the file, nothing in the database",
            "plane N594AS: 1 flights, 2,402 miles in the file, nothing in the database",
        ],
    ),
    "a message ran twice": (
        lambda: ArchivedMessage.objects.create(
            **ArchivedMessage.objects.filter(payload__departure=79).values()[0] | {"id": -1}
        ),
        ["departure 79: a row, settled once in the file, a row, settled twice in the database"],
    ),
    "a message vanished": (
        lambda: ArchivedMessage.objects.filter(payload__departure=79).delete(),
        ["departure 79: a row, settled once in the file, a row, settled never in the database"],
    ),
    "a message still waits": (
        lambda: enqueue("flights.depart", {"departure": 79}, channel="UA", queue=QUEUE),
        ["still in the queue: 1"],
    ),
    "a mail was not sent": (
        lambda: ArchivedMessage.objects.filter(handler="flights.apologise", payload__departure=LATE).delete(),
        [f"mail {LATE}: once in the file, nothing in the database"],
    ),
    "a dead letter has another reason": (
        lambda: DeadLetter.objects.filter(payload__departure=839).update(reason="failed"),
        ["departure 839: never_departed in the file, failed in the database"],
    ),
}


@cases("damage", DAMAGES)
def test_it_finds_the_difference_when(damage: str, worked_off: None) -> None:
    do, found = DAMAGES[damage]
    do()
    assert differences() == found
