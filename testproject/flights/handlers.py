"""What happens with the message of a departure."""

from __future__ import annotations

from django.db.models import F
from django.db.models.functions import Greatest

from django_pgqueue import DeadLetter, Delivery, handler
from flights.channels import QUEUE
from flights.models import AircraftLog, Departure, RouteStatistics


@handler("flights.depart", queue=QUEUE, atomic=True)
def depart(delivery: Delivery) -> None:
    """Keep the aircraft log and the route statistics. ``atomic``: what is written here and the completion commit together, once."""
    departure = Departure.objects.get(pk=delivery.payload["departure"])
    if departure.departed_at is None:
        raise DeadLetter("never_departed", {"flight": str(departure)})
    AircraftLog.objects.create(
        departure=departure, plane_id=departure.plane_id, miles=departure.distance, air_time=departure.air_time
    )
    route = {"carrier_id": departure.carrier_id, "origin_id": departure.origin_id, "dest_id": departure.dest_id}
    add = {
        "departures": F("departures") + 1,
        "delay": F("delay") + departure.departure_delay,
        "max_delay": Greatest("max_delay", departure.departure_delay),
        "distance": F("distance") + departure.distance,
    }
    if not RouteStatistics.objects.filter(**route).update(**add):
        RouteStatistics.objects.bulk_create([RouteStatistics(**route, max_delay=departure.departure_delay)], ignore_conflicts=True)
        RouteStatistics.objects.filter(**route).update(**add)
