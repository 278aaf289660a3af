"""Make the command and environment of a child process, and describe how it ended."""

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
    """Return the command line of this Python interpreter with its options -W and -X."""
    flags = [f"-W{option}" for option in sys.warnoptions]
    flags += [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]
    return [sys.executable, *flags]


def child_environment() -> dict[str, str]:
    """Return the environment of a child, without the service manager's variables and with this sys.path."""
    inherited = {name: value for name, value in os.environ.items() if name not in SERVICE_MANAGER_VARIABLES}
    # The child must find its own module before it gets the orders.
    return {**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def describe_exit(status: int) -> str:
    """Return in words how a process ended. ``status``: its exit status, or the negative number of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
    return f"{name}, possibly killed by the OOM killer" if -status == signal.SIGKILL else name
