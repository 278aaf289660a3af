from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from django_pgqueue import NewMessage, channel_set, dequeue, enqueue, enqueue_many, handler, handlers
from django_pgqueue.backoff import Constant
from django_pgqueue.exceptions import InvalidMessage, UnknownHandler
from django_pgqueue.models import Message


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    before = handlers.names()
    yield
    for name in set(handlers.names()) - set(before):
        handlers.unregister(name)


def test_a_registered_function_is_found_by_its_name():
    @handler("tests.greet", atomic=True, queue="emails", max_attempts=3, backoff=timedelta(seconds=2))
    def greet(delivery):
        return delivery

    found = handlers.get("tests.greet")
    assert found.function is greet
    assert (found.name, found.atomic, found.queue) == ("tests.greet", True, "emails")
    assert (found.max_attempts, found.backoff) == (3, timedelta(seconds=2))
    assert "tests.greet" in handlers.names()


def test_the_function_stays_what_it_was():
    def greet(delivery):
        return delivery

    assert handler("tests.greet")(greet) is greet


def test_defaults_are_modest():
    handler("tests.greet")(lambda delivery: None)
    found = handlers.get("tests.greet")
    assert (found.atomic, found.queue, found.max_attempts, found.backoff) == (False, "default", None, None)


def test_a_backoff_may_be_a_policy_or_a_function():
    def pauses(attempt, error):
        return timedelta(seconds=attempt)

    handler("tests.constant", backoff=Constant(timedelta(minutes=1)))(lambda delivery: None)
    handler("tests.function", backoff=pauses)(lambda delivery: None)
    constant, function = handlers.get("tests.constant"), handlers.get("tests.function")
    assert (constant.backoff, constant.pauses) == (Constant(timedelta(minutes=1)), None)
    assert (function.backoff, function.pauses) == (None, pauses)
    with pytest.raises(ValueError, match="backoff of the handler"):
        handler("tests.greet", backoff=5)


def test_an_unknown_name_is_refused_and_the_error_says_what_to_do():
    with pytest.raises(UnknownHandler, match=r"tests\.nobody") as raised:
        handlers.get("tests.nobody")
    assert "handlers.py" in raised.value.hint
    assert handlers.find("tests.nobody") is None


def test_two_functions_cannot_have_one_name():
    def one(delivery): ...

    def two(delivery): ...

    handler("tests.greet")(one)
    with pytest.raises(ValueError, match=r"Two handlers.*one.*two.*Rename"):
        handler("tests.greet")(two)
    assert handlers.get("tests.greet").function is one


def test_the_same_function_may_be_registered_again():
    def greet(delivery): ...

    handler("tests.greet")(greet)
    handler("tests.greet", max_attempts=9)(greet)
    assert handlers.get("tests.greet").max_attempts == 9


def test_one_function_may_have_two_names():
    def greet(delivery): ...

    handler("tests.a")(handler("tests.b")(greet))
    assert handlers.get("tests.a").function is handlers.get("tests.b").function is greet


def test_handlers_of_installed_apps_are_discovered():
    handlers.autodiscover()
    assert any(name.startswith("flights.") for name in handlers.names())


@pytest.mark.django_db
def test_messages_take_the_policy_of_their_handler():
    channel_set("default", "emails")
    handler("tests.greet", queue="emails", max_attempts=7, backoff=timedelta(seconds=9))(lambda delivery: None)
    enqueue("tests.greet")
    enqueue_many([NewMessage(handler="tests.greet")])
    stored = Message.objects.values_list("channel__queue", "max_attempts", "backoff")
    assert list(stored) == [("emails", 7, timedelta(seconds=9))] * 2


@pytest.mark.django_db
def test_what_the_message_says_wins_over_the_handler():
    channel_set("default", "emails")
    channel_set("default")
    handler("tests.greet", queue="emails", max_attempts=7, backoff=timedelta(seconds=9))(lambda delivery: None)
    enqueue("tests.greet", queue="default", max_attempts=2, backoff=timedelta(0))
    [delivery] = dequeue()
    assert delivery.max_attempts == 2
    assert Message.objects.get().backoff == timedelta(0)
    with pytest.raises(InvalidMessage, match="max_attempts"):
        enqueue("tests.greet", max_attempts=0)
