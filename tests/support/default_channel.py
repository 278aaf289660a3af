"""The channel ``default``, and empty tables after tests that commit. A conftest imports the fixture for its folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from django_pgqueue import channel_set
from tests.support.tables import empty_tables


@pytest.fixture(autouse=True)
def _default_channel(request: pytest.FixtureRequest, db: None) -> Iterator[None]:
    """Make the channel ``default``. Tests that commit begin and end with empty tables."""
    commits = not connection.in_atomic_block
    if commits:
        empty_tables()
    channel_set(channel="default")
    yield
    if commits:
        empty_tables()
