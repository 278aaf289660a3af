"""Check whether a worker is alive: ``python -m django_pgqueue.probe FILE|PORT``, for exec probes and cron.

The module imports only the standard library, because it runs every few seconds.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import time

TIMEOUT_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Probe the worker and print its answer in one line. Returns the exit status: 0 if it is healthy, else 1."""
    parser = argparse.ArgumentParser(prog="python -m django_pgqueue.probe", description=__doc__.splitlines()[0])
    parser.add_argument("target", help="the file of --heartbeat-file, or the port of --probe-port")
    parser.add_argument("--ready", action="store_true", help="ask whether it can work, not only whether it is alive")
    parser.add_argument(
        "--max-age", type=float, default=15.0, help="seconds; an older file counts as dead (default: 15)"
    )
    given = parser.parse_args(arguments)
    ask = ask_port if given.target.isdigit() else ask_file
    good, answer = ask(given.target, ready=given.ready, max_age=given.max_age)
    print(answer)
    return 0 if good else 1


def ask_port(port: str, *, ready: bool, max_age: float) -> tuple[bool, str]:
    """Ask the worker on this port of the local machine. Returns whether it is healthy, and its answer.

    ``ready``: ask whether it can work, not only whether it is alive. ``max_age`` is not used.
    """
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", "/readyz" if ready else "/livez")
        response = connection.getresponse()
        return response.status == 200, response.read().decode()
    except (OSError, http.client.HTTPException) as error:
        return False, f"no answer on port {port}: {error}"
    finally:
        connection.close()


def ask_file(path: str, *, ready: bool, max_age: float) -> tuple[bool, str]:
    """Read the heartbeat file. Returns whether it is at most ``max_age`` seconds old, and its text.

    ``ready``: the file must also report that the worker is ready.
    """
    try:
        age = time.time() - os.stat(path).st_mtime
        with open(path) as file:
            text = file.read()
        good = age <= max_age and (not ready or json.loads(text)["ready"])
    except (OSError, ValueError, KeyError) as error:
        return False, f"{path}: {error}"
    return good, f"{age:.1f} s old: {text}"


if __name__ == "__main__":
    sys.exit(main())
