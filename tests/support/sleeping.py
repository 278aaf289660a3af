"""Sleep in a process whose clock is wrong: libfaketime takes an absolute time for a relative one in time.sleep."""

from __future__ import annotations

import os
import threading
import time
from typing import Any


def sleep_by_events() -> None:
    """Replace time.sleep where libfaketime is loaded: a short one fails with EINVAL when the machine is busy."""
    if any(name.startswith("FAKETIME") for name in os.environ):
        time.sleep = wait


def wait(seconds: Any) -> None:
    """Wait for so many seconds on an event that never happens."""
    threading.Event().wait(float(seconds))
