"""The cost of a page of the dashboard and a measurement, in CPU time: other programs on the machine change it little.

``createdb cost; DATABASE_URL=postgresql:///cost testproject/manage.py migrate``, then with the same address
``python -m tests.admin.browser.cost --rows 10000000 --channels 10000``, with 0 and 0 where it is filled already. Needs
Linux, and the server on this machine.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import django

BATCH = 1_000_000
ORDERS = ("backlog", "oldest", "dead", "errors", "busy", "limits", "name")
PAGES = 5
# A quarter of a minute at 1,000 messages a second.
LATELY = """
INSERT INTO pgqueue_archived_message (
    id, queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, leased_at,
    archived_at, outcome)
SELECT -1000000000 - n, 'queue' || mod(1 + mod(n, 2000), 10), 'shop' || 1 + mod(n, 2000), 'h', '{}', 0, 1, 5, t.at,
    t.at, t.at, clock_timestamp(), 'completed'
FROM generate_series(1, 15000) AS n, (SELECT clock_timestamp() AS at) AS t
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=BATCH)
    parser.add_argument("--channels", type=int, default=1000)
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    django.setup()

    from django.conf import settings
    from django.contrib.auth.models import User
    from django.core.signals import request_finished, request_started
    from django.db import close_old_connections
    from django.test import Client

    from tests.admin.browser.test_dashboard import PAGE
    from tests.admin.browser.test_large import fill_large
    from tests.support.sql import sql

    # As in production; and all of it on one connection.
    settings.DEBUG, settings.ALLOWED_HOSTS = False, ["*"]
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    fill_large(given.rows, given.channels, batch=BATCH)
    sql("VACUUM ANALYZE")
    client = Client()
    client.force_login(User.objects.create_superuser(f"cost{time.time_ns()}"))

    def both(act: Callable[[], object]) -> str:
        return "server {:.0f} ms, Python {:.0f} ms".format(*spent(act))

    for order in ORDERS:
        client.get(PAGE, {"order": order})
        print(
            f"{PAGES} pages by {order}:",
            both(lambda order=order: [client.get(PAGE, {"order": order}) for _ in range(PAGES)]),
        )
    sql("SELECT pgqueue_measure('0')")
    # The backlog is counted by itself below.
    sql("UPDATE pgqueue_measurement SET counted_in = '1 hour'")
    sql(LATELY)
    every = "SELECT pgqueue_measure('1 microsecond')"
    print("15,000 messages measured:", both(lambda: sql(every)))
    print("nothing measured:", both(lambda: sql(every)))
    print("measured, and the backlog counted:", both(lambda: sql("SELECT pgqueue_measure('0')")))


def spent(act: Callable[[], object]) -> tuple[float, float]:
    """Milliseconds of CPU: of the server for the session of the default connection, and of this process."""
    before, here = of_server(), time.process_time()
    act()
    return of_server() - before, 1000 * (time.process_time() - here)


def of_server() -> float:
    from django.db import connection

    pid = connection.connection.info.backend_pid
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


if __name__ == "__main__":
    main()
