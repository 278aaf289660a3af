from __future__ import annotations

from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from django.core.management import call_command

from django_pgqueue import handlers

Import = Callable[..., str]


@pytest.fixture
def queueimport() -> Import:
    def run(*arguments: str) -> str:
        output = StringIO()
        call_command("queueimport", *arguments, stdout=output)
        return output.getvalue()

    return run


@pytest.fixture
def send() -> Iterator[None]:
    """A handler of the project, shop.send."""
    handlers.handler("shop.send", max_attempts=2)(lambda delivery: None)
    yield
    handlers.unregister("shop.send")
