from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

MANAGE = Path(__file__).parents[2] / "testproject" / "manage.py"

Manage = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def manage(environment: dict[str, str], transactional_db: None, tmp_path: Path) -> Manage:
    """Runs manage.py in a process of its own, on the test database and with a lake of its own."""

    def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(MANAGE), *arguments],
            env={**environment, "PGQUEUE_LAKE": str(tmp_path / "lake"), **variables},
            text=True,
            capture_output=True,
            timeout=600,
            check=False,
        )

    return manage
