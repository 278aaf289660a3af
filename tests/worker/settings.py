"""Of the worker processes under test."""

import os
from pathlib import Path

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.worker.scripted"]

# A test breaks the code under the feet of the worker.
if Path(os.environ.get("BROKEN", "/nonexistent")).exists():
    raise ImportError("the settings are broken")
