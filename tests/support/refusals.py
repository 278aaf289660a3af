"""Refusals: a verb returns them, and the transaction of the caller goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from django.db import transaction

from django_pgqueue.exceptions import PgQueueError
from tests.support.sql import sql


def refuses(error: type[Exception]) -> bool:
    """Return whether the verbs return this error to Python as a refusal: then the transaction stays usable."""
    return issubclass(error, PgQueueError) and error.outcome != ""


def refusal(call: str, *parameters: Any) -> Any:
    """Return the first refusal that this call of a verb returns in SQL."""
    return json.loads(sql(f"SELECT refusal FROM {call} WHERE refusal IS NOT NULL", *parameters)[0][0])


@contextmanager
def refused(error: type[Exception], match: str | None = None) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect this error in the block. The transaction of the test goes on: by itself after a refusal of the queue, by a
    savepoint after other errors."""
    with pytest.raises(error, match=match) as raised, nullcontext() if refuses(error) else transaction.atomic():
        yield raised
    if isinstance(raised.value, PgQueueError):
        assert str(raised.value).strip()


@contextmanager
def rolled_back() -> Iterator[None]:
    """Open a transaction, or a savepoint, that does not commit."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
