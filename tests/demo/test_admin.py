from __future__ import annotations

from django.contrib.admin import site
from django.test import Client
from django.urls import reverse
from flights import source
from flights.channels import open_channels
from flights.loading import Loader, load_reference
from flights.models import AircraftLog, Airline, Departure, RouteStatistics

from tests.support.cases import cases

MODELS = sorted(
    (model for model in site._registry if model._meta.app_label == "flights"), key=lambda model: model.__name__
)


@cases("model", MODELS)
def test_the_admin_lists_the_flights_in_few_queries(model, admin_client: Client, django_assert_max_num_queries) -> None:
    load_reference()
    open_channels(Airline.objects.values_list("pk", flat=True))
    Loader().load_block(list(source.flights(30)))
    departure = Departure.objects.first()
    AircraftLog.objects.create(departure=departure, plane_id=departure.plane_id, miles=departure.distance)
    RouteStatistics.empty(departure).save()

    with django_assert_max_num_queries(8):
        page = admin_client.get(reverse(f"admin:flights_{model._meta.model_name}_changelist"))

    assert page.status_code == 200
    assert page.context["cl"].result_count > 0
