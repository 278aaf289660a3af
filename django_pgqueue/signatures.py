"""Check at import, and not at the first message, that a function can be a handler."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import SimpleNamespace
from typing import Any, get_args, get_origin, get_type_hints

from django_pgqueue.backoff import Constant, Exponential, Policy
from django_pgqueue.breakers import MOST_CHARACTERS, Breaker
from django_pgqueue.delivery import Delivery
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.limits import limit_names
from django_pgqueue.payloads import PayloadType, payload_type

# Takes the attempt, counted from 1, and the exception; returns the pause after the failure, or None for the message's
# own back-off.
BackoffFunction = Callable[[int, BaseException], timedelta | None]
LISTS = (list, Sequence, Iterable)
HANDLER_NAME_CHARACTERS = 200
QUEUE_NAME_CHARACTERS = 100
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "OFF")
# Messages that gather are leased, and count for the limits of their channel.
LONGEST_GATHER = timedelta(seconds=10)
UNKNOWN = inspect.Parameter.empty


def check_name(name: Any) -> None:
    """Raise ValueError unless this is a name that a handler may have."""
    if callable(name):
        raise ValueError(
            f"@handler on {locate(name)} has no name: write @handler("
            f'"{getattr(name, "__module__", "app").partition(".")[0]}.{getattr(name, "__name__", "name")}").'
        )
    if not isinstance(name, str) or not 1 <= len(name) <= HANDLER_NAME_CHARACTERS:
        raise ValueError(f"The name of a handler is a text of 1 to {HANDLER_NAME_CHARACTERS} characters, not {name!r}.")
    if "\0" in name:
        raise ValueError(f"The name of a handler contains the character \\0, which PostgreSQL cannot store: {name!r}.")


def check_options(name: str, counts: Mapping[str, Any], *, queue: Any, timeout: Any) -> None:
    """Raise ValueError for an option of a handler that has the wrong type or value."""
    for option, value in counts.items():
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{option} of the handler {name!r} is {value!r}: it takes a whole number.")
        if value < 1:
            raise ValueError(f"{option} of the handler {name!r} is {value}: it must be at least 1.")
    if not isinstance(queue, str) or not queue or "\0" in queue:
        raise ValueError(f"queue of the handler {name!r} is {queue!r}: it takes the name of a queue.")
    if len(queue) > QUEUE_NAME_CHARACTERS:
        raise ValueError(
            f"queue of the handler {name!r} has {len(queue)} characters: a name has {QUEUE_NAME_CHARACTERS} at most."
        )
    if timeout is not None and not isinstance(timeout, timedelta):
        raise ValueError(f"timeout of the handler {name!r} is {timeout!r}: it takes a timedelta.")
    if timeout is not None and timeout <= timedelta(0):
        raise ValueError(f"timeout of the handler {name!r} is {timeout}: it must be longer than zero.")


def check_switches(name: str, switches: Mapping[str, Any]) -> None:
    """Raise ValueError for an option that is neither True nor False: a text like "no" would count as true."""
    for option, value in switches.items():
        if not isinstance(value, bool):
            raise ValueError(f"{option} of the handler {name!r} is {value!r}: it takes True or False.")


def check_gather(name: str, gather: Any, batch: int | None) -> None:
    """Raise ValueError unless a handler with ``batch`` may wait for ``gather``."""
    if gather is None:
        return
    if batch is None:
        raise ValueError(
            f"The handler {name!r} has gather and no batch: add batch=100, the most deliveries of one call."
        )
    if not isinstance(gather, timedelta) or not timedelta(0) < gather <= LONGEST_GATHER:
        raise ValueError(
            f"gather of the handler {name!r} is {gather!r}: it takes a timedelta longer than zero, of at most "
            f"{LONGEST_GATHER.total_seconds():.0f} s."
        )


def check_log(name: str, log: Any) -> None:
    """Raise ValueError unless ``log`` is a level of logging, or None."""
    if log is not None and log not in LOG_LEVELS:
        raise ValueError(f"log of the handler {name!r} is {log!r}: it takes one of {', '.join(LOG_LEVELS)}.")


def refuse_async(name: str, *, atomic: bool) -> None:
    """Raise ValueError for an option that an async function cannot have."""
    if atomic:
        raise ValueError(
            f"The handler {name!r} is async and atomic: Django's transactions belong to one thread. Make it a plain "
            "function."
        )


def check_limits(name: str, limits: Any) -> tuple[str, ...]:
    """Return the names of the shared limits that the handler ``name`` is declared with.

    ``limits``: an iterable of names and Limit objects. Raises ValueError for anything else.
    """
    try:
        return limit_names(limits)
    except InvalidMessage as error:
        raise ValueError(f"limits of the handler {name!r}: {error}") from None


def check_breaker(name: str, breaker: Any) -> None:
    """Raise ValueError unless ``breaker`` may be that of a handler."""
    if breaker is not None and not isinstance(breaker, Breaker):
        raise ValueError(f"breaker of the handler {name!r} is {breaker!r}: it takes a Breaker.")
    if breaker is not None and len(name) > MOST_CHARACTERS:
        raise ValueError(f"the handler {name!r} has a breaker: its name takes {MOST_CHARACTERS} characters at most.")


def split_backoff(name: str, backoff: Any) -> tuple[Policy | None, BackoffFunction | None]:
    """Return the back-off of a handler as a policy or as a function. Raises ValueError."""
    if isinstance(backoff, timedelta) and backoff < timedelta(0):
        raise ValueError(f"backoff of the handler {name!r} is {backoff}: it must not be negative.")
    if backoff is None or isinstance(backoff, timedelta | Constant | Exponential):
        return backoff, None
    if callable(backoff):
        return None, backoff
    raise ValueError(f"backoff of the handler {name!r} is {backoff!r}: it takes a timedelta, a policy or a function.")


def layers(function: Callable[..., Any] | None) -> Iterator[Callable[..., Any]]:
    """Yield the function, the function that it wraps, and so on."""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call has to be awaited: the function is ``async def``, or is an object whose ``__call__`` is."""
    return iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__)


def check_function(name: str, function: Any, batch: int | None) -> PayloadType | None:
    """Check that a function can be the handler ``name``. Returns the type of its payloads, or None.

    ``batch``: the most deliveries of one call; None: the function takes one delivery. Without a type, payloads are
    passed on unchanged. Raises ValueError for a function that the worker cannot call, or whose outcome would be lost.
    """
    if not callable(function) or isinstance(function, type):
        raise ValueError(f"@handler({name!r}) is on {function!r}: it belongs on a function of one delivery.")
    signature = signature_of(f"handler {name!r}", function, batch)
    if signature is None:
        return None
    first = next(iter(signature.parameters.values()))
    if first.kind is inspect.Parameter.VAR_POSITIONAL:
        # The decorator passes its arguments on, so the annotation is that of the function inside.
        first = next(iter(inspect.signature(function).parameters.values()), first)
    return payload_of(name, function, first.annotation, batch)


def check_scheduled(function: Any) -> None:
    """Raise ValueError for a function that no decorator can make a handler, whatever its ``batch``."""
    if not callable(function) or isinstance(function, type):
        raise ValueError(f"@schedule is on {function!r}: it belongs on the function of a handler.")
    signature_of(f"scheduled function {locate(function)}", function, None)


def signature_of(what: str, function: Callable[..., Any], batch: int | None) -> inspect.Signature | None:
    """Return the signature; None for a function in C, which has none.

    Raises ValueError unless the function can be called with one argument, and its outcome is not lost.
    """
    where = locate(function)
    refuse_lost_answers(what, function, where)
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:
        return None
    try:
        signature.bind(None)
    except TypeError:
        takes = "a list of deliveries" if batch else "one delivery"
        example = "deliveries: list[Delivery]" if batch else "delivery: Delivery"
        raise ValueError(
            f"The {what} is called with {takes} and nothing else, which {where}{signature} does not take. "
            f"Write def {where.rpartition('.')[2]}({example})."
        ) from None
    return signature


def locate(function: Any) -> str:
    """Return the function's module and name: ``shop.handlers.confirm``."""
    inner = function.func if isinstance(function, partial) else function
    return f"{getattr(inner, '__module__', '?')}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"


def refuse_lost_answers(what: str, function: Any, where: str) -> None:
    """Raise ValueError for a generator, and for an async function inside of a decorator that does not await it."""
    if isgeneratorfunction(function) or isasyncgenfunction(function):
        raise ValueError(
            f"The {what} has a yield: calling {where} would run nothing of it. Return an outcome; to go on "
            "later with the rest, return Defer(state=…)."
        )
    # Only the wrapper of a context manager is refused: others, such as async_to_sync, run the function that they wrap.
    around = getattr(function, "__globals__", {}).get("__name__")
    if around == "contextlib" and not iscoroutinefunction(function) and iscoroutinefunction(inspect.unwrap(function)):
        raise ValueError(
            f"The {what} is async inside of a decorator that is not, for example transaction.atomic: {where} "
            f"would never be awaited. Use the context manager inside of a plain function."
        )


def payload_of(name: str, function: Any, annotation: Any, batch: int | None) -> PayloadType | None:
    """Return the type of the payload that the annotation names, or None. Raises ValueError."""
    if annotation is UNKNOWN:
        return None
    try:
        annotation = resolved(function, annotation)
    except NameError as error:
        if not isinstance(annotation, str) or "Delivery[" not in annotation or annotation.endswith("[Delivery]"):
            return None
        raise ValueError(
            f"The handler {name!r} takes {annotation}, and {error.name} is not there when it runs: import it outside "
            "of `if TYPE_CHECKING`, so that payloads can be checked."
        ) from None
    origin, arguments = get_origin(annotation), get_args(annotation)
    is_list = annotation is list or origin in LISTS
    if batch is not None and (annotation is Delivery or origin is Delivery):
        raise ValueError(
            f"The handler {name!r} has batch={batch}, so it is called with a list: take list[{spelled(annotation)}], "
            "or leave batch out."
        )
    if batch is None and is_list:
        raise ValueError(
            f"The handler {name!r} takes a list, and is called with one delivery: add batch=100, the most deliveries "
            "of one call, or take a Delivery."
        )
    if is_list and arguments:
        origin, arguments = get_origin(arguments[0]), get_args(arguments[0])
    if origin is not Delivery or arguments[0] is Any:
        return None
    try:
        return payload_type(arguments[0])
    except (TypeError, NameError, RecursionError) as error:
        why = "it contains itself" if isinstance(error, RecursionError) else error
        raise ValueError(
            f"The handler {name!r} takes {spelled(annotation)}: {why}. Use a dataclass or TypedDict of simple types, "
            "or Delivery[Any]."
        ) from None


def resolved(function: Any, annotation: Any) -> Any:
    """Return the type that an annotation names; an annotation that is no text is returned as it is.

    ``function``: where the annotation stands. Returns UNKNOWN for a text that is no type. Raises NameError for a name
    that does not exist at run time.
    """
    if not isinstance(annotation, str):
        return annotation
    inner = inspect.unwrap(function.func if isinstance(function, partial) else function)
    inner = inner if hasattr(inner, "__globals__") else type(inner).__call__
    try:
        # This annotation alone: others may be there for the type checker only.
        alone = SimpleNamespace(__annotations__={"argument": annotation})
        return get_type_hints(alone, getattr(inner, "__globals__", {}), closure_of(inner))["argument"]
    except NameError:
        raise
    except Exception:  # an annotation may be anything
        return UNKNOWN


def closure_of(function: Any) -> dict[str, Any]:
    """Return the names of the function's closure, for resolving annotations."""
    try:
        return dict(inspect.getclosurevars(function).nonlocals)
    except (TypeError, ValueError):
        return {}


def spelled(annotation: Any) -> str:
    """Return the annotation as source code would write it."""
    if not get_args(annotation):
        return getattr(annotation, "__name__", repr(annotation))
    inner = ", ".join(map(spelled, get_args(annotation)))
    return f"{getattr(get_origin(annotation), '__name__', get_origin(annotation))}[{inner}]"
