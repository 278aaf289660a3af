from __future__ import annotations

from django.core.management import call_command

from django_pgqueue import channel_set, dequeue, enqueue
from django_pgqueue.models import Channel
from tests.doctor.conftest import Examine
from tests.support.sql import sql


def test_messages_of_a_channel_that_was_deleted_past_the_queue(found: Examine) -> None:
    channel_set(channel="acme", queue="mails")
    acme = Channel.objects.get(name="acme")
    sent = [enqueue("h", channel="acme", queue="mails").id for _ in range(2)]
    enqueue("h")
    assert found("orphans") == {}
    sql("DELETE FROM pgqueue_channel WHERE id = %s", acme.pk)
    finding = found("orphans")["channel_missing"]
    assert finding.severity.word == "critical"
    assert finding.facts == {"messages": 2, "channels": 1, "shown": [acme.pk]}
    assert str(acme.pk) in finding.problem

    sql("INSERT INTO pgqueue_channel (id, queue, name) VALUES (%s, 'mails', 'acme')", acme.pk)
    call_command("pgqueue", "doctor", "--fix", "--only", "counters")
    assert found("orphans") == {}
    assert [delivery.id for delivery in dequeue(queue="mails", limit=9)] == sent
