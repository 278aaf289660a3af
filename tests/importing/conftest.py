from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from django_pgqueue import handlers
from tests.support.commands import output_of

Import = Callable[..., str]


@pytest.fixture
def import_jobs() -> Import:
    return partial(output_of, "pgqueue", "import")


@pytest.fixture
def send() -> Iterator[None]:
    """A handler of the project, shop.send."""
    handlers.handler("shop.send", max_attempts=2)(lambda delivery: None)
    yield
    handlers.unregister("shop.send")
