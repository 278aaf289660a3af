"""Set up Django in a process that a supervisor has started."""

from __future__ import annotations

import os

from django_pgqueue.worker.link.orders import Orders, database_identity
from django_pgqueue.worker.link.pipe import Link


def prepare_process(orders: Orders, link: Link) -> bool:
    """Set up Django and logging, and check that the settings lead to the same database as those of the parent.

    ``orders``: the first frame of ``link``. Returns whether they are the same; if not, the link has carried a frame
    ``refused``. Nothing of Django is imported before ``sys.path`` is set.
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
    differing = [key for key in found if found[key] != orders.database[key]]
    here, there = (", ".join(f"{key} {side[key]!r}" for key in differing) for side in (found, orders.database))
    refusal = (
        f"the settings module {os.environ['DJANGO_SETTINGS_MODULE']} leads to another database than the process uses "
        f"that started it: {here}, not {there}. With settings that were changed at run time, use --processes 0."
    )
    link.send("refused", refusal)
    return False
