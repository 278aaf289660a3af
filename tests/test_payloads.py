from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import pytest

from django_pgqueue import Delivery, Reject, Retry, dequeue, enqueue, handler, handlers
from django_pgqueue.jsonb import to_json
from django_pgqueue.models import DeadLetter as DeadLetterRow
from django_pgqueue.payloads import Mismatch, converter
from django_pgqueue.testing import drain, make_delivery, run_handler
from tests.support.cases import cases
from tests.support.handlers import restored_registry

if TYPE_CHECKING:
    from somewhere import OnlyForTypes

SECRET = "4111-1111-1111-1111"

pytestmark = pytest.mark.usefixtures("handlers_restored")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass(frozen=True)
class Line:
    article: UUID
    price: Decimal
    count: int = 1


@dataclass
class Order:
    number: int
    placed_at: datetime
    lines: list[Line] = field(default_factory=list)
    size: Size | None = None
    note: str = ""


class Mail(TypedDict):
    to: str
    copies: NotRequired[list[str]]


class Cyclic(TypedDict):
    inner: Cyclic


ARTICLE = UUID("12345678-1234-5678-1234-567812345678")
ORDER = Order(7, datetime(2026, 5, 1, 12, tzinfo=UTC), [Line(ARTICLE, Decimal("1.50"), 2)], Size.LARGE)


def test_a_dataclass_comes_out_as_it_went_in():
    @handler("t.order")
    def take(delivery: Delivery[Order]):
        seen.append(delivery.payload)

    seen: list[Order] = []
    run_handler(take, ORDER)
    assert seen == [ORDER]


@dataclass
class Count:
    step: int = 1


@cases(
    ("annotation", "payload"),
    [
        (Delivery[None], None),
        (Delivery[Order | None], None),
        (Delivery[Count], Count()),
        (Delivery[Count | None], Count()),
        (Delivery[dict[str, int]], {}),
        (Delivery, {}),
    ],
)
def test_a_message_without_a_payload_fits_each_type_that_takes_nothing(annotation: Any, payload: Any):
    taken = []

    def take(delivery):
        taken.append(delivery.payload)

    take.__annotations__["delivery"] = annotation
    with restored_registry():
        handler("t.nothing")(take)
        run_handler(take)
    assert taken == [payload]


def test_a_message_without_a_payload_does_not_fit_a_type_with_fields():
    @handler("t.order")
    def take(delivery: Delivery[Order]): ...

    outcome = run_handler(take)
    assert outcome.reason == "invalid_payload"
    assert "payload lacks " in outcome.details["problem"]


def test_a_typed_dict_is_checked_and_stays_a_dict():
    @handler("t.mail")
    def take(delivery: Delivery[Mail]):
        seen.append(delivery.payload)

    seen: list[Mail] = []
    run_handler(take, {"to": "a@b", "since": "release 2"})
    assert seen == [{"to": "a@b"}]


def test_an_async_handler_and_a_batch_get_their_payloads_too():
    @handler("t.async")
    async def take(delivery: Delivery[Order]):
        await asyncio.sleep(0)
        seen.append(delivery.payload)

    @handler("t.batch", batch=3)
    def take_all(deliveries: list[Delivery[Order]]):
        seen.extend(delivery.payload for delivery in deliveries)

    seen: list[Order] = []
    run_handler(take, ORDER)
    run_handler(take_all, ORDER)
    assert seen == [ORDER, ORDER]


def test_the_delivery_has_the_json_again_afterwards():
    @handler("t.order")
    def take(delivery: Delivery[Order]):
        raise ValueError

    delivery = make_delivery(take, ORDER)
    with pytest.raises(ValueError, match=r"^$"):
        handlers.get("t.order").function(delivery)
    assert delivery.payload["number"] == 7
    assert pickle.loads(pickle.dumps(delivery)) == delivery


def test_a_payload_that_does_not_fit_is_refused_and_the_reason_shows_no_value():
    @handler("t.order")
    def take(delivery: Delivery[Order]):
        raise AssertionError("it was called")

    outcome = run_handler(take, {"number": SECRET, "placed_at": "2026-05-01T12:00:00Z"})
    assert outcome == Reject("invalid_payload", {"problem": "payload.number is a text, not a whole number"})


@pytest.mark.django_db
def test_one_bad_payload_of_a_batch_does_not_fail_the_others():
    @handler("t.batch", batch=3, atomic=True)
    def take_all(deliveries: list[Delivery[Mail]]):
        seen.extend(delivery.payload["to"] for delivery in deliveries)

    seen: list[str] = []
    for payload in ({"to": "a"}, {"card": SECRET}, {"to": "c"}):
        enqueue("t.batch", payload)
    drain()
    assert seen == ["a", "c"]
    letter = DeadLetterRow.objects.get()
    assert (letter.reason, letter.details) == ("invalid_payload", {"problem": "payload lacks to of Mail"})


@pytest.mark.django_db
def test_a_dataclass_may_be_enqueued_by_name():
    enqueue("t.order", ORDER)
    [delivery] = dequeue()
    assert delivery.payload == {
        "number": 7, "placed_at": "2026-05-01T12:00:00Z", "size": "l", "note": "",
        "lines": [{"article": str(ARTICLE), "price": "1.50", "count": 2}],
    }  # fmt: skip


@cases(
    ("annotation", "value", "result"),
    [
        (Any, [1], [1]),
        (None, None, None),
        (int | None, None, None),
        (float, 3, 3),
        (bool, True, True),
        (date, "2026-05-01", date(2026, 5, 1)),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict, {"a": "b"}, {"a": "b"}),
        (list, [1, "a"], [1, "a"]),
        (tuple[int, ...], [1, 2], (1, 2)),
        (Literal["a", 1], 1, 1),
        (Size, "s", Size.SMALL),
    ],
)
def test_json_becomes_the_type(annotation: Any, value: Any, result: Any):
    assert converter(annotation)(value, "payload") == result


@cases(
    ("annotation", "value", "problem"),
    [
        (int, True, "payload is true or false, not a whole number"),
        (int, 1.5, "payload is a number, not a whole number"),
        (str, None, "payload is null, not a text"),
        (list[int], [1, SECRET], r"payload\[1\] is a text, not a whole number"),
        (list[int], {}, "payload is an object, not a list"),
        (dict[str, int], {SECRET: "x"}, r"payload\[…\] is a text, not a whole number"),
        (Mail, [], "payload is a list, not an object for Mail"),
        (datetime, SECRET, "payload is not a moment in ISO 8601"),
        (Decimal, SECRET + "x", "payload is not a decimal number in a text"),
        (Size, SECRET, "payload is none of 's', 'l'"),
        (Literal[1], True, "payload is none of 1"),
        (int | None, SECRET, "payload is a text, not a whole number; and payload is a text, not null"),
        (Line, {"article": SECRET, "price": "1"}, "payload.article is not a UUID"),
    ],
)
def test_a_mismatch_names_the_place_and_no_value(annotation: Any, value: Any, problem: str):
    with pytest.raises(Mismatch, match=f"^{problem}$") as raised:
        converter(annotation)(value, "payload")
    assert SECRET not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


def test_an_exception_of_post_init_is_a_mismatch():
    @dataclass
    class Positive:
        number: int

        def __post_init__(self) -> None:
            if self.number < 0:
                raise ValueError(f"{self.number} is negative")

    with pytest.raises(Mismatch, match=r"^payload is refused by Positive with ValueError$"):
        converter(Positive)({"number": -4711}, "payload")


@cases("annotation", [set[int], bytes, tuple[int, int], dict[int, str], pytest, Retry])
def test_a_type_that_json_cannot_become_is_refused_when_the_handler_is_defined(annotation: Any):
    def take(delivery): ...

    take.__annotations__["delivery"] = Delivery[annotation]
    with pytest.raises(ValueError, match=r"The handler 't\.order' takes Delivery\["):
        handler("t.order")(take)
    assert handlers.find("t.order") is None


def test_a_type_that_contains_itself_is_refused():
    with pytest.raises(ValueError, match="it contains itself"):

        @handler("t.order")
        def take(delivery: Delivery[Cyclic]): ...


def test_a_type_that_only_the_type_checker_sees_is_refused_rather_than_not_checked():
    with pytest.raises(ValueError, match="OnlyForTypes is not there when it runs"):

        @handler("t.order")
        def take(delivery: Delivery[OnlyForTypes]): ...


def test_a_delivery_without_a_type_may_be_there_for_the_type_checker_alone():
    def take(delivery): ...
    def take_all(deliveries): ...

    take.__annotations__["delivery"] = "NotImported"
    take_all.__annotations__["deliveries"] = "list[NotImported]"
    handler("t.order")(take)
    handler("t.batch", batch=2)(take_all)
    assert handlers.get("t.order").registered is take


def test_times_keep_their_microseconds() -> None:
    at = datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
    assert json.loads(
        to_json({"at": at, "part": at.replace(tzinfo=None).time(), "plain": at.replace(tzinfo=None)}, "x")
    ) == {"at": "2026-05-01T12:00:00.123456Z", "part": "12:00:00.123456", "plain": "2026-05-01T12:00:00.123456"}
    assert to_json(at.replace(microsecond=123000), "x") == '"2026-05-01T12:00:00.123Z"'
