"""The handlers of a departure's message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from django.db.models import Sum

from django_pgqueue import Complete, Delivery, NewMessage, Reject, enqueue_many, handler, schedule
from django_pgqueue.flow import batch_of
from flights.channels import OFFICE, PASSENGERS, QUEUE, TOWER
from flights.models import AircraftLog, Departure, RouteStatistics

# Minutes.
LATE: Final = 120
# Each so-manieth mail fails at first.
UNLUCKY: Final = 3


@handler("flights.depart", queue=QUEUE, atomic=True, batch=100)
def depart(deliveries: Sequence[Delivery]) -> dict[int, Reject]:
    """Keep the aircraft log and the route statistics; refuse what never departed.

    ``batch``: many messages in one call, so that the ORM is asked once for all of them. ``atomic``: what is written
    here and the completion of the messages commit together, exactly once.
    """
    departures = Departure.objects.in_bulk(delivery.payload["departure"] for delivery in deliveries)
    flown = []
    refused = {}
    for delivery in deliveries:
        departure = departures[delivery.payload["departure"]]
        if departure.departed_at is None:
            refused[delivery.id] = Reject("never_departed", {"flight": str(departure)})
        else:
            flown.append(departure)
    AircraftLog.objects.bulk_create(
        AircraftLog(
            departure=departure, plane_id=departure.plane_id, miles=departure.distance, air_time=departure.air_time
        )
        for departure in flown
    )
    count(flown)
    enqueue_many(
        NewMessage(handler="flights.apologise", payload={"departure": departure.pk}, channel=PASSENGERS)
        for departure in flown
        if departure.departure_delay >= LATE
    )
    return refused


@handler("flights.apologise", queue=OFFICE, backoff=timedelta(milliseconds=50))
def apologise(delivery: Delivery) -> Complete:
    """Write to the passengers of a late departure, through a mail server that is away now and then.

    An exception that is raised here is kept with the message, which is delivered again after a back-off.
    """
    departure = delivery.payload["departure"]
    if delivery.attempt == 1 and departure % UNLUCKY == 0:
        raise ConnectionError("the mail server does not answer")
    return Complete(result=f"the passengers of departure {departure} have been told")


@schedule(timedelta(seconds=1), name=TOWER, channel=TOWER, enabled=False)
@handler("flights.tower", queue=OFFICE)
def report(delivery: Delivery) -> Complete:
    """How many have departed: a line of the archive for each second that the demo works."""
    return Complete(result={"departed": AircraftLog.objects.count()})


@handler("flights.sum_up", queue=OFFICE)
def sum_up(delivery: Delivery) -> Complete:
    """How far a carrier flew: a member of a batch."""
    entries = AircraftLog.objects.filter(departure__carrier=delivery.payload["carrier"])
    return Complete(result=entries.aggregate(miles=Sum("miles", default=0)))


@handler("flights.total", queue=OFFICE)
def total(delivery: Delivery) -> Complete:
    """How far all flew: what follows the batch, once, after its last member."""
    miles = AircraftLog.objects.aggregate(miles=Sum("miles", default=0))
    return Complete(result=miles | {"carriers": batch_of(delivery).counts().done})


def count(flown: Iterable[Departure]) -> None:
    """Add the departures to the statistics of their routes."""
    by_route: dict[str, list[Departure]] = defaultdict(list)
    for departure in flown:
        by_route[departure.route].append(departure)
    # In one order, here and below: then two workers may wait for each other, but never both at once.
    keys = sorted(by_route)
    RouteStatistics.objects.bulk_create(
        (RouteStatistics.empty(by_route[key][0]) for key in keys), ignore_conflicts=True
    )
    routes = list(RouteStatistics.objects.select_for_update().filter(pk__in=keys).order_by("pk"))
    for route in routes:
        for departure in by_route[route.pk]:
            route.add(departure)
    RouteStatistics.objects.bulk_create(
        routes, update_conflicts=True, unique_fields=["route"], update_fields=RouteStatistics.SUMS
    )
