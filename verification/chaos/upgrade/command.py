"""`manage.py migrate` of this app, there and back, as a process beside those that work."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.paths import REPOSITORY


def start(url: str, target: str = "") -> subprocess.Popen[bytes]:
    """``target``: the last migration to be there; "zero" for none, "" for all."""
    environment = {
        **os.environ,
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "verification.chaos.app.settings",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
    }
    migrate = [sys.executable, "-m", "django", "migrate", "upgrade", *filter(None, [target]), "--skip-checks"]
    return subprocess.Popen(
        migrate, env=environment, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
