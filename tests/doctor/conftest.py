"""Trouble is made for real, on PostgreSQL; then it is found, repaired as the finding says, and not found any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
from django.db import connections

from django_pgqueue.doctor import Finding, Limits, examine
from django_pgqueue.embedded.settings import parse_url
from tests.support.default_channel import _default_channel  # noqa: F401  (a fixture, used by all)
from tests.support.faketime import faketime  # noqa: F401  (a fixture)

Examine = Callable[..., dict[str, Finding]]
Elsewhere = Callable[[str], AbstractContextManager[str]]


@pytest.fixture
def found() -> Examine:
    """`found("storage", dead_rows=10)`: the findings of one examination by their codes."""

    def found(only: str, *, using: str | None = None, **limits: Any) -> dict[str, Finding]:
        findings = examine(using=using, limits=Limits(**limits), only=[only]).findings
        assert len({finding.code for finding in findings}) == len(findings), findings
        return {finding.code: finding for finding in findings}

    return found


@pytest.fixture
def elsewhere(django_db_blocker: Any) -> Iterator[Elsewhere]:
    """`with elsewhere(url) as using`: an alias for a database of another server."""

    @contextmanager
    def elsewhere(url: str, name: str = "elsewhere") -> Iterator[str]:
        connections.settings[name] = {**connections.settings["default"], **parse_url(url)}
        try:
            yield name
        finally:
            connections[name].close()
            del connections[name]
            del connections.settings[name]

    with django_db_blocker.unblock():
        yield elsewhere
