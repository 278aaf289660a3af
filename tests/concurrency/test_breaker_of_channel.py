"""The row of the breaker of one channel is made when it opens, also beside other sessions."""

from __future__ import annotations

import json
import threading
import time

from tests.concurrency.breakers import breaker_set, fail, is_open, pass_pause
from tests.support.sessions import Session, one
from tests.support.verbs import dequeue, enqueue, make_channel, retry, settle

ROW = "SELECT FROM pgqueue_limit WHERE channel_id IS NULL FOR NO KEY UPDATE"


def test_no_message_is_leased_while_another_transaction_held_the_handlers_row(
    session: Session, business: Session
) -> None:
    """The dequeue asks for the row for ten milliseconds, and gets it meanwhile."""
    breaker_set(session, per="channel")
    for number in range(20):
        channel = f"channel {number}"
        make_channel(session, channel)
        business.execute(ROW)
        fail(session, 3, channel)
        waiting = enqueue(session, channel)

        def release() -> None:
            time.sleep(0.005)
            business.rollback()

        releasing = threading.Thread(target=release)
        releasing.start()
        taken = [lease for _ in range(3) for lease in dequeue(session)]
        releasing.join()

        assert waiting not in {lease.id for lease in taken}
        assert dequeue(session, 10) == []
    assert one(session, "SELECT count(*) FROM pgqueue_limit WHERE open_until IS NOT NULL") == 20


def test_after_it_was_one_of_the_handler_late_messages_do_not_open_it_again(session: Session) -> None:
    make_channel(session, "a")
    breaker_set(session)
    assert one(session, "SELECT outcome FROM pgqueue_breaker_close('work')") == "closed"
    settings = {"failures": 3, "within": "1 minute", "pause": "1 hour", "per": "channel"}
    assert one(session, "SELECT outcome FROM pgqueue_breaker_set('work', %s)", json.dumps(settings)) == "changed"
    for _ in range(3):
        enqueue(session, "a")
    late = dequeue(session, 3)
    fail(session, 3)
    enqueue(session, "a")
    assert dequeue(session) == []
    pass_pause(session)
    settle(session, dequeue(session))
    assert not is_open(session)

    retry(session, late, delay="1 hour")

    enqueue(session, "a")
    assert len(dequeue(session)) == 1
