"""Processes of the machine."""

from __future__ import annotations

import os
from pathlib import Path


def process_exists(pid: int) -> bool:
    """Return whether there is a process with this id. After its end it exists until its parent asks for its status."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def process_runs(pid: int) -> bool:
    """Return whether there is a process with this id that has not ended."""
    return process_exists(pid) and b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
