"""A row and its message exist together or not at all."""

from __future__ import annotations

import pytest
from flights import source
from flights.channels import QUEUE, open_channels
from flights.loading import Counts, Loader, count, load_reference
from flights.models import Airline, Departure, Plane

from django_pgqueue.models import Message

pytestmark = pytest.mark.django_db


@pytest.fixture
def loader() -> Loader:
    load_reference()
    open_channels(Airline.objects.values_list("pk", flat=True))
    return Loader()


def test_a_transaction_that_fails_leaves_neither_rows_nor_messages(loader: Loader) -> None:
    flights = list(source.flights(60))
    loader.load_block(flights[:10])
    planes = Plane.objects.count()

    rollback = loader.load_and_roll_back(flights[10:])

    assert (rollback.before, rollback.inside, rollback.after) == (Counts(10, 10), Counts(60, 60), Counts(10, 10))
    assert rollback.clean
    assert Plane.objects.count() == planes

    loader.load_block(flights[10:])
    assert count() == (60, 60)
    assert loader.enqueued.total() == 60


def test_one_and_many_enqueue_the_same(loader: Loader) -> None:
    flights = list(source.flights(4))
    loader.load_one(flights[0])
    loader.load_block(flights[1:])

    sent = Message.objects.order_by("id").values_list("channel__queue", "channel__name", "handler", "payload")
    assert list(sent) == [(QUEUE, flight.carrier, "flights.depart", {"departure": flight.line}) for flight in flights]
    assert list(Departure.objects.values_list("pk", "scheduled_at", "departed_at")) == [
        (flight.line, flight.scheduled_at, flight.departed_at) for flight in flights
    ]
