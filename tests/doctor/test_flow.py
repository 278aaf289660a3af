from __future__ import annotations

from django_pgqueue import NewMessage, channel_set, complete, dequeue, enqueue
from django_pgqueue.flow import Batch
from tests.doctor.conftest import Examine
from tests.support.sql import sql


def test_a_message_that_waits_for_ever_is_found(found: Examine) -> None:
    first = enqueue("h")
    waiting = enqueue("h", after=[first])
    assert found("flow") == {}
    sql("DELETE FROM pgqueue_message WHERE id = %s", first.id)
    finding = found("flow")["wait_endless"]
    assert finding.severity.word == "critical"
    assert finding.facts == {"count": 1, "shown": [waiting.id]}


def test_a_batch_that_nothing_can_follow_is_found(found: Examine) -> None:
    channel_set(channel="small", max_size=1)
    with Batch(on_done=NewMessage(handler="h", channel="small")) as full:
        enqueue("member")
    with Batch(on_done=NewMessage(handler="h", channel="gone")) as refused:
        enqueue("member")
    enqueue("h", channel="small")
    complete([delivery for delivery in dequeue(limit=3) if delivery.handler == "member"])
    findings = found("flow")
    assert findings["batch_full"].facts["shown"] == [full.id]
    assert findings["batch_refused"].facts["shown"] == [refused.id]
    assert 'channel "gone" does not exist' in findings["batch_refused"].problem
