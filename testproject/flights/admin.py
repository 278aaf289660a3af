from django.contrib import admin
from django.http import HttpRequest

from flights.models import AircraftLog, Airline, Airport, Departure, Plane, RouteStatistics


class ReadOnly(admin.ModelAdmin):
    """Only the file and the messages write here."""

    show_full_result_count = False
    list_per_page = 50

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        return False


@admin.register(Airline)
class AirlineAdmin(ReadOnly):
    list_display = ["code", "name"]


@admin.register(Airport)
class AirportAdmin(ReadOnly):
    list_display = ["code", "name", "latitude", "longitude"]
    search_fields = ["code", "name"]


@admin.register(Plane)
class PlaneAdmin(ReadOnly):
    list_display = ["tailnum", "manufacturer", "model", "year", "seats"]
    search_fields = ["=tailnum", "manufacturer"]


@admin.register(Departure)
class DepartureAdmin(ReadOnly):
    list_display = ["line", "carrier_id", "number", "plane_id", "origin_id", "dest_id", "scheduled_at", "departed_at"]
    list_filter = ["carrier"]


@admin.register(AircraftLog)
class AircraftLogAdmin(ReadOnly):
    list_display = ["departure_id", "plane_id", "miles", "air_time"]
    search_fields = ["=plane__tailnum"]


@admin.register(RouteStatistics)
class RouteStatisticsAdmin(ReadOnly):
    list_display = ["route", "departures", "delay", "max_delay", "distance"]
    list_filter = ["carrier"]
