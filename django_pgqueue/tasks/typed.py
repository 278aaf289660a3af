"""Convert the arguments of a task to JSON, and back; with ``@options(typed=True)`` by its function's annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import Parameter, signature
from itertools import takewhile
from typing import Any

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import from_json, to_json
from django_pgqueue.outcomes import Reject
from django_pgqueue.payloads import Mismatch, PayloadType, payload_type
from django_pgqueue.signatures import UNKNOWN, locate, resolved
from django_pgqueue.tasks.compat import Task, normalize_json
from django_pgqueue.tasks.options import options_of

Arguments = tuple[list[Any], dict[str, Any]]
ANY_NUMBER: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def stored_arguments(task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Return the arguments of a call as JSON has them.

    Raises TypeError or ValueError, with the name of the argument, for one that is not JSON or, in a typed task, does
    not fit its annotation. Rows are not looked up.
    """

    def stored(value: Any, name: str, kind: PayloadType | None) -> Any:
        what = f"argument {name} of {task.module_path}"
        if kind is None:
            try:
                return normalize_json(value)
            except TypeError as error:
                raise TypeError(
                    f"{what} is not JSON: {error}. Pass text or a primary key, or annotate the parameter, with "
                    "@options(typed=True) on the task."
                ) from None
        json = from_json(to_json(value, what, rows=kind.rows))
        try:
            if not kind.rows:
                kind.convert(json, name)
        except Mismatch as problem:
            raise InvalidMessage(f"{what}: {problem}", hint="Pass what its annotation says.") from None
        return json

    return each_argument(task, args, kwargs, stored)


def called_arguments(task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Arguments:
    """Return the arguments of a call from their JSON. Fetches rows.

    Raises Reject: ``invalid_arguments`` for one that does not fit, and ``gone`` for a row that is not there.
    """
    if not options_of(task).typed:
        return [*args], {**kwargs}
    try:
        return each_argument(
            task, args, kwargs, lambda value, name, kind: value if kind is None else kind.convert(value, name)
        )
    except Mismatch as problem:
        raise Reject("invalid_arguments", {"problem": str(problem)}) from None


def each_argument(
    task: Task,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    convert: Callable[[Any, str, PayloadType | None], Any],
) -> Arguments:
    """Return what ``convert`` makes of each argument, its name and its type; None: it is JSON.

    An argument too many is passed on: the call of the function raises Python's own error.
    """
    kinds = argument_types(task.func, takes_context=task.takes_context, typed=options_of(task).typed)
    names = list(takewhile(lambda name: not name.startswith("*"), kinds))
    names += [f"{place + 1}" for place in range(len(names), len(args))]
    return (
        [convert(value, name, kinds.get(name, kinds.get("*"))) for name, value in zip(names, args, strict=False)],
        {name: convert(value, name, kinds.get(name, kinds.get("**"))) for name, value in kwargs.items()},
    )


@cache
def argument_types(
    function: Callable[..., Any], *, takes_context: bool, typed: bool
) -> Mapping[str, PayloadType | None]:
    """Return the type of each parameter by its name, ``*`` and ``**`` for those of any number; None: it is JSON.

    The positional parameters come before the first star. Raises ValueError for an annotation that JSON cannot become.
    """
    kinds: dict[str, PayloadType | None] = {}
    for parameter in list(signature(function).parameters.values())[takes_context:]:
        if parameter.kind is Parameter.KEYWORD_ONLY:
            kinds.setdefault("*", None)
        kinds[ANY_NUMBER.get(parameter.kind, parameter.name)] = argument_type(function, parameter) if typed else None
    return kinds


def argument_type(function: Callable[..., Any], parameter: Parameter) -> PayloadType | None:
    """Return the type of one parameter, or None if it has no annotation. Raises ValueError."""
    try:
        annotation = resolved(function, parameter.annotation)
        return None if annotation in (UNKNOWN, Any) else payload_type(annotation)
    except (TypeError, NameError, RecursionError) as error:
        raise ValueError(
            f"The task {locate(function)} is typed, and its parameter {parameter.name} cannot be made from JSON: "
            f"{error}. Correct its annotation, or leave out typed=True."
        ) from None
