from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import commands

Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def manage(environment: dict[str, str], transactional_db: None, tmp_path: Path) -> Manage:
    """Runs manage.py in a process of its own, on the test database and with a lake of its own."""

    def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        given = {**environment, "PGQUEUE_LAKE": str(tmp_path / "lake"), **variables}
        return commands.manage(*arguments, seconds=600, **given)

    return manage
