"""Sleep in a process whose clock is wrong: libfaketime takes an absolute time for a relative one in time.sleep."""

from __future__ import annotations

import os
import threading
import time


def sleep_by_events() -> None:
    """Replace time.sleep where libfaketime is loaded: a short one fails with EINVAL when the machine is busy."""
    if any(name.startswith("FAKETIME") for name in os.environ):
        time.sleep = lambda seconds: threading.Event().wait(seconds) and None
