"""Which functions can be handlers: of one delivery or a list, in decorators, sync or async."""

from __future__ import annotations

from functools import wraps

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_pgqueue import Delivery, handler, handlers
from tests.support.cases import cases

pytestmark = pytest.mark.usefixtures("handlers_restored")


def takes_nothing(): ...


def takes_two(delivery, channel): ...


def takes_only_keywords(*, delivery): ...


class Method:
    def handle(self, delivery): ...


@cases("function", [takes_nothing, takes_two, takes_only_keywords, Method.handle])
def test_a_function_that_cannot_be_called_with_one_delivery_is_refused(function):
    with pytest.raises(ValueError, match=rf"one delivery.*{function.__name__}\(delivery: Delivery\)"):
        handler("tests.greet")(function)
    with pytest.raises(ValueError, match=r"a list of deliveries.*list\[Delivery\]"):
        handler("tests.greet", batch=5)(function)
    assert handlers.find("tests.greet") is None


def test_a_method_of_an_object_can_be_a_handler():
    bound = Method().handle
    handler("tests.greet")(bound)
    assert handlers.get("tests.greet").function == bound


def test_a_batch_takes_a_list():
    def one(delivery: Delivery): ...
    def many(deliveries: list[Delivery]): ...

    with pytest.raises(ValueError, match=r"has batch=5, so it is called with a list: take list\[Delivery\]"):
        handler("tests.greet", batch=5)(one)
    with pytest.raises(ValueError, match="takes a list, and is called with one delivery: add batch=100"):
        handler("tests.greet")(many)
    handler("tests.one")(one)
    handler("tests.many", batch=5)(many)


def test_a_decorator_may_take_what_the_function_inside_does_not():
    def with_order(function):
        @wraps(function)
        def wrapper(delivery):
            return function(delivery.payload["order"], delivery.channel)

        return wrapper

    @handler("tests.greet")
    @with_order
    def greet(order: list[int], channel: str): ...

    assert handlers.get("tests.greet").function is greet


def test_a_decorator_that_passes_on_what_it_gets_is_looked_through():
    def traced(function):
        @wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs)

        return wrapper

    with pytest.raises(ValueError, match="add batch=100"):

        @handler("tests.greet")
        @traced
        def greet(deliveries: list[Delivery]): ...


def test_a_function_with_a_yield_is_refused():
    def pages(delivery):
        yield 1

    async def more(delivery):
        yield 1

    for function in (pages, more):
        with pytest.raises(ValueError, match=r"has a yield.*return Defer\(state=…\)"):
            handler("tests.greet")(function)


def test_an_async_function_inside_of_a_decorator_that_is_not_is_refused():
    with pytest.raises(ValueError, match=r"async inside of a decorator that is not.*greet"):

        @handler("tests.greet")
        @transaction.atomic
        async def greet(delivery): ...


def test_an_async_function_that_is_made_sync_is_a_plain_handler():
    @handler("tests.greet")
    @async_to_sync
    async def greet(delivery): ...

    assert not handlers.get("tests.greet").asynchronous


def test_an_object_with_an_async_call_is_async():
    class Greet:
        async def __call__(self, delivery): ...

    handler("tests.greet")(Greet())
    assert handlers.get("tests.greet").asynchronous


def test_a_class_is_no_handler():
    with pytest.raises(ValueError, match="belongs on a function"):
        handler("tests.greet")(Method)
