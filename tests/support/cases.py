"""A table of cases that is one test: what is set up is set up once, and a failure names its case."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from django.db import connection, transaction


def cases(names: str | Iterable[str], table: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the test once for each row of the table: as pytest.mark.parametrize does, but within one test.

    In the transaction of a test with a database, what a case writes is taken back before the next one.

    names   of the parameters that have the values of a row; a row of one name is its value
    """
    parameters = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [(row,) if len(parameters) == 1 else tuple(row) for row in table]
    assert rows, "a table without a row tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            for row in rows:
                case = dict(zip(parameters, row, strict=True))
                try:
                    with ExitStack() as stack:
                        if connection.in_atomic_block:
                            stack.enter_context(transaction.atomic())
                            stack.callback(transaction.set_rollback, True)
                        test(**fixtures, **case)
                except BaseException as error:
                    error.add_note(f"in the case {case!r:.1000}")
                    raise

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in parameters]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]  # pytest reads it
        return run

    return decorate
