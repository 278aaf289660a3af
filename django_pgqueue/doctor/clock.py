"""Compare the clock of this host with the database's, and the database's with its own earlier readings.

Leases, delays and rates go by the database's clock alone. A wrong clock of a host shows in its logs and in rows that
handlers write.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

from django_pgqueue.doctor.finding import Finding, Limits, Severity, age_text
from django_pgqueue.sql.call import call

NOW = "SELECT extract(epoch FROM clock_timestamp())::float"
AHEAD = "SELECT max(f.ticked_at) - clock_timestamp() FROM pgqueue_floor AS f"


def examine_clock(using: str, limits: Limits) -> Iterator[Finding]:
    """Report clocks that differ or went back."""
    before = time.time()
    [(there,)] = call(using, NOW)
    after = time.time()
    # The server read its clock between the two moments, so only the certain part of the difference counts.
    difference = timedelta(seconds=max(before - there, there - after, 0.0))
    if difference > limits.clock:
        is_ahead = before > there
        yield Finding(
            "clock_differs",
            Severity.WARNING,
            f"The clock of this host is {age_text(difference)} {'ahead of' if is_ahead else 'behind'} the database's.",
            "Synchronise both with NTP. The queue goes by the database's clock.",
            {"seconds": difference.total_seconds() * (1 if is_ahead else -1)},
        )
    [(ahead,)] = call(using, AHEAD)
    if ahead is not None and ahead > limits.clock:
        yield Finding(
            "clock_went_back",
            Severity.WARNING,
            f"The clock of the database has gone back by at least {age_text(ahead)}: leases last longer by that time.",
            "Synchronise it with NTP, so that it is slewed and does not jump.",
            {"seconds": ahead.total_seconds()},
        )
