"""Set up a process that runs our code for another one."""

from __future__ import annotations

import os

from django_pgqueue.worker.link.orders import Orders, database_identity
from django_pgqueue.worker.link.pipe import Link


def prepare_process(orders: Orders, link: Link, *, hint: str = "") -> bool:
    """Set up Django, and check that its settings lead to the database of the process that sent the orders.

    ``hint``: what to do if they do not. Returns whether they do; if not, the link has carried the refusal. Imports
    nothing of Django before the orders say where to find it.
    """
    orders.take_path()

    import django

    django.setup()

    from django.db import connections

    from django_pgqueue.worker.operate.logs import configure_logging

    configure_logging(orders.verbosity)
    found = database_identity(connections[orders.options.using].settings_dict)
    if found == orders.database:
        return True
    refusal = (
        f"the settings module {os.environ['DJANGO_SETTINGS_MODULE']} leads to another database than the process uses "
        f"that started it: {found['NAME']!r}, not {orders.database['NAME']!r}."
    )
    link.send("refused", f"{refusal} {hint}".rstrip())
    return False
