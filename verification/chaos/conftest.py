from __future__ import annotations

from collections.abc import Iterator

import pytest

from verification.chaos.server import Server, private_server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server that only these tests use: some of them kill it."""
    with private_server() as server:
        yield server
