from __future__ import annotations

from datetime import timedelta

from django_pgqueue import Breaker, breaker_open, breaker_set, dequeue, enqueue
from tests.doctor.conftest import Examine
from tests.support.sql import sql


def test_an_open_breaker_is_a_note_and_after_ten_minutes_a_warning(found: Examine) -> None:
    breaker_set("mail", Breaker(pause=timedelta(hours=1)))
    assert found("breakers") == {}
    breaker_open("mail")
    enqueue("mail")
    assert dequeue() == []

    finding = found("breakers")["breaker_open"]

    assert (finding.severity.word, finding.facts["breakers"], finding.facts["waiting"]) == ("note", ["mail"], 1)
    sql("UPDATE pgqueue_limit SET opened_at = opened_at - interval '11 minutes'")
    assert found("breakers")["breaker_open"].severity.word == "warning"
