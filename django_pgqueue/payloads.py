"""Convert the JSON of a payload to the type that the handler's annotation names.

``Delivery[OrderPayload]`` may name a dataclass, a TypedDict, or any type that :func:`converter` lists.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import wraps
from itertools import chain
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Model
from django.utils.dateparse import parse_duration

from django_pgqueue.delivery import Delivery
from django_pgqueue.outcomes import Reject

INVALID = "invalid_payload"
"""The reason of a dead letter whose payload does not fit its handler."""

GONE = "gone"
"""The reason of a dead letter whose payload names a row that is not there."""

Convert = Callable[[Any, str], Any]
"""Takes JSON and the path to it (``payload.lines[0]``), and returns the value. Raises Mismatch."""

JSON_KINDS: dict[type | None, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a text", dict: "an object", list: "a list",
    type(None): "null",
}  # fmt: skip


def read_duration(text: str) -> timedelta:
    """Return the duration of a text in ISO 8601. Raises ValueError."""
    found = parse_duration(text) if text.lstrip("-").startswith("P") else None
    if found is None:
        raise ValueError
    return found


# DjangoJSONEncoder writes these types as text; each has the function that reads the text, and its name in errors.
FROM_TEXT: dict[type, tuple[Callable[[str], Any], str]] = {
    datetime: (datetime.fromisoformat, "a moment in ISO 8601"),
    date: (date.fromisoformat, "a date in ISO 8601"),
    time: (time.fromisoformat, "a time in ISO 8601"),
    Decimal: (Decimal, "a decimal number in a text"),
    UUID: (UUID, "a UUID"),
    timedelta: (read_duration, "a duration in ISO 8601"),
}


class Mismatch(ValueError):
    """A payload does not fit its type. The text names the place and the types, and no value of the payload."""


REFERENCE = {"model", "pk", "using"}
"""The keys of the object that stands for a row of a model."""

FETCHED: ContextVar[Mapping[tuple[type[Model], str, str], Model] | None] = ContextVar("pgqueue_rows", default=None)
"""The rows of the deliveries that are being converted, by model, database and the text of the primary key."""


@dataclass(frozen=True, slots=True)
class PayloadType:
    """Hold the converter of a type, and the ``models`` whose rows its values have, to be fetched."""

    convert: Convert
    models: tuple[type[Model], ...] = ()

    @property
    def rows(self) -> bool:
        """Return whether a value may have rows."""
        return bool(self.models)


def payload_type(annotation: Any) -> PayloadType:
    """Return how a value of the type ``annotation`` is made from JSON. Raises what :func:`converter` raises."""
    return PayloadType(converter(annotation), tuple(models_of(annotation)))


def models_of(annotation: Any) -> Iterator[type[Model]]:
    """Yield the models that a type is, or contains. The type is one that :func:`converter` takes."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    elif is_dataclass(annotation) and isinstance(annotation, type):
        hints = get_type_hints(annotation)
        yield from chain.from_iterable(models_of(hints[field.name]) for field in fields(annotation) if field.init)
    elif hasattr(annotation, "__required_keys__"):
        yield from chain.from_iterable(map(models_of, get_type_hints(annotation, include_extras=True).values()))
    elif get_origin(annotation) is not Literal:
        yield from chain.from_iterable(map(models_of, get_args(annotation)))


def converter(annotation: Any) -> Convert:
    """Return a function that makes a value of the type ``annotation`` from JSON, or raises Mismatch.

    It knows dataclasses, TypedDicts, ``bool``, ``int``, ``float``, ``str``, ``None``, ``Any``, ``list[T]``, ``tuple[T,
    ...]``, ``dict[str, T]``, unions, ``Literal``, enums, ``datetime``, ``date``, ``time``, ``timedelta``, ``Decimal``,
    ``UUID`` and models, whose rows it fetches. Raises TypeError for any other type, and NameError for one that exists
    for the type checker only.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any or annotation is object:
        return lambda value, path: value
    if annotation is None:
        annotation = type(None)
    if origin in (Required, NotRequired):
        return converter(arguments[0])
    if origin in (Union, types.UnionType):
        return union_converter([converter(argument) for argument in arguments])
    if origin is Literal:
        return choice_converter(arguments, arguments)
    if origin in (list, tuple) or annotation is list:
        return sequence_converter(origin or list, arguments)
    if origin is dict or annotation is dict:
        return mapping_converter(arguments)
    if isinstance(annotation, type):
        return class_converter(annotation)
    raise TypeError(f"a payload of the type {annotation!r} cannot be made from JSON")


def class_converter(kind: type) -> Convert:
    """Return the converter of a class. Raises TypeError if its values cannot be made from JSON."""
    # A TypedDict of typing, or of typing_extensions.
    if issubclass(kind, dict) and hasattr(kind, "__required_keys__"):
        hints = get_type_hints(kind, include_extras=True)
        converters = {name: converter(hint) for name, hint in hints.items()}
        # With annotations that are text, __required_keys__ has those that are NotRequired, too.
        optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
        explicit = {name for name, hint in hints.items() if get_origin(hint) is Required}
        return record_converter(kind.__name__, converters, kind.__required_keys__ - optional | explicit, dict)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        known = [field for field in fields(kind) if field.init]
        needed = frozenset(
            field.name for field in known if field.default is MISSING and field.default_factory is MISSING
        )
        return record_converter(
            kind.__name__, {field.name: converter(hints[field.name]) for field in known}, needed, kind
        )
    if issubclass(kind, Enum):
        return choice_converter([member.value for member in kind], list(kind))
    if issubclass(kind, Model):
        return row_converter(kind)
    if kind in FROM_TEXT:
        return text_converter(*FROM_TEXT[kind])
    if kind in JSON_KINDS:
        return plain_converter(kind)
    raise TypeError(f"a payload of the type {kind.__qualname__} cannot be made from JSON")


def plain_converter(kind: type) -> Convert:
    """Return a converter that takes JSON of one simple type only."""
    taken = (int, float) if kind is float else kind

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, taken) or (isinstance(value, bool) and kind is not bool):
            raise Mismatch(f"{path} is {json_kind(value)}, not {JSON_KINDS[kind]}")
        return value

    return convert


def text_converter(read: Callable[[str], Any], words: str) -> Convert:
    """Return a converter that reads a text; ``words`` names the form in errors."""

    def convert(value: Any, path: str) -> Any:
        if isinstance(value, str):
            try:
                return read(value)
            except (ValueError, InvalidOperation):
                pass
        # The exception is not chained, because that of the reader shows the value.
        raise Mismatch(f"{path} is not {words}") from None

    return convert


def row_converter(kind: type[Model]) -> Convert:
    """Return a converter that fetches a row of the model ``kind``, from the database that it was of.

    It raises Reject with the reason ``gone`` if the row is not there: it would not be at the next attempt either.
    """

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict) or value.keys() != REFERENCE:
            raise Mismatch(f"{path} is {json_kind(value)}, not a reference to a {kind.__name__}")
        try:
            model = apps.get_model(value["model"])
        except (LookupError, ValueError, AttributeError):
            raise Mismatch(f"{path} names a model that is not installed") from None
        # The annotation decides which rows a payload may name; a model that inherits from it is one of them.
        if not issubclass(model, kind):
            raise Mismatch(f"{path} is a reference to a {model._meta.label}, not to a {kind.__name__}")
        if fetched := (FETCHED.get() or {}).get((model, str(value["using"]), str(value["pk"]))):
            return fetched
        pk = tuple(value["pk"]) if isinstance(value["pk"], list) else value["pk"]
        try:
            return model._base_manager.using(value["using"]).get(pk=pk)
        except ObjectDoesNotExist:
            problem = f"{path}: the {model._meta.label} is not in the database {value['using']!r}"
            raise Reject(GONE, {"problem": problem}) from None
        except (ValueError, TypeError, ValidationError):
            raise Mismatch(f"{path} has no primary key of {model._meta.label}") from None

    return convert


def choice_converter(values: Any, results: Any) -> Convert:
    """Return a converter that takes one of ``values``, and returns the item of ``results`` at the same place."""
    pairs = list(zip(values, results, strict=True))

    def convert(value: Any, path: str) -> Any:
        for allowed, result in pairs:
            if value == allowed and type(value) is type(allowed):
                return result
        raise Mismatch(f"{path} is none of {', '.join(repr(allowed) for allowed, _ in pairs)}")

    return convert


def union_converter(converters: list[Convert]) -> Convert:
    """Return a converter that tries ``converters`` in their order, and returns the first value."""

    def convert(value: Any, path: str) -> Any:
        problems = []
        for each in converters:
            try:
                return each(value, path)
            except Mismatch as problem:
                problems.append(str(problem))
        raise Mismatch("; and ".join(problems))

    return convert


def sequence_converter(kind: type, arguments: tuple[Any, ...]) -> Convert:
    """Return the converter of a list or tuple. Raises TypeError for an annotation that is wrong.

    ``arguments``: those of the annotation.
    """
    if kind is tuple and arguments[1:] != (...,):
        raise TypeError("a payload with a tuple needs tuple[T, ...]")
    each = converter(arguments[0]) if arguments else converter(Any)

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise Mismatch(f"{path} is {json_kind(value)}, not a list")
        return kind(each(item, f"{path}[{place}]") for place, item in enumerate(value))

    return convert


def mapping_converter(arguments: tuple[Any, ...]) -> Convert:
    """Return the converter of a dict. ``arguments``: those of its annotation. Raises TypeError if keys are not str."""
    if arguments and arguments[0] is not str:
        raise TypeError("the keys of a JSON object are texts: a payload takes dict[str, T]")
    each = converter(arguments[1]) if arguments else converter(Any)

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"{path} is {json_kind(value)}, not an object")
        return {key: each(item, f"{path}[…]") for key, item in value.items()}

    return convert


def record_converter(
    name: str, converters: dict[str, Convert], required: frozenset[str], make: Callable[..., Any]
) -> Convert:
    """Return the converter of an object with named fields.

    ``name``: the type's name, for errors. ``converters``: those of its fields. ``required``: the fields that must be
    there. ``make``: makes the value from the fields. Unknown keys are left out, because the enqueuer may be of a later
    release.
    """

    def convert(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(f"{path} is {json_kind(value)}, not an object for {name}")
        if missing := sorted(required - value.keys()):
            raise Mismatch(f"{path} lacks {', '.join(missing)} of {name}")
        given = {key: each(value[key], f"{path}.{key}") for key, each in converters.items() if key in value}
        try:
            return make(**given)
        except (ValueError, TypeError) as error:
            # The error comes from __post_init__, and its text may show the value.
            raise Mismatch(f"{path} is refused by {name} with {type(error).__name__}") from None

    return convert


def json_kind(value: Any) -> str:
    """Return the kind of a value in the words of errors."""
    return JSON_KINDS.get(type(value), type(value).__name__)


def converting(function: Callable[[Any], Any], kind: PayloadType, *, asynchronous: bool) -> Callable[[Any], Any]:
    """Return the function of a handler, wrapped so that it gets payloads of its type.

    A payload that does not fit raises Reject with the reason ``invalid_payload``: it would not fit at the next
    attempt either. Its details name the place and the problem, and show no value.
    """
    if asynchronous:
        # The loop must not wait for the database.
        fetch = sync_to_async(converted) if kind.rows else None

        @wraps(function)
        async def acall(argument: Any) -> Any:
            taken = await fetch(argument, kind) if fetch else converted(argument, kind)
            return await function(taken)

        return acall

    @wraps(function)
    def call(argument: Any) -> Any:
        return function(converted(argument, kind))

    return call


def converted(argument: Delivery[Any] | list[Delivery[Any]], kind: PayloadType) -> Any:
    """Return copies of the deliveries with payloads of the handler's type.

    Logs, signals and other processes get the payload as it was enqueued. A copy shares its cancellation with the
    worker's delivery. Deliveries that name the same row share its instance. Raises Reject for a payload that does not
    fit.
    """
    deliveries = argument if isinstance(argument, list) else [argument]
    token = FETCHED.set(fetch_rows([delivery.payload for delivery in deliveries], kind.models))
    try:
        taken = [replace(delivery, payload=payload_for(delivery, kind.convert)) for delivery in deliveries]
    except Mismatch as problem:
        raise Reject(INVALID, {"problem": str(problem)}) from None
    finally:
        FETCHED.reset(token)
    return taken if isinstance(argument, list) else taken[0]


def fetch_rows(
    payloads: list[Any], models: tuple[type[Model], ...]
) -> Mapping[tuple[type[Model], str, str], Model] | None:
    """Return the rows that payloads name, with one query for each model and database; None if that saves no query.

    ``models``: those whose rows may be named. References that are wrong are left out: the converter tells of them.
    """
    wanted: dict[tuple[type[Model], str], set[str | int]] = {}
    left = payloads[:] if models else []
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict) and value.keys() == REFERENCE:
            with suppress(LookupError, ValueError, AttributeError):
                model = apps.get_model(value["model"])
                if issubclass(model, models) and isinstance(value["using"], str) and isinstance(value["pk"], str | int):
                    wanted.setdefault((model, value["using"]), set()).add(value["pk"])
        elif isinstance(value, dict):
            left += value.values()
    found = {}
    for (model, using), keys in wanted.items():
        with suppress(ValueError, TypeError, ValidationError):
            for row in model._base_manager.using(using).filter(pk__in=keys) if len(keys) > 1 else ():
                found[model, using, str(row.pk)] = row
    return found or None


def payload_for(delivery: Delivery[Any], convert: Convert) -> Any:
    """Return the payload of the handler's type. Raises Mismatch.

    A message without a payload has an empty object: it is None where the type takes None, and no empty object.
    """
    try:
        return convert(delivery.payload, "payload")
    except Mismatch:
        if delivery.payload != {}:
            raise
        with suppress(Mismatch):
            return convert(None, "payload")
        raise
