"""Notify systemd, when it started this process with Type=notify."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def under_systemd() -> bool:
    """Return whether systemd has started this process with Type=notify."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def sd_notify(*lines: str) -> None:
    """Send lines such as READY=1 to systemd. Without systemd, or if it does not listen, nothing is sent."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(lines).encode(), address)


def watchdog_interval() -> float | None:
    """Return a safe interval in seconds between two WATCHDOG=1: a third of WatchdogSec; None without a watchdog."""
    meant_for = os.environ.get("WATCHDOG_PID", "")
    if meant_for and meant_for != str(os.getpid()):
        return None
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 3_000_000 if microseconds.isdigit() and int(microseconds) else None
