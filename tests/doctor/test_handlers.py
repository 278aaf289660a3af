from __future__ import annotations

from django_pgqueue import channel_set, enqueue, handlers
from django_pgqueue.models import Schedule, Worker
from tests.doctor.conftest import Examine
from tests.support.workers import make_worker


def test_messages_that_no_live_worker_has_a_handler_for(found: Examine) -> None:
    make_worker("old", handlers=["mail.send"])
    enqueue("mail.send")
    for _ in range(2):
        enqueue("mail.remind")
    enqueue("mail.count")
    finding = found("handlers")["unknown_handler"]
    assert finding.severity.word == "warning"
    assert (finding.facts["messages"], finding.facts["handlers"]) == (3, 2)
    assert finding.facts["shown"] == ["mail.remind", "mail.count"]
    assert "10 min after a worker first took it" in finding.action
    make_worker("new", handlers=["mail.send", "mail.remind", "mail.count"])
    assert found("handlers") == {}


def test_only_live_workers_of_the_queue_count(found: Examine) -> None:
    channel_set(channel="default", queue="mails")
    enqueue("mail.send", queue="mails")
    make_worker("other", handlers=["mail.send"])
    assert found("handlers").keys() == {"handler_missing"}, "no worker serves the queue: that is another finding"
    make_worker("mails", handlers=[], queues=["mails"])
    gone = make_worker("gone", handlers=["mail.send"], queues=["mails"])
    assert found("handlers") == {}
    Worker.objects.filter(name=gone.name).update(heartbeat_at="2026-01-01T00:00:00Z")
    assert "unknown_handler" in found("handlers")


def test_without_a_worker_a_name_that_no_installed_app_handles_is_found(found: Examine) -> None:
    handlers.handler("mail.send")(lambda delivery: None)
    try:
        enqueue("mail.send")
        assert found("handlers") == {}
        enqueue("mail.sned")
        finding = found("handlers")["handler_missing"]
        assert (finding.severity.word, finding.facts["messages"]) == ("warning", 1)
        assert finding.facts["shown"] == ["mail.sned"]
        assert "that no installed app has, and no worker serves the queue" in finding.problem
    finally:
        handlers.unregister("mail.send")


def test_the_schedules_of_a_handler_that_is_gone_are_named(found: Examine) -> None:
    make_worker("w", handlers=["mail.send"])
    for name, handler, enabled in (("nightly", "gone", True), ("off", "gone", False), ("other", "mail.send", True)):
        Schedule.objects.create(name=name, handler=handler, cron="0 1 * * *", enabled=enabled)
    enqueue("gone")
    finding = found("handlers")["unknown_handler"]
    assert finding.facts["schedules"] == ["nightly"]
    assert finding.problem.endswith("Schedules enqueue them again and again: nightly.")
    assert "pgqueue drop schedule NAME" in finding.action
