"""Compares what the messages left in the database with the file, which is read again: nothing is taken on trust."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Sum

from django_pgqueue.models import ArchivedMessage, DeadLetter
from flights.channels import OFFICE, PASSENGERS, QUEUE
from flights.demo.work import left
from flights.handlers import LATE
from flights.models import AircraftLog, Departure, RouteStatistics
from flights.source import Flight


@dataclass(frozen=True, slots=True)
class Check:
    """``what`` was compared, ``size`` says how much of it; no differences: it matches."""

    what: str
    size: str
    differences: list[str]

    @property
    def matches(self) -> bool:
        return not self.differences


@dataclass(slots=True)
class Expected:
    """Sums over the file, computed in plain Python."""

    flights: int = 0
    flown: set[int] = field(default_factory=set)
    never_departed: set[int] = field(default_factory=set)
    # departures, delay, max_delay, distance
    routes: dict[str, list[int]] = field(default_factory=dict)
    # entries, miles
    planes: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    late: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, flights: Iterable[Flight]) -> Expected:
        expected = cls()
        for flight in flights:
            expected.flights += 1
            if flight.departed_at is None or flight.departure_delay is None or flight.tailnum is None:
                expected.never_departed.add(flight.line)
                continue
            expected.flown.add(flight.line)
            delay = flight.departure_delay
            route = expected.routes.setdefault(f"{flight.carrier} {flight.origin}-{flight.dest}", [0, 0, delay, 0])
            route[0] += 1
            route[1] += delay
            route[2] = max(route[2], delay)
            route[3] += flight.distance
            plane = expected.planes[flight.tailnum]
            plane[0] += 1
            plane[1] += flight.distance
            if delay >= LATE:
                expected.late.add(flight.line)
        return expected


def check(flights: Iterable[Flight]) -> list[Check]:
    """All comparisons, in the order in which they should be read."""
    expected = Expected.of(flights)
    return [_once(expected), _routes(expected), _log(expected), _dead_letters(expected), _mails(expected)]


def _once(expected: Expected) -> Check:
    """Every departure has its row, and its message was settled once: completed, or dead-lettered."""
    rows = set(Departure.objects.values_list("pk", flat=True))
    settled = Counter(_departures(ArchivedMessage)) + Counter(_departures(DeadLetter))
    differences = compare(
        dict.fromkeys(expected.flown | expected.never_departed, "a row, settled once"),
        {line: f"{'a' if line in rows else 'no'} row, settled {times(settled[line])}" for line in rows | set(settled)},
        "departure",
    )
    if waiting := left():
        differences.insert(0, f"still in the queue: {waiting:,}")
    return Check("every departure once", f"{expected.flights:,} departures", differences)


def _routes(expected: Expected) -> Check:
    fields = ("departures", "delay", "max_delay", "distance")
    stored = {row[0]: list(row[1:]) for row in RouteStatistics.objects.values_list("route", *fields)}
    names = lambda sums: ", ".join(f"{name} {value:,}" for name, value in zip(fields, sums, strict=True))  # noqa: E731
    return Check(
        "route statistics",
        f"{len(expected.routes):,} routes",
        compare(
            {route: names(sums) for route, sums in expected.routes.items()},
            {route: names(sums) for route, sums in stored.items()},
            "route",
        ),
    )


def _log(expected: Expected) -> Check:
    entries = set(AircraftLog.objects.values_list("pk", flat=True))
    stored = AircraftLog.objects.order_by().values_list("plane").annotate(Count("pk"), Sum("miles"))
    differences = compare(dict.fromkeys(expected.flown, "an entry"), dict.fromkeys(entries, "an entry"), "departure")
    differences += compare(
        {plane: f"{flights:,} flights, {miles:,} miles" for plane, (flights, miles) in expected.planes.items()},
        {plane: f"{flights:,} flights, {miles:,} miles" for plane, flights, miles in stored},
        "plane",
    )
    return Check("aircraft log", f"{len(expected.flown):,} entries of {len(expected.planes):,} planes", differences)


def _dead_letters(expected: Expected) -> Check:
    letters = DeadLetter.objects.filter(queue=QUEUE).values_list("payload__departure", "reason")
    return Check(
        "dead letters",
        f"{len(expected.never_departed):,} that never departed",
        compare(dict.fromkeys(expected.never_departed, "never_departed"), dict(letters), "departure"),
    )


def _mails(expected: Expected) -> Check:
    mails = ArchivedMessage.objects.filter(queue=OFFICE, channel=PASSENGERS, outcome="completed")
    sent = Counter(mails.values_list("payload__departure", flat=True))
    return Check(
        "mails",
        f"{len(expected.late):,} late departures",
        compare(dict.fromkeys(expected.late, "once"), {line: times(count) for line, count in sent.items()}, "mail"),
    )


def _departures(model: type[ArchivedMessage] | type[DeadLetter]) -> Iterable[int]:
    return model.objects.filter(queue=QUEUE).order_by().values_list("payload__departure", flat=True).iterator()


def compare(
    expected: Mapping[Any, str],
    stored: Mapping[Any, str],
    what: str,
    places: tuple[str, str] = ("the file", "the database"),
) -> list[str]:
    """One sentence a difference."""
    keys: set[Hashable] = {key for key in expected.keys() | stored.keys() if expected.get(key) != stored.get(key)}
    return [
        f"{what} {key}: {expected.get(key, 'nothing')} in {places[0]}, {stored.get(key, 'nothing')} in {places[1]}"
        for key in sorted(keys, key=lambda key: (str(type(key)), key))
    ]


def times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
