"""Steps of a handler: each runs once, its result outlives the delivery, and only the lease may write it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from django_pgqueue import (
    cancel,
    channel_erase,
    channel_set,
    complete,
    dead_letter,
    defer,
    delete_dead,
    dequeue,
    discard,
    enqueue,
    handler,
    lease_release,
    redrive,
    reschedule,
    retry,
)  # fmt: skip
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import HandlerError, InvalidMessage, LeaseLost
from django_pgqueue.flow import Batch, Cursor, asteps_of, steps_of
from django_pgqueue.outcomes import Reject
from django_pgqueue.testing import drain
from tests.support.sql import sql

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("handlers_restored")]


def taken(**options: Any) -> Delivery[Any]:
    enqueue("job", **options)
    [delivery] = dequeue()
    return delivery


def again(delivery: Delivery[Any]) -> Delivery[Any]:
    """Return the next delivery of a message that is given back."""
    defer(delivery)
    [delivery] = dequeue()
    return delivery


def kept() -> list[tuple[Any, ...]]:
    return sql("SELECT message_id, name FROM pgqueue_step ORDER BY message_id, kept_at")


def test_a_step_runs_once_and_a_later_delivery_gets_its_result():
    calls = []

    def charge(amount: int, *, currency: str) -> dict[str, Any]:
        calls.append((amount, currency))
        return {"charge": len(calls), "parts": (1, 2)}

    delivery = taken()
    first = steps_of(delivery)("charge", charge, 7, currency="EUR")
    assert first == {"charge": 1, "parts": [1, 2]}
    assert steps_of(again(delivery))("charge", charge, 7, currency="EUR") == first
    assert calls == [(7, "EUR")]


@pytest.mark.parametrize("result", [None, False, 0, "", [], {"$codec": "x"}])
def test_a_result_that_counts_as_false_is_kept_too(result: Any):
    delivery = taken()
    steps_of(delivery)("look", lambda: result)
    assert steps_of(again(delivery))("look", pytest.fail) == result


def test_steps_are_found_by_name_whatever_their_order():
    delivery = taken()
    step = steps_of(delivery)
    step("one", lambda: 1)
    step("two", lambda: 2)
    step = steps_of(again(delivery))
    assert [step("new", lambda: 3), step("two", pytest.fail), step("one", pytest.fail)] == [3, 2, 1]


def test_a_name_twice_in_one_delivery_is_an_error():
    step = steps_of(taken())
    step("charge", lambda: 1)
    with pytest.raises(HandlerError, match="'charge' is there twice"):
        step("charge", lambda: 2)
    step.cursor("charge")  # another kind


def test_a_step_that_fails_keeps_nothing():
    step = steps_of(taken())
    with pytest.raises(ZeroDivisionError):
        step("divide", lambda: 1 / 0)
    assert kept() == []


@pytest.mark.django_db(transaction=True)
def test_a_lost_lease_writes_nothing_and_reads_nothing():
    old = taken()
    step = steps_of(old)
    step("one", lambda: 1)
    lease_release(old.id)
    [new] = dequeue()
    with pytest.raises(LeaseLost):
        step("two", lambda: 2)
    with pytest.raises(LeaseLost):
        steps_of(old)("one", pytest.fail)
    assert steps_of(new)("two", lambda: 3) == 3


@pytest.mark.django_db(transaction=True)
def test_an_atomic_step_of_a_lost_lease_takes_its_writes_back():
    old = taken()
    step = steps_of(old)
    lease_release(old.id)
    with pytest.raises(LeaseLost):
        step("before", lambda: None)
    step = steps_of(old)
    step._kept = {}  # it looked before the lease was lost
    with pytest.raises(LeaseLost):
        step("write", lambda: Group.objects.create(name="x").pk, atomic=True)
    assert not Group.objects.exists()


def test_an_atomic_step_and_its_writes_are_one(settings: Any):
    delivery = taken()
    step = steps_of(delivery)
    settings.DJANGO_PGQUEUE = {"MAX_PAYLOAD": 100}
    with pytest.raises(InvalidMessage, match="result of the step 'large' takes"):
        step("large", lambda: Group.objects.create(name="x").name * 200, atomic=True)
    assert not Group.objects.exists()
    assert kept() == []
    step("write", lambda: Group.objects.create(name="y").name, atomic=True)
    assert steps_of(again(delivery))("write", pytest.fail, atomic=True) == "y"


@pytest.mark.parametrize("result", [object(), "x" * 200, float("nan"), "\0"])
def test_a_result_that_cannot_be_kept_makes_a_dead_letter_and_is_not_repeated(result: Any, settings: Any):
    settings.DJANGO_PGQUEUE = {"MAX_PAYLOAD": 100}
    with pytest.raises(Reject) as rejected:
        steps_of(taken())("charge", lambda: result)
    assert rejected.value.reason == "step_not_kept"
    assert "the step 'charge' has run, and its result cannot be kept: " in rejected.value.details


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_name_that_is_empty_or_too_long_runs_nothing(name: str):
    with pytest.raises(InvalidMessage, match="1 to 200 characters"):
        steps_of(taken())(name, pytest.fail)


def test_a_transaction_around_a_step_is_refused():
    step = steps_of(taken())
    for atomic in (False, True):
        with transaction.atomic(), pytest.raises(HandlerError, match="is in a transaction"):
            step(f"charge {atomic}", pytest.fail, atomic=atomic)


def test_a_handler_that_is_atomic_has_no_steps():
    handler("job", atomic=True)(lambda delivery: None)
    with pytest.raises(HandlerError, match="has atomic=True"):
        steps_of(taken())


def test_what_is_kept_survives_retries_and_expired_leases():
    delivery = taken()
    steps_of(delivery)("one", lambda: 1)
    retry(delivery, errors=[{"type": "E"}])
    reschedule(delivery.id)
    [delivery] = dequeue()
    assert steps_of(delivery)("one", pytest.fail) == 1
    lease_release(delivery.id)
    [delivery] = dequeue()
    assert steps_of(delivery)("one", pytest.fail) == 1


@pytest.mark.parametrize("member", [False, True])
@pytest.mark.parametrize("end", ["complete", "cancel", "erase"])
def test_it_goes_when_the_message_is_settled_for_good(end: str, member: bool):
    other = taken()
    steps_of(other)("one", lambda: 1)
    channel_set(channel="tenant")
    if member:
        with Batch():
            enqueue("job", channel="tenant")
        [delivery] = dequeue()
    else:
        delivery = taken(channel="tenant")
    steps_of(delivery)("one", lambda: 1)
    if end == "complete":
        complete(delivery)
    elif end == "cancel":
        defer(delivery)
        cancel(delivery.id)
    else:
        defer(delivery)
        channel_erase(queue="default", channel="tenant")
    assert kept() == [(other.id, "one")]


@pytest.mark.parametrize("end", ["discard", "dead_letter"])
def test_a_dead_letter_keeps_it_and_its_redrive_goes_on_with_it(end: str):
    delivery = taken()
    steps_of(delivery)("charge", lambda: 1)
    if end == "discard":
        discard(delivery.id)
    else:
        dead_letter(delivery, reason="no")
    assert kept() == [(delivery.id, "charge")]
    redrive(delivery.id)
    [delivery] = dequeue()
    assert steps_of(delivery)("charge", pytest.fail) == 1
    complete(delivery)
    assert kept() == []


def test_a_dead_letter_that_is_deleted_leaves_nothing():
    delivery = taken()
    steps_of(delivery)("charge", lambda: 1)
    dead_letter(delivery, reason="no")
    delete_dead(delivery.id)
    assert kept() == []


def test_a_codec_encodes_what_is_kept(settings: Any):
    settings.DJANGO_PGQUEUE = {"PAYLOAD_CODEC": "tests.support.codecs.Toy"}
    delivery = taken()
    steps_of(delivery)("charge", lambda: {"card": "secret"})
    assert sql("SELECT value ? '$codec', value::text LIKE '%secret%' FROM pgqueue_step") == [(True, False)]
    assert steps_of(again(delivery))("charge", pytest.fail) == {"card": "secret"}


def test_a_cursor_goes_on_where_it_was():
    delivery = taken()
    with steps_of(delivery).cursor("rows", start=0) as rows:
        assert rows.value == 0
        rows.set(7)
    with steps_of(again(delivery)).cursor("rows", start=0) as rows:
        assert rows.value == 7


@pytest.mark.django_db(transaction=True)
def test_a_cursor_is_written_once_a_second_and_at_the_end():
    delivery = taken()

    def work() -> None:
        with steps_of(delivery).cursor("rows") as rows:
            for number in range(5):
                rows.set(number)
                assert kept() == []
            rows._next = 0.0
            rows.set(5)
            assert kept() == [(delivery.id, "rows")]
            rows.set(6)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert steps_of(delivery).cursor("rows").value == 6


@pytest.mark.django_db(transaction=True)
def test_a_cursor_in_a_transaction_commits_with_it_or_not_at_all():
    delivery = taken()

    def work() -> None:
        with steps_of(delivery).cursor("rows") as rows:
            for number in range(3):
                with transaction.atomic():
                    Group.objects.create(name=str(number))
                    rows.set(number)
                    if number == 2:
                        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert steps_of(delivery).cursor("rows").value == 1
    assert Group.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a_cursor_of_a_lost_lease_raises_unless_an_error_ends_its_block():
    delivery = taken()
    step = steps_of(delivery)

    def work(cursor: Cursor, error: Exception | None) -> None:
        with cursor:
            cursor.note(1)
            if error is not None:
                raise error

    cursors = [step.cursor("a"), step.cursor("b")]
    lease_release(delivery.id)
    with pytest.raises(ZeroDivisionError):
        work(cursors[0], ZeroDivisionError())
    with pytest.raises(LeaseLost):
        work(cursors[1], None)


def test_async_handlers_have_steps_and_cursors():
    calls: list[Any] = []

    async def charge(amount: int) -> int:
        await asyncio.sleep(0)
        calls.append(amount)
        return amount

    @handler("job")
    async def job(delivery: Delivery[Any]) -> Any:
        step = asteps_of(delivery)
        found = [await step("charge", charge, 7), await step("plain", lambda: 8)]
        found += [await step("write", lambda: Group.objects.create(name="x").name, atomic=True)]
        async with await step.cursor("rows", start=0) as rows:
            found.append(rows.value)
            await rows.set(5)
        calls.append(found)
        if delivery.attempt == 1:
            raise ZeroDivisionError
        with pytest.raises(HandlerError, match="no transaction can be around it"):
            await step("bad", charge, 1, atomic=True)

    enqueue("job")
    drain(with_scheduled=True, raise_errors=False)
    assert calls == [7, [7, 8, "x", 0], [7, 8, "x", 5]]
    assert kept() == []


def test_a_coroutine_function_needs_the_async_steps():
    async def charge() -> None: ...

    with pytest.raises(HandlerError, match="coroutine function"):
        steps_of(taken())("charge", charge)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_coroutine_that_nobody_awaits_is_no_result(*, atomic: bool):
    async def charge() -> None: ...

    with pytest.raises(HandlerError, match="'charge' returned a coroutine, which has not run"):
        steps_of(taken())("charge", lambda: charge(), atomic=atomic)
    assert kept() == []
