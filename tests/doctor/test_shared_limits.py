from __future__ import annotations

from datetime import timedelta

from django_pgqueue import channel_pause, dequeue, enqueue, handler_pause, handlers, limit_pause, limit_set
from django_pgqueue.limits import UNDECLARED
from django_pgqueue.models import Worker
from tests.doctor.conftest import Examine
from tests.support.moments import pass_time


def test_a_pause_without_an_end_becomes_a_warning_when_messages_wait_for_long(found: Examine) -> None:
    limit_set("stripe", max_concurrency=2)
    limit_pause("stripe", reason="down")
    assert found("shared_limits") == {}, "no message waits"
    enqueue("h", limits=["stripe"])
    assert found("shared_limits")["limit_paused"].severity.word == "note"
    pass_time(minutes=10)
    finding = found("shared_limits")["limit_paused"]
    assert (finding.severity.word, finding.facts["limit"], finding.facts["messages"]) == ("warning", "stripe", 1)
    assert found("shared_limits", waiting=timedelta(hours=1))["limit_paused"].severity.word == "note"


def test_a_handler_that_is_paused_is_the_pause_of_a_limit(found: Examine) -> None:
    handler_pause("h", reason="down")
    enqueue("h")
    dequeue()
    findings = found("shared_limits")
    assert findings["limit_paused"].facts["limit"] == "handler h"
    assert findings["limit_paused"].problem.startswith("The handler h is paused: 1 message(s) wait")
    assert findings["limit_paused"].action.endswith("manage.py pgqueue resume handler h.")
    assert findings["limit_handler_missing"].problem == (
        "The handler h is or was paused, and no worker and no installed app has it."
    )


def test_a_limit_that_nothing_declares_is_critical(found: Examine) -> None:
    limit_set("stripe")
    limit_pause("stripe", reason=UNDECLARED)
    enqueue("h", limits=["stripe"])
    findings = found("shared_limits")
    assert set(findings) == {"limit_undeclared"}
    assert findings["limit_undeclared"].severity.word == "critical"


def test_messages_that_wait_for_long_for_a_full_limit(found: Examine) -> None:
    limit_set("stripe", max_concurrency=1)
    for _ in range(3):
        enqueue("h", limits=["stripe"])
    dequeue(limit=5)
    assert found("shared_limits") == {}
    pass_time(minutes=10)
    finding = found("shared_limits")["limit_waits"]
    assert (finding.severity.word, finding.facts["messages"]) == ("warning", 2)
    assert "all of it is taken" in finding.problem


def test_a_limit_that_has_room_and_is_not_used(found: Examine) -> None:
    limit_set("stripe", max_concurrency=1)
    enqueue("h", limits=["stripe"])
    pass_time(minutes=10)
    assert found("shared_limits")["limit_stuck"].severity.word == "warning"
    channel_pause(reason="why", channel="default")
    assert found("shared_limits") == {}, "the channel itself holds it up"


def test_a_message_that_costs_more_than_the_limit_ever_has(found: Examine) -> None:
    limit_set("openai", release_interval=timedelta(seconds=1), release_burst=100)
    enqueue("h", limits=["openai"], cost=100)
    assert found("shared_limits") == {}
    enqueue("h", limits=["openai"], cost=1_200)
    facts = found("shared_limits")["limit_cost"].facts
    assert (facts["cost"], facts["capacity"]) == (1_200, 100)
    limit_set("openai", max_cost=50)
    assert found("shared_limits")["limit_cost"].facts["capacity"] == 50


def test_a_limit_for_handlers_that_do_not_exist(found: Examine) -> None:
    handlers.handler("h")(lambda delivery: None)
    try:
        limit_set("stripe", handlers=["h", "h.misspelt", "elsewhere"])
        Worker.objects.create(
            name="w", hostname="h", pid=1, queues=["default"], concurrency=1, version="0", handlers=["elsewhere"]
        )
        finding = found("shared_limits")["limit_handler_missing"]
    finally:
        handlers.unregister("h")
    assert (finding.severity.word, finding.facts["shown"]) == ("note", ["h.misspelt"])
