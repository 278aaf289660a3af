"""Make the command and environment of a process that runs our code, and say how it ended."""

from __future__ import annotations

import os
import signal
import sys

# The service manager's variables are meant for the supervisor, not for its children.
SERVICE_MANAGER_VARIABLES = (
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LISTEN_FDNAMES",
)


def interpreter_command() -> list[str]:
    """Return the command of this interpreter, with its options."""
    flags = [f"-W{option}" for option in sys.warnoptions]
    flags += [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]
    return [sys.executable, *flags]


def child_environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in SERVICE_MANAGER_VARIABLES}
    # As long as the child knows nothing else, it must find its own module.
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def describe_exit(status: int) -> str:
    """Return in words how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
    return f"{name}, possibly killed by the OOM killer" if -status == signal.SIGKILL else name
