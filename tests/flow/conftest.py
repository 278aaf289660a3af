from __future__ import annotations

import pytest

from tests.support.default_channel import _default_channel  # noqa: F401  (a fixture)
from tests.support.sessions import Connect, Session
from tests.support.verbs import make_channel


@pytest.fixture
def session(connect: Connect) -> Session:
    session = connect(autocommit=True)
    make_channel(session, "default")
    return session


@pytest.fixture
def transactions(connect: Connect) -> list[Session]:
    """Three sessions whose transactions stay open until the test ends them."""
    return [connect(autocommit=False) for _ in range(3)]
