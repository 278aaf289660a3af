from __future__ import annotations

import pytest

from tests.doctor.conftest import Examine
from tests.support.sessions import Connect
from tests.support.waiting import eventually


@pytest.mark.timeout(120)
def test_a_listener_with_an_open_transaction_holds_up_the_queue_of_notifications(
    connect: Connect, found: Examine
) -> None:
    listener, sender = connect(), connect(autocommit=True)
    listener.execute("LISTEN anything")
    listener.commit()
    listener.execute("SELECT 1")
    assert found("notifications") == {}
    # Each a message of its own: equal ones of a transaction are folded.
    sender.execute("SELECT pg_notify('anything', repeat('x', 7000) || n) FROM generate_series(1, 500) AS n")
    finding = found("notifications", notify_usage=1e-5)["notify_queue"]
    assert finding.severity.word == "critical"
    assert finding.facts["usage"] > 1e-4
    listener.commit()
    listener.execute("UNLISTEN anything")
    listener.commit()

    def is_gone() -> bool:
        sender.execute("SELECT pg_notify('anything', repeat('y', 7000) || clock_timestamp())")
        return found("notifications", notify_usage=1e-5) == {}

    eventually(is_gone)
