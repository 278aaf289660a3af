from __future__ import annotations

from typing import Any

from django_pgqueue import dequeue, discard, enqueue, redrive, retry
from django_pgqueue.doctor import Finding, examine
from tests.doctor.conftest import Examine
from tests.support.sql import sql


def die(handler: str, count: int, *, reason: str = "failed", **error: Any) -> list[int]:
    """Messages of the handler that fail at their only attempt."""
    for _ in range(count):
        enqueue(handler, max_attempts=1)
    leased = dequeue(limit=count)
    retry(leased, errors=[{"type": "KeyError", "message": "'id'"} | error] * count, reason=reason)
    return [delivery.id for delivery in leased]


def all_of() -> list[Finding]:
    return examine(only=["dead_letters"]).findings


def test_dead_letters_are_reported_by_handler_and_reason_with_the_error_and_the_command() -> None:
    die("mail.send", 3, message="no such user\n  of 17\n\nat the host\nand more")
    die("mail.send", 1, reason="timed_out")
    die("mail.count", 2)

    first, *others = all_of()

    assert (first.code, first.severity.word) == ("dead_letters", "warning")
    assert "3 message(s) of the handler mail.send are dead letters (failed)" in first.problem
    assert first.facts["error"] == "KeyError: no such user / of 17 / at the host"
    assert first.facts["error"] in first.problem
    assert "manage.py pgqueue redrive dead --handler mail.send --reason failed" in first.action
    assert [(each.facts["handler"], each.facts["reason"]) for each in others] == [
        ("mail.count", "failed"),
        ("mail.send", "timed_out"),
    ]


def test_redriven_and_discarded_messages_are_not_reported(found: Examine) -> None:
    ids = die("mail.send", 2)
    redrive(ids[:1])
    assert found("dead_letters")["dead_letters"].facts["letters"] == 1
    redrive(ids[1:])
    assert found("dead_letters") == {}
    discard([enqueue("mail.send").id])
    assert found("dead_letters") == {}


def test_old_dead_letters_are_a_note(found: Examine) -> None:
    die("mail.send", 1)
    sql("UPDATE pgqueue_dead_letter SET dead_at = dead_at - interval '61 minutes'")
    assert found("dead_letters")["dead_letters"].severity.word == "note"
