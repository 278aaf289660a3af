"""The content of the file (airlines, airports, planes, departures), and the handler's results (log, statistics)."""

from __future__ import annotations

from typing import Self

from django.db import models


class Airline(models.Model):
    code = models.CharField(max_length=2, primary_key=True)
    name = models.CharField(max_length=100)

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return f"{self.code} {self.name}"


class Airport(models.Model):
    code = models.CharField(max_length=3, primary_key=True)
    name = models.CharField(max_length=100, blank=True)
    latitude = models.FloatField(null=True)
    longitude = models.FloatField(null=True)

    class Meta:
        ordering = ["code"]

    def __str__(self) -> str:
        return f"{self.code} {self.name}".strip()


class Plane(models.Model):
    tailnum = models.CharField(max_length=6, primary_key=True)
    year = models.PositiveSmallIntegerField(null=True, help_text="Of manufacture.")
    manufacturer = models.CharField(max_length=100, blank=True)
    model = models.CharField(max_length=100, blank=True)
    seats = models.PositiveSmallIntegerField(null=True)

    class Meta:
        ordering = ["tailnum"]

    def __str__(self) -> str:
        return self.tailnum


class Departure(models.Model):
    """A line of the file. Its message is enqueued in the transaction that writes this row."""

    line = models.PositiveIntegerField(primary_key=True, help_text="Of flights.csv, from 1.")
    carrier = models.ForeignKey(Airline, models.PROTECT, db_index=False)
    number = models.PositiveIntegerField("flight number")
    plane = models.ForeignKey(Plane, models.PROTECT, null=True, db_index=False)
    origin = models.ForeignKey(Airport, models.PROTECT, related_name="+", db_index=False)
    dest = models.ForeignKey(Airport, models.PROTECT, related_name="+", db_index=False, verbose_name="destination")
    scheduled_at = models.DateTimeField()
    departed_at = models.DateTimeField(null=True, help_text="Empty: it never did.")
    departure_delay = models.SmallIntegerField(null=True, help_text="Minutes; negative: early.")
    arrival_delay = models.SmallIntegerField(null=True, help_text="Minutes. Empty: diverted, or it never departed.")
    air_time = models.PositiveSmallIntegerField(null=True, help_text="Minutes.")
    distance = models.PositiveIntegerField(help_text="Miles.")

    class Meta:
        ordering = ["line"]

    def __str__(self) -> str:
        return f"{self.carrier_id}{self.number} {self.origin_id}-{self.dest_id} {self.scheduled_at:%Y-%m-%d %H:%M}"

    @property
    def route(self) -> str:
        return f"{self.carrier_id} {self.origin_id}-{self.dest_id}"


class AircraftLog(models.Model):
    """An entry for each departure that flew. The key allows one a departure: a message that ran twice would fail."""

    departure = models.OneToOneField(Departure, models.CASCADE, primary_key=True)
    plane = models.ForeignKey(Plane, models.PROTECT, related_name="log")
    miles = models.PositiveIntegerField()
    air_time = models.PositiveSmallIntegerField(null=True, help_text="Minutes. Empty: diverted.")

    class Meta:
        ordering = ["departure"]
        verbose_name = "aircraft log entry"
        verbose_name_plural = "aircraft log"

    def __str__(self) -> str:
        return f"{self.plane_id} #{self.departure_id}"


class RouteStatistics(models.Model):
    """Sums over the departures of a carrier on a route that flew."""

    SUMS = ["departures", "delay", "max_delay", "distance"]

    route = models.CharField(max_length=10, primary_key=True, help_text="Carrier, origin and destination: UA EWR-IAH.")
    carrier = models.ForeignKey(Airline, models.PROTECT, db_index=False)
    origin = models.ForeignKey(Airport, models.PROTECT, related_name="+", db_index=False)
    dest = models.ForeignKey(Airport, models.PROTECT, related_name="+", db_index=False, verbose_name="destination")
    departures = models.PositiveIntegerField(default=0)
    delay = models.BigIntegerField("total delay", default=0, help_text="Minutes; early departures count against it.")
    max_delay = models.IntegerField(help_text="Minutes.")
    distance = models.PositiveBigIntegerField("total distance", default=0, help_text="Miles.")

    class Meta:
        ordering = ["route"]
        verbose_name_plural = "route statistics"

    def __str__(self) -> str:
        return self.route

    @classmethod
    def empty(cls, departure: Departure) -> Self:
        """The row to begin with; ``departure`` is not counted yet."""
        return cls(
            route=departure.route,
            carrier_id=departure.carrier_id,
            origin_id=departure.origin_id,
            dest_id=departure.dest_id,
            max_delay=departure.departure_delay,
        )

    def add(self, departure: Departure) -> None:
        assert departure.departure_delay is not None, "it never departed"
        self.departures += 1
        self.delay += departure.departure_delay
        self.max_delay = max(self.max_delay, departure.departure_delay)
        self.distance += departure.distance
