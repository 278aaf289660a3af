from __future__ import annotations

import inspect
import pickle
from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from django_pgqueue import Delivery, NewMessage, channel_set, dequeue, enqueue, enqueue_many, handler, handlers
from django_pgqueue.backoff import Constant
from django_pgqueue.delivery import EnqueueOptions
from django_pgqueue.exceptions import InvalidMessage, UnknownHandler
from django_pgqueue.models import Message
from django_pgqueue.signals import message_created
from tests.support.cases import cases

pytestmark = pytest.mark.usefixtures("handlers_restored")


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
    def backoff(attempt, error):
        return timedelta(seconds=attempt)

    handler("tests.constant", backoff=Constant(timedelta(minutes=1)))(lambda delivery: None)
    handler("tests.function", backoff=backoff)(lambda delivery: None)
    constant, function = handlers.get("tests.constant"), handlers.get("tests.function")
    assert (constant.backoff, constant.backoff_function) == (Constant(timedelta(minutes=1)), None)
    assert (function.backoff, function.backoff_function) == (None, backoff)
    with pytest.raises(ValueError, match="backoff of the handler"):
        handler("tests.greet", backoff=5)


@cases(
    ("option", "value", "says"),
    [
        ("timeout", 5, "timeout of the handler 'tests.greet' is 5: it takes a timedelta"),
        ("timeout", timedelta(0), "longer than zero"),
        ("max_attempts", "3", "max_attempts of the handler 'tests.greet' is '3': it takes a whole number"),
        ("max_attempts", 0, "at least 1"),
        ("batch", True, "batch of the handler 'tests.greet' is True: it takes a whole number"),
        ("concurrency", 1.5, "concurrency of the handler 'tests.greet' is 1.5: it takes a whole number"),
        ("queue", "q" * 101, "queue of the handler 'tests.greet' has 101 characters"),
        ("queue", "a\0b", "it takes the name of a queue"),
        ("backoff", timedelta(seconds=-1), "backoff of the handler 'tests.greet' is -1 day, .*must not be negative"),
        ("atomic", "no", "atomic of the handler 'tests.greet' is 'no': it takes True or False"),
        ("queue", None, "queue of the handler 'tests.greet' is None: it takes the name of a queue"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_by_name(option: str, value: object, says: str):
    with pytest.raises(ValueError, match=says):
        handler("tests.greet", **{option: value})


def test_a_decorator_without_parentheses_is_refused_and_the_error_shows_how_to_write_it():
    with pytest.raises(ValueError, match=r'@handler\("tests\.greet"\)'):

        @handler
        def greet(delivery): ...


@pytest.mark.parametrize("name", ["", "x" * 201, 7])
def test_a_name_that_no_message_can_carry_is_refused(name: object):
    with pytest.raises(ValueError, match="1 to 200 characters"):
        handler(name)


def test_a_name_that_postgresql_cannot_store_is_refused():
    with pytest.raises(ValueError, match="which PostgreSQL cannot store"):
        handler("tests\0greet")


@handler("tests.for_functions", queue="emails")
def for_functions(delivery: Delivery): ...


def test_a_handler_pickles_and_is_what_inspect_says_of_its_function():
    assert pickle.loads(pickle.dumps(for_functions)) is for_functions
    assert inspect.isfunction(for_functions)
    assert list(inspect.signature(for_functions).parameters) == ["delivery"]


@pytest.mark.django_db
def test_a_handler_enqueues_its_own_messages():
    channel_set(channel="acme", queue="emails")
    first = for_functions.enqueue({"order": 7}, channel="acme", priority=3)
    second = enqueue(for_functions, {"order": 8}, channel="acme")
    third = async_to_sync(for_functions.aenqueue)({"order": 9}, channel="acme")
    [fourth] = enqueue_many([NewMessage(handler=for_functions, payload={"order": 10}, channel="acme")])
    stored = Message.objects.order_by("id").values_list("id", "handler", "channel__queue", "payload__order")
    assert list(stored) == [
        (answer.id, "tests.for_functions", "emails", order)
        for answer, order in ((first, 7), (second, 8), (third, 9), (fourth, 10))
    ]


def test_the_options_that_a_handler_passes_on_are_those_of_enqueue():
    parameters = inspect.signature(enqueue).parameters.values()
    keywords = {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
    assert EnqueueOptions.__annotations__.keys() == keywords


@pytest.mark.django_db
def test_a_function_that_is_no_handler_or_has_two_names_is_not_enqueued():
    def greet(delivery): ...

    with pytest.raises(InvalidMessage, match=r"greet' is not registered with @handler"):
        enqueue(greet)
    handler("tests.a")(handler("tests.b")(greet))
    with pytest.raises(InvalidMessage, match=r"has 2 names: tests\.a, tests\.b.*Give the name as text"):
        greet.enqueue()
    with pytest.raises(InvalidMessage, match=r"message 1 of 1: .*has 2 names: tests\.a, tests\.b"):
        enqueue_many([NewMessage(handler=greet)])
    with pytest.raises(InvalidMessage, match="handler is neither a name nor a function but int"):
        enqueue(5)
    assert not Message.objects.exists()


@pytest.mark.django_db
def test_receivers_of_a_signal_see_the_name_of_the_handler():
    def greet(delivery): ...

    seen = []

    def receiver(message, **arguments):
        seen.append(message.handler)

    handler("tests.greet")(greet)
    message_created.connect(receiver)
    try:
        enqueue_many([NewMessage(handler=greet)])
    finally:
        message_created.disconnect(receiver)
    assert seen == ["tests.greet"]


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
    channel_set(channel="default", queue="emails")
    handler("tests.greet", queue="emails", max_attempts=7, backoff=timedelta(seconds=9))(lambda delivery: None)
    enqueue("tests.greet")
    enqueue_many([NewMessage(handler="tests.greet")])
    stored = Message.objects.values_list("channel__queue", "max_attempts", "backoff")
    assert list(stored) == [("emails", 7, timedelta(seconds=9))] * 2


@pytest.mark.django_db
def test_the_options_of_the_message_win_over_the_handler():
    channel_set(channel="default", queue="emails")
    channel_set(channel="default")
    handler("tests.greet", queue="emails", max_attempts=7, backoff=timedelta(seconds=9))(lambda delivery: None)
    enqueue("tests.greet", queue="default", max_attempts=2, backoff=timedelta(0))
    [delivery] = dequeue()
    assert delivery.max_attempts == 2
    assert Message.objects.get().backoff == timedelta(0)
    with pytest.raises(InvalidMessage, match="max_attempts"):
        enqueue("tests.greet", max_attempts=0)
