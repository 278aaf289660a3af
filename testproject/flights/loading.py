"""Writes the rows of the file; each departure enqueues its message in the transaction that writes its row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from django.db import connection, transaction

from django_pgqueue import NewMessage, enqueue, enqueue_many
from django_pgqueue.models import Message
from flights import source
from flights.channels import OFFICE, QUEUE
from flights.models import AircraftLog, Airline, Airport, Departure, Plane, RouteStatistics
from flights.source import Flight

HANDLER = "flights.depart"
BLOCK = 500


class Counts(NamedTuple):
    rows: int
    messages: int


@dataclass(frozen=True, slots=True)
class Rollback:
    """The counts before, inside of and after a transaction that ended with an exception."""

    before: Counts
    inside: Counts
    after: Counts

    @property
    def clean(self) -> bool:
        return (
            self.inside.rows > self.before.rows
            and self.inside.messages > self.before.messages
            and self.after == self.before
        )


class OnPurpose(Exception):
    """Ends a transaction that is to be rolled back."""


def reset() -> None:
    """Empty the tables of the demo, and the demo's queues; other queues are left alone."""
    tables = [model._meta.db_table for model in (AircraftLog, RouteStatistics, Departure, Plane, Airport, Airline)]
    with transaction.atomic(), connection.cursor() as cursor:
        # Not with the verbs: those keep a record of everything, and this is to be as if nothing had been.
        for condition, table in (
            ("channel_id IN (SELECT id FROM pgqueue_channel WHERE queue = ANY (%s))", "pgqueue_message"),
            ("queue = ANY (%s)", "pgqueue_archived_message"),
            ("queue = ANY (%s)", "pgqueue_dead_letter"),
            ("queue = ANY (%s)", "pgqueue_queue_metric"),
        ):
            cursor.execute(f"DELETE FROM {table} WHERE {condition}", [[QUEUE, OFFICE]])  # noqa: S608
        cursor.execute(f"TRUNCATE {', '.join(tables)}")


def load_reference() -> None:
    """Airlines, airports and planes."""
    Airline.objects.bulk_create(Airline(code=row["carrier"], name=row["name"]) for row in source.table("airlines"))
    Airport.objects.bulk_create(
        Airport(code=row["faa"], name=row["name"], latitude=float(row["lat"]), longitude=float(row["lon"]))
        for row in source.table("airports")
    )
    Plane.objects.bulk_create(
        Plane(
            tailnum=row["tailnum"],
            year=source.number(row["year"]),
            manufacturer=row["manufacturer"],
            model=row["model"],
            seats=source.number(row["seats"]),
        )
        for row in source.table("planes")
    )


def blocks(flights: Iterable[Flight], size: int = BLOCK) -> Iterator[list[Flight]]:
    rest = iter(flights)
    while block := list(islice(rest, size)):
        yield block


class Loader:
    """Writes departures and their messages; ``enqueued`` counts by carrier what was committed."""

    def __init__(self) -> None:
        self.enqueued: Counter[str] = Counter()
        self._planes = set(Plane.objects.values_list("pk", flat=True))
        self._airports = set(Airport.objects.values_list("pk", flat=True))

    def load_one(self, flight: Flight) -> None:
        """The way of a request that handles one thing: create() and enqueue()."""
        with transaction.atomic():
            self._write_unknown([flight])
            departure(flight).save(force_insert=True)
            enqueue(HANDLER, payload(flight), channel=flight.carrier, queue=QUEUE)
        self._committed([flight])

    def load_block(self, flights: list[Flight]) -> None:
        """The way of an import: bulk_create() and enqueue_many()."""
        with transaction.atomic():
            self._write_block(flights)
        self._committed(flights)

    def load_and_roll_back(self, flights: list[Flight]) -> Rollback:
        """Write a block like any other, then fail."""
        before = count()
        inside = before
        try:
            with transaction.atomic():
                self._write_block(flights)
                inside = count()
                raise OnPurpose
        except OnPurpose:
            return Rollback(before, inside, count())

    def _write_block(self, flights: list[Flight]) -> None:
        self._write_unknown(flights)
        Departure.objects.bulk_create(map(departure, flights))
        enqueue_many(
            NewMessage(handler=HANDLER, payload=payload(flight), channel=flight.carrier, queue=QUEUE)
            for flight in flights
        )

    def _write_unknown(self, flights: list[Flight]) -> None:
        """Some planes and airports are in no other file."""
        planes = {flight.tailnum for flight in flights if flight.tailnum} - self._planes
        airports = {flight.dest for flight in flights} - self._airports
        if planes:
            Plane.objects.bulk_create(Plane(tailnum=tailnum) for tailnum in sorted(planes))
        if airports:
            Airport.objects.bulk_create(Airport(code=code) for code in sorted(airports))

    def _committed(self, flights: list[Flight]) -> None:
        self.enqueued.update(flight.carrier for flight in flights)
        self._planes.update(flight.tailnum for flight in flights if flight.tailnum)
        self._airports.update(flight.dest for flight in flights)


def count() -> Counts:
    return Counts(Departure.objects.count(), Message.objects.filter(channel__queue=QUEUE).count())


def payload(flight: Flight) -> dict[str, int]:
    return {"departure": flight.line}


def departure(flight: Flight) -> Departure:
    return Departure(
        line=flight.line,
        carrier_id=flight.carrier,
        number=flight.number,
        plane_id=flight.tailnum,
        origin_id=flight.origin,
        dest_id=flight.dest,
        scheduled_at=flight.scheduled_at,
        departed_at=flight.departed_at,
        departure_delay=flight.departure_delay,
        arrival_delay=flight.arrival_delay,
        air_time=flight.air_time,
        distance=flight.distance,
    )
